"""What is told when the policy in force changes."""

import asyncio
import logging
from pathlib import Path

import pytest

from gateway.config import load
from gateway.domain.audit import AuditRecord
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


async def test_a_bug_in_one_record_keeps_no_later_one_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "douane.yaml").write_text(CONFIG)
    async with open_store(load(tmp_path / "douane.yaml", {})) as store:
        appended: list[str] = []

        async def append(record: AuditRecord) -> None:
            appended.append(str(record.fields["policy_digest"]))
            if len(appended) == 1:
                raise TypeError("a bug")

        monkeypatch.setattr(store.audit, "append", append)
        reporter = PolicyReporter(store, Metrics())
        reporter.begin()
        reporter(EMPTY)
        reporter(PolicyEvent(old="sha256:1", new="sha256:2", ok=True))
        async with asyncio.timeout(60):
            await reporter.settle()
    assert appended == ["sha256:1", "sha256:2"]
    assert "recording a policy change met a bug" in caplog.text


async def test_rules_that_never_hold_are_told_once_they_are_in_force(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "douane.yaml").write_text(CONFIG)
    asked = asyncio.Event()

    async def problems() -> list[str]:
        asked.set()
        return ["a.rego:3: no approved definition has an argument nmae"]

    async with open_store(load(tmp_path / "douane.yaml", {})) as store:
        reporter = PolicyReporter(store, Metrics(), problems=problems)
        reporter.begin()
        reporter(EMPTY)  # the first one is checked by whoever starts it
        assert not asked.is_set()
        reporter(PolicyEvent(old="sha256:1", new="sha256:1", ok=False, problems=("no",)))
        assert not asked.is_set()
        reporter(PolicyEvent(old="sha256:1", new="sha256:2", ok=True))
        async with asyncio.timeout(60):
            await asked.wait()
            await asyncio.sleep(0)
        await reporter.settle()
    said = "policy: in force, and wrong: a.rego:3: no approved definition has an argument nmae"
    assert said in [one.getMessage() for one in caplog.records]
