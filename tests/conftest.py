"""What holds for every test.

Property tests are alike at every run: the same examples, and no deadline on a busy machine; more of
them with `--full`. `pytest --hypothesis-profile default` looks at new examples.

Gateways are forked from a process that has loaded them, and what was found out about a policy is
remembered for the run (`tests.forks`, `tests.remembered`). What wants PostgreSQL gets one
(`tests.postgres`), and with `DOUANE_TEST_STORAGE=postgres` every gateway (`tests.backends`).
"""

import gc
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests import backends, forks, longest_first, quick, remembered, reports, tables, together

if TYPE_CHECKING:
    from tests.postgres import Postgres

settings.register_profile("quick", settings.get_profile("ci"), max_examples=10)
settings.register_profile("test", settings.get_profile("ci"), max_examples=20)
settings.load_profile("test")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="only what needs a moment (tests.quick)")
    parser.addoption("--together", action="store_true", help="small cases at once (tests.together)")
    parser.addoption("--full", action="store_true", help="also the cases that are marked `full`")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the first process; the workers are told by it
        os.environ[remembered.KEPT_IN] = tempfile.mkdtemp(prefix="douane-remembered-")
        if backends.SHARED:
            config.pluginmanager.register(backends.Counted())
    remembered.begin()
    tables.begin()
    forks.begin()
    gc.disable()  # what is collected stays: a search of it finds nothing, and is made 1,600 times
    if config.getoption("--quick"):
        settings.load_profile("quick")
    elif config.getoption("--full"):
        settings.load_profile("ci")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.getoption("--quick") and quick.is_left_out(collection_path, config.rootpath):
        return True
    return None


def pytest_pycollect_makeitem(
    collector: pytest.Collector, name: str, obj: object
) -> pytest.Function | None:
    if collector.config.getoption("--together") and name.startswith("test_"):
        return together.item_of(collector, name, obj)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make no items of cases that are not run: there are as many of them as of all others."""
    if not metafunc.config.getoption("--full"):
        every, only_first = metafunc.parametrize, metafunc.config.getoption("--quick")
        metafunc.parametrize = quick.parametrizing(every, only_first=only_first)  # type: ignore[method-assign]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left: list[pytest.Item] = []
    if not config.getoption("--full"):
        items[:], left = quick.without_full(items)
    if config.getoption("--quick"):
        items[:], more = quick.chosen(items)
        left += more
    elif among := getattr(config, "workerinput", None):
        items[:] = longest_first.in_rows(items, among["workercount"])
    if left:
        config.hook.pytest_deselected(items=left)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if reports.tells_all(item.config):
        return None
    reports.run_and_tell(item, nextitem)
    return True


def pytest_collection_finish() -> None:
    """Keep what was collected out of every search for garbage: it is as much as a test makes in hours.

    Also what of it is garbage: a first search takes each worker a second, and finds little.
    """
    gc.freeze()
    gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    forks.end()
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(remembered.KEPT_IN), ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> "Postgres":
    """The PostgreSQL of this run: `fresh()` is the address of an empty database."""
    from tests.postgres import shared

    return shared()
