"""`douane audit export` into files and as Parquet: whole or not at all, and nothing lost."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click.testing
import orjson
import pyarrow.parquet as pq
import pytest

from gateway.audit.merkle import leaf_hash
from gateway.cli import audit_export
from gateway.cli.failure import Failed
from gateway.cli.whole_file import whole_file
from gateway.storage.reader import LogReader
from tests.admin.world import sighting
from tests.cli.world import Site
from tests.running import DOUANE


@pytest.fixture
def full(site: Site) -> Site:
    """A site with some records: approvals, and the looks at the log."""
    site.seen = [sighting("send"), sighting("read")]
    site.run("pins", "approve", "mail", "send")
    site.run("pins", "approve", "mail", "read")
    site.run("audit", "query")
    return site


def exported(site: Site, *arguments: str) -> Path:
    file = site.folder / "record.parquet"
    told = site.run("audit", "export", "--format", "parquet", "--output", str(file), *arguments)
    assert (told.exit_code, told.output) == (0, "")
    return file


def parts(site: Site) -> list[str]:
    return sorted(path.name for path in site.folder.iterdir() if "record" in path.name)


@pytest.mark.parametrize("asked", [(), ("--where", "kind = pin")], ids=["all", "some"])
def test_a_parquet_file_holds_what_the_lines_do(full: Site, asked: tuple[str, ...]) -> None:
    table = pq.read_table(exported(full, *asked))
    text = full.run("audit", "export", *asked).stdout
    found = table.to_pylist()
    # What is exported later has the record of the earlier export as well.
    lines = [json.loads(line) for line in text.splitlines()][: len(found)]
    assert [{**orjson.loads(row["body"]), **leaf_of(row)} for row in found] == lines
    assert len(found) == (2 if asked else 3)
    assert all(leaf_hash(row["body"].encode()) == row["leaf_hash"] for row in found)
    selection = json.loads(table.schema.metadata[b"douane.selection"])
    assert selection == ({"where": "kind = pin"} if asked else {})
    assert table.schema.metadata[b"douane.log_id"].decode() == lines[0]["log_id"]


def test_a_log_that_is_late_is_said_to_be_beside_what_is_in_it(
    full: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogReader, "lag_s", lambda _: 4.23)
    for words in (("query", "--json"), ("export",)):
        told = full.run("audit", *words)
        assert "the log is 4.2 s late: what was recorded since" in told.stderr
        assert all(json.loads(line) for line in told.stdout.splitlines())


def leaf_of(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"leaf_index": row["leaf_index"], "leaf_hash": row["leaf_hash"].hex()}


def test_a_running_gateway_gives_one_as_well(full: Site) -> None:
    with full.running():
        table = pq.read_table(exported(full))
    assert table.num_rows == 3
    assert table.schema.metadata[b"douane.log_id"].decode() == full.log_id


def test_a_parquet_file_of_nothing_says_of_which_log_it_is(full: Site) -> None:
    table = pq.read_table(exported(full, "--where", "kind = gap"))
    assert table.num_rows == 0
    metadata = table.schema.metadata
    assert metadata[b"douane.log_id"].decode() == full.log_id
    assert metadata[b"douane.key"].decode().startswith(f"{full.log_id}+")
    assert int(metadata[b"douane.size"]) == 3


def test_a_parquet_file_goes_into_a_pipe_and_never_onto_a_terminal(
    full: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = full.run("audit", "export", "--format", "parquet")
    assert pq.read_table(io.BytesIO(told.stdout_bytes)).num_rows == 3

    monkeypatch.setattr(click.testing._NamedTextIOWrapper, "isatty", lambda self: True)
    told = full.run("audit", "export", "--format", "parquet")
    assert (told.exit_code, told.stdout_bytes) == (2, b"")
    assert told.stderr == "douane: parquet is not for a terminal; give --output FILE\n"
    exported(full)


def test_without_the_library_the_extra_is_named_and_nothing_is_read(
    full: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "gateway.export.parquet", raising=False)
    file = full.folder / "record.parquet"
    told = full.run("audit", "export", "--format", "parquet", "--output", str(file))
    assert told.exit_code == 2
    assert told.stderr == "douane: parquet needs pyarrow: pip install 'douane[parquet]'\n"
    assert parts(full) == []
    reads = full.rows("audit", "query", "--where", "method = audit.records")
    assert reads == []


@pytest.mark.parametrize("form", ["jsonl", "csv", "ocsf", "cef", "otlp", "bundle"])
def test_any_form_goes_into_a_file_as_it_goes_to_standard_output(full: Site, form: str) -> None:
    file = full.folder / f"record.{form}"
    asked = ("audit", "export", "--format", form, "--where", "kind = pin")
    assert full.run(*asked, "--output", str(file)).exit_code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    written, printed = file.read_bytes(), full.run(*asked).stdout_bytes
    if form == "bundle":  # its last lines are of the log as it has grown
        assert written.count(b'"body"') == printed.count(b'"body"') == 2
    else:
        assert written == printed != b""


def test_a_file_that_is_there_is_left_alone_and_nothing_is_read(full: Site) -> None:
    file = full.folder / "record.jsonl"
    file.write_text("another export")
    told = full.run("audit", "export", "--output", str(file))
    assert (told.exit_code, told.stdout) == (2, "")
    assert told.stderr == f"douane: {file} is there already; give another name\n"
    assert file.read_text() == "another export"
    assert full.rows("audit", "query", "--where", "method = audit.records") == []


def test_a_folder_that_is_not_there_is_said(full: Site) -> None:
    file = full.folder / "nowhere" / "record.jsonl"
    told = full.run("audit", "export", "--output", str(file))
    assert told.exit_code == 2
    assert told.stderr == f"douane: {file} cannot be written: No such file or directory\n"


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_an_export_that_breaks_off_leaves_no_file(
    full: Site, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    batches = audit_export._batches

    def broken(lines: Iterator[Mapping[str, Any]]) -> Iterator[Any]:
        yield from batches(lines)
        raise Failed("the gateway broke off", exit_code=1)

    monkeypatch.setattr(audit_export, "_batches", broken)
    file = full.folder / "record"
    told = full.run("audit", "export", "--format", form, "--output", str(file))
    assert (told.exit_code, told.stderr) == (1, "douane: the gateway broke off\n")
    assert parts(full) == []


def test_a_file_that_somebody_made_meanwhile_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "record"

    def slowly() -> None:
        with whole_file(file) as target:
            target.write(b"ours")
            assert not file.exists()
            file.write_bytes(b"theirs")

    with pytest.raises(Failed, match="is there already"):
        slowly()
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [
        ("record", b"theirs")
    ]


def test_a_disk_that_is_full_leaves_no_file(tmp_path: Path) -> None:
    def write() -> None:
        with whole_file(tmp_path / "record"):
            raise OSError(28, "No space left on device")

    with pytest.raises(Failed, match="cannot be written: No space left on device"):
        write()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_a_full_disk_behind_standard_output_is_said_in_one_line(full: Site) -> None:
    command = [DOUANE, "--config", str(full.config_file), "audit", "export"]
    with Path("/dev/full").open("wb") as disk:
        told = subprocess.run(command, stdout=disk, stderr=subprocess.PIPE, text=True, check=False)
    assert (told.returncode, told.stderr) == (
        1,
        "douane: the export is cut off: No space left on device\n",
    )
