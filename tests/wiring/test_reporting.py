"""What is told when the policy in force changes."""

import logging
from pathlib import Path

import pytest

from gateway.config import load
from gateway.policy.settings import PolicyEvent
from gateway.web.metrics import Metrics
from gateway.wiring.foundation import open_store
from gateway.wiring.reporting import CandidateReporter, PolicyReporter

CONFIG = "version: 1\npublic_url: http://127.0.0.1:8080\ndata_dir: ./data\n"
EMPTY = PolicyEvent(old="", new="sha256:1", ok=True, empty=True, notices=("nothing decides",))


async def test_what_is_remarkable_about_a_policy_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "douane.yaml").write_text(CONFIG)
    metrics = Metrics()
    async with open_store(load(tmp_path / "douane.yaml", {})) as store:
        for reporter in (PolicyReporter(store, metrics), CandidateReporter(store, Metrics())):
            reporter.begin()
            reporter(EMPTY)
            await reporter.settle()
    told = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert told == ["policy: nothing decides"] * 2
    assert b"\ndouane_policy_empty 1.0\n" in metrics.page()
