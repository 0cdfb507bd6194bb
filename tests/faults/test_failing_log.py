"""A log that cannot be written stops every call, tells /readyz, and loses nothing."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.storage.database import CHECKPOINT, DATABASE
from tests.backends import FILES, only
from tests.faults.scene import Scene, Told, eventually, gateway, scene

pytestmark = only(FILES)
BALLAST = "ballast"
LOCKING = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def locked_by_another_process(path: Path) -> Iterator[None]:
    """Another program holds the database's write lock."""
    command = [sys.executable, "-c", LOCKING, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"locked\n"
            yield
        finally:
            process.stdin.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder whose `data` is a file system of 8 MB."""
    data = tmp_path / "data"
    data.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(data)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "--lazy", str(data)], check=True)


def fill(folder: Path) -> None:
    """Leave no byte free."""
    with (folder / BALLAST).open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while True:
            ballast.write(b"x" * 4096)


def calls_until_refused(at: Scene, most: int = 400) -> list[Told]:
    """Call until the log takes no more; what it has allocated already still holds some records."""
    made = [at.call()]
    while made[-1].code is None and len(made) < most:
        made.append(at.call())
    return made


def test_a_full_disk_stops_calls_until_there_is_space(small_disk: Path) -> None:
    with scene(small_disk) as at:
        assert at.call().code is None
        fill(small_disk / "data")
        *answered, refused = calls_until_refused(at)
        assert refused.code == "audit_unavailable"
        made = [refused, *(at.call() for _ in range(5))]
        assert {one.code for one in made} == {"audit_unavailable"}
        # Of these calls one at most was sent: that whose outcome did not fit any more.
        assert sum(at.forwarded(one) for one in made) <= 1
        assert {at.forwarded(one) for one in made[1:]} == {0}
        status, checks = at.readiness
        assert (status, list(checks)) == (503, ["audit"])

        (small_disk / "data" / BALLAST).unlink()
        assert eventually(lambda: at.readiness == (200, {}))
        after = at.call()
        assert (after.code, at.trail(after)) == (None, [("intent", None), ("outcome", None)])
        for one in answered:
            assert at.trail(one) == [("intent", None), ("outcome", None)]
        assert at.verified() == ""


def test_a_database_that_another_process_locks_stops_calls_until_it_lets_go(at: Scene) -> None:
    with locked_by_another_process(at.running.folder / "data" / DATABASE):
        *answered, refused = calls_until_refused(at)  # the journal is enough for the first ones
        assert refused.code == "audit_unavailable"
        status, checks = at.readiness
        assert (status, list(checks)) == (503, ["audit"])
    assert eventually(lambda: at.readiness == (200, {}))
    for one in answered:
        assert at.trail(one) == [("intent", None), ("outcome", None)]
    # The refusal may be written down late. If the journal had its intent before, it was sent.
    begun = at.trail(refused)[:1] == [("intent", None)]
    assert {kind for kind, _ in at.trail(refused)} <= {"intent", "outcome"}
    assert at.forwarded(refused) <= begun
    again = at.call()
    assert (again.code, at.trail(again)) == (None, [("intent", None), ("outcome", None)])
    assert at.verified() == ""


def test_a_database_that_is_moved_away_stops_calls_until_it_is_back(tmp_path: Path) -> None:
    with scene(tmp_path) as at:
        before = at.call()
        path = tmp_path / "data" / DATABASE
        path.rename(tmp_path / "elsewhere")
        refused = at.call()
        assert (refused.code, at.forwarded(refused)) == ("audit_unavailable", 0)
        assert at.readiness == (503, {"audit": "the database file was renamed or deleted"})
        assert not path.exists()
        (tmp_path / "elsewhere").rename(path)
        assert eventually(lambda: at.readiness == (200, {}))  # and it was signed again
        after = at.call()
        assert [one.code for one in (before, after)] == [None, None]
        assert at.trail(refused) == []
        assert at.trail(before) == at.trail(after) == [("intent", None), ("outcome", None)]
        assert at.verified() == ""


def test_a_database_that_is_deleted_stops_calls_and_is_not_begun_anew(tmp_path: Path) -> None:
    with scene(tmp_path) as at:
        assert at.call().code is None
        for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm"):
            (tmp_path / "data" / name).unlink()
        refused = at.call()
        assert (refused.code, at.forwarded(refused)) == ("audit_unavailable", 0)
        assert at.readiness[0] == 503
        assert not (tmp_path / "data" / DATABASE).exists()
        at.running.process.terminate()
        at.running.process.wait(timeout=60)
        with pytest.raises(RuntimeError, match="does not match its own checkpoint"):  # noqa: SIM117
            with gateway(tmp_path, at.raw):
                pass
        assert (tmp_path / "data" / CHECKPOINT).exists()
