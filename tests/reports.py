"""What a worker tells the first process of its tests: how each went, and not that nothing was wrong around it.

Each test is set up, called and torn down, and each of that is a message with a report in it. For most
tests that takes longer than the test, on both sides; a run says of what passed only that it did.
"""

from collections.abc import Sequence

import pytest
from _pytest.runner import runtestprotocol


def tells_all(config: pytest.Config) -> bool:
    """Whether every report is wanted: in the first process, and where times are asked for."""
    return not hasattr(config, "workerinput") or config.getoption("durations") is not None


def run_and_tell(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Run a test, and tell of it what counts."""
    for report in told(runtestprotocol(item, log=False, nextitem=nextitem)):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def told(reports: Sequence[pytest.TestReport]) -> Sequence[pytest.TestReport]:
    """Return the call, and whatever of the rest is not simply well."""
    return [one for one in reports if one.when == "call" or not one.passed]
