"""With a spool, calls go on while the log cannot be written; nothing is lost, and it is told."""

import contextlib
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.durability.cuts import cut_power
from benchmarks.durability.kills import kill_under_load
from gateway.storage.connection import Durability
from gateway.storage.database import DATABASE
from tests import backends
from tests.faults.scene import Scene, Told, eventually, gateway, scene
from tests.faults.test_failing_log import BALLAST, fill, locked_by_another_process, small_disk
from tests.faults.test_power_and_kills import recordable

__all__ = ["recordable", "small_disk"]
pytestmark = backends.only(backends.SPOOL)

SPOOL = {"deadline": "2s", "on_failure": "spool", "spool": {"bytes": 1 << 20}}
TRAIL = [("intent", None), ("outcome", None)]
CUTS, ROUNDS, KILLS = 6, 150, 1


def told(at: Scene) -> dict[str, Any]:
    """What /readyz says, which is that the gateway is ready."""
    with urllib.request.urlopen(f"{at.running.admin_url}/readyz", timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def spooled(at: Scene) -> float:
    with urllib.request.urlopen(f"{at.running.admin_url}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    (value,) = [line for line in lines if line.startswith("douane_audit_spooled_records ")]
    return float(value.split()[1])


@contextlib.contextmanager
def moved(path: Path) -> Iterator[None]:
    path.rename(path.with_name("elsewhere"))
    yield
    path.with_name("elsewhere").rename(path)


def calls_until_spooled(at: Scene, records: int) -> list[Told]:
    """Call until so many records are in the spool: the first ones stand in the journal yet."""
    made: list[Told] = []

    def enough() -> bool:
        made.append(at.call())
        return spooled(at) >= records

    assert eventually(enough)
    assert {one.code for one in made} == {None}
    return made


def came_back(at: Scene, before: int, calls: int) -> None:
    """What was spooled is in the log, in order, and the log says so."""
    assert eventually(lambda: spooled(at) == 0)
    assert "audit_spool" not in told(at)
    gaps = [one for one in at.log()[before:] if one["kind"] == "gap"]
    assert sum(one["evidence"]["records"] for one in gaps) >= 2 * calls
    assert at.verified() == ""


def test_calls_go_on_while_another_process_locks_the_log(tmp_path: Path) -> None:
    with scene(tmp_path, audit=SPOOL) as at:
        assert at.call().code is None
        before = len(at.log())
        with locked_by_another_process(tmp_path / "data" / DATABASE):
            made = calls_until_spooled(at, 8)
            assert "records are in the spool" in told(at)["audit_spool"]
        came_back(at, before, 3)
        assert [at.trail(one) for one in made] == [TRAIL] * len(made)


def test_calls_go_on_while_the_log_is_moved_away(tmp_path: Path) -> None:
    with scene(tmp_path, audit=SPOOL) as at:
        assert at.call().code is None
        before = len(at.log())
        with moved(tmp_path / "data" / DATABASE):
            made = [at.call() for _ in range(4)]
            assert {one.code for one in made} == {None}
        came_back(at, before, 4)
        assert [at.trail(one) for one in made] == [TRAIL] * 4


def test_on_a_full_disk_calls_go_on_as_far_as_the_space_that_was_taken(small_disk: Path) -> None:
    small = {**SPOOL, "spool": {"bytes": 65_536}}
    with scene(small_disk, audit=small) as at:
        assert at.call().code is None
        before = len(at.log())
        fill(small_disk / "data")
        made = [at.call()]
        while made[-1].code is None and len(made) < 400:
            made.append(at.call())
        *answered, refused = made
        assert refused.code == "audit_unavailable"
        assert spooled(at) > 20
        status, checks = at.readiness
        assert (status, list(checks)) == (503, ["audit"])
        assert "the spool is full" in checks["audit"]

        (small_disk / "data" / BALLAST).unlink()
        assert eventually(lambda: at.readiness == (200, {}))
        came_back(at, before, 10)
        assert [at.trail(one) for one in answered] == [TRAIL] * len(answered)
        # Whichever of its two records the space did not suffice for: nothing went out unrecorded.
        begun, answer = (one in at.trail(refused) for one in TRAIL)
        assert (begun, answer) == (bool(at.forwarded(refused)), False)
        after = at.call()
        assert (after.code, at.trail(after)) == (None, TRAIL)


def test_what_was_spooled_when_the_process_was_killed_comes_back(tmp_path: Path) -> None:
    with scene(tmp_path, audit=SPOOL) as at:
        assert at.call().code is None
        with locked_by_another_process(tmp_path / "data" / DATABASE):
            made = calls_until_spooled(at, 4)
            at.running.process.kill()
            at.running.process.wait()
        with gateway(tmp_path, at.raw, audit=SPOOL) as running:
            after = Scene(running=running, raw=at.raw)
            assert [after.trail(one) for one in made] == [TRAIL] * len(made)
            (found,) = [one for one in after.log() if one.get("code") == "recovered"]
            assert found["evidence"]["clean"] is False
            assert found["evidence"]["spooled"] >= 4
            assert "the last process ended without warning" in running.log
            assert after.verified() == ""


def test_no_record_in_the_spool_is_lost_to_a_power_cut(recordable: None, tmp_path: Path) -> None:
    losses = cut_power(Durability.POWER, CUTS, tmp_path, rounds=ROUNDS, spool=True)
    assert (losses.cuts, losses.losing, losses.broken) == (CUTS, 0, [])
    assert losses.recovered > CUTS


def test_no_answered_call_is_lost_when_the_process_is_killed_while_it_spools(
    tmp_path: Path,
) -> None:
    survival = kill_under_load(tmp_path, KILLS, spool=True)
    assert survival.problems == []
    assert survival.kills == KILLS
    assert survival.spooled > 10
