"""docs/audit-storage.md says what the code does: its numbers, its members, its defaults."""

from gateway.config.audit import Audit
from gateway.config.keeping import Checkpoints, SpoolSection
from gateway.storage import recovery, retention, spooling
from gateway.storage.recovery import Found
from gateway.wiring import watching
from tests.docs.pages import ROOT, prose, rows, spans

PAGE = ROOT / "docs" / "audit-storage.md"


def test_every_member_of_what_is_found_is_told() -> None:
    told = {name for row in rows(PAGE, "member") for name in spans(row["member"])}
    assert told == set(Found().members)


def test_the_defaults_are_those_of_the_configuration() -> None:
    text = prose(PAGE)
    checkpoints, audit = Checkpoints(), Audit()
    assert (checkpoints.every, checkpoints.records) == (1.0, 5000)
    assert "`audit.checkpoints.every` (`1s`)" in text
    assert "(`5000`)" in text
    assert audit.heartbeat == 60.0
    assert "`audit.heartbeat` (`60s`)" in text
    assert SpoolSection().bytes == 64 << 20
    assert (audit.on_failure, audit.retention) == ("refuse", None)


def test_the_numbers_are_the_codes() -> None:
    text = prose(PAGE)
    assert f"{recovery._LOOKED_AT:,} records" in text
    assert f"{retention.SEGMENT_RECORDS:,} records each" in text
    assert watching.LOW_BYTES == 256 << 20
    assert "less than 256 MiB free" in text
    assert (watching.JUMP_S, spooling._AGAIN_S) == (2.0, 0.5)
