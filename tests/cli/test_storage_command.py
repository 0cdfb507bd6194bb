"""`douane storage`: it says what to write first, how far it is, and what serves again."""

import json
import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli import main
from gateway.cli.storage import _Bar, _Lines
from gateway.storage.files import DirectoryLock
from gateway.storage.moving.mark import Moved, Way, mark_in
from gateway.storage.moving.marking import keep_mark

MOVED = Moved(way=Way.GONE, move="m", log_id="douane/1", other="the database d", at=1.0)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "douane.yaml"
    (tmp_path / "data").mkdir()
    path.write_text(
        f"version: 1\npublic_url: http://127.0.0.1:1\ndata_dir: {tmp_path / 'data'}\n"
        f"policy: {{path: {tmp_path}}}\n"
    )
    return path


def douane(config: Path, *words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, ["--config", str(config), *words], env=dict(os.environ))
    return done.exit_code, done.stdout, done.stderr


def test_where_it_is_moved_to_is_written_first(config: Path) -> None:
    status, _, told = douane(config, "storage", "migrate")
    assert (status, "storage.kind: write `postgres`" in told) == (2, True)
    status, _, told = douane(config, "storage", "migrate", "--back", "there")
    assert (status, "storage.kind: write `postgres`" in told) == (2, True)


def test_it_goes_one_way_at_a_time(config: Path) -> None:
    status, _, told = douane(config, "storage", "migrate", "--from", "here", "--back", "there")
    assert (status, "either --from or --back" in told) == (2, True)


def test_a_folder_that_was_moved_serves_again_when_somebody_says_so(
    config: Path, tmp_path: Path
) -> None:
    status, _, told = douane(config, "storage", "reopen")
    assert (status, "was not moved: it serves" in told) == (2, True)
    keep_mark(tmp_path / "data", MOVED)
    status, said, _ = douane(config, "storage", "reopen", "--json")
    assert (status, '"had_gone_to":"the database d"' in said) == (0, True)
    assert mark_in(tmp_path / "data") is None


def test_that_it_serves_again_is_on_record(config: Path, tmp_path: Path) -> None:
    keep_mark(tmp_path / "data", MOVED)
    assert douane(config, "storage", "reopen")[0] == 0
    words = ("audit", "query", "--where", "method = storage.reopen", "--json")
    (record,) = map(json.loads, douane(config, *words)[1].splitlines())
    told = f"{tmp_path / 'data'}, which had gone to the database d"
    assert (record["kind"], record["code"]) == ("admin", "reopened")
    assert record["principal"] == f"os:{pwd.getpwuid(os.getuid()).pw_name}"
    assert record["reasons"] == [{"code": "reopened", "message": told}]


def test_what_cannot_be_recorded_is_done_and_says_so(config: Path, tmp_path: Path) -> None:
    keep_mark(tmp_path / "data", MOVED)
    (tmp_path / "data" / "douane.db").write_bytes(b"no database")
    status, _, told = douane(config, "storage", "reopen")
    assert (status, "it is reopened" in told, "not on record" in told) == (2, True, True)
    assert mark_in(tmp_path / "data") is None


def test_a_folder_that_somebody_has_is_not_reopened(config: Path, tmp_path: Path) -> None:
    """Whoever moves it, or a gateway on the database to which it went."""
    keep_mark(tmp_path / "data", MOVED)
    lock = DirectoryLock(tmp_path / "data")
    status, _, told = douane(config, "storage", "reopen")
    assert (status, f"is in use by process {os.getpid()}" in told) == (2, True)
    assert mark_in(tmp_path / "data") == MOVED
    lock.release()
    assert douane(config, "storage", "reopen")[0] == 0


def test_whoever_checks_a_folder_that_was_moved_is_told(config: Path, tmp_path: Path) -> None:
    keep_mark(tmp_path / "data", MOVED)
    status, said, _ = douane(config, "check")
    assert (status, "nothing is served from here" in said) == (1, True)


def told_by(tell: Callable[[str, int, int], None]) -> None:
    for done in (1, 2, 4):
        tell("records", done, 4)
    for done in (0, 1):
        tell("the rest", done, 1)


def test_a_terminal_has_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    told_by(_Bar())
    full = "#" * 30
    first, second, _ = capsys.readouterr().err.split("\n")
    assert first.split("\r")[1:] == [
        f"[{'#' * 7}{'.' * 23}]  25 % records",
        f"[{'#' * 15}{'.' * 15}]  50 % records",
        f"[{full}] 100 % records",
    ]
    assert second.endswith(f"[{full}] 100 % the rest")


def test_a_log_has_lines(capsys: pytest.CaptureFixture[str]) -> None:
    told_by(_Lines())
    assert capsys.readouterr().err.splitlines() == [
        "records: 1 of 4",
        "records: 4 of 4",
        "the rest",
        "the rest: done",
    ]
