"""What a file sink returned for is in the file, whole, whatever happened to the file before."""

import json
import os
from pathlib import Path

import pytest

from gateway.audit.forms import Form, Written, written_as
from gateway.export.file import FileSink
from gateway.ports.following import NotDelivered
from tests.export.test_collector import record

JSONL = written_as(Form.JSONL, version="1")


def indexes(file: Path) -> list[int]:
    return [json.loads(line)["leaf_index"] for line in file.read_text().splitlines()]


async def test_records_are_appended_for_the_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "out"
    sink = FileSink(file, JSONL, rotate_bytes=1 << 20)
    await sink.deliver([record(0), record(1)])
    await FileSink(file, JSONL, rotate_bytes=1 << 20).deliver([record(2)])
    assert indexes(file) == [0, 1, 2]
    assert file.stat().st_mode & 0o777 == 0o600


async def test_a_file_is_turned_over_by_size_and_named_by_its_last_record(tmp_path: Path) -> None:
    file = tmp_path / "out"
    sink = FileSink(file, JSONL, rotate_bytes=100)
    for index in range(4):
        await sink.deliver([record(index)])
    turned = sorted(tmp_path.glob("out.*"))
    assert [one.name for one in turned] == [
        "out.000000000000",
        "out.000000000001",
        "out.000000000002",
    ]
    assert [indexes(one) for one in [*turned, file]] == [[0], [1], [2], [3]]


async def test_a_file_of_an_earlier_log_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "out.000000000000").write_text("earlier")
    sink = FileSink(tmp_path / "out", JSONL, rotate_bytes=10)
    await sink.deliver([record(0)])
    await sink.deliver([record(1)])
    assert (tmp_path / "out.000000000000").read_text() == "earlier"
    assert indexes(tmp_path / "out.000000000000+") == [0]


async def test_a_line_that_broke_off_is_ended_and_nothing_is_taken_away(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text('{"leaf_in')
    await FileSink(file, JSONL, rotate_bytes=1 << 20).deliver([record(0)])
    first, second = file.read_text().splitlines()
    assert first == '{"leaf_in'
    assert json.loads(second)["leaf_index"] == 0


async def test_a_table_has_its_head_once(tmp_path: Path) -> None:
    file = tmp_path / "out"
    sink = FileSink(file, Written(media="", of=lambda _: b"row\n", head=b"head\n"), rotate_bytes=99)
    await sink.deliver([record(0)])
    await sink.deliver([record(1)])
    assert file.read_text() == "head\nrow\nrow\n"


async def test_a_file_that_was_moved_away_is_begun_anew(tmp_path: Path) -> None:
    file = tmp_path / "out"
    sink = FileSink(file, JSONL, rotate_bytes=1 << 20)
    await sink.deliver([record(0)])
    file.rename(tmp_path / "taken")
    await sink.deliver([record(1)])
    assert (indexes(tmp_path / "taken"), indexes(file)) == ([0], [1])


async def test_records_are_on_the_disk_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def fsync(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))

    monkeypatch.setattr(os, "fsync", fsync)
    sink = FileSink(tmp_path / "out", JSONL, rotate_bytes=1 << 20)
    await sink.deliver([record(0)])
    await sink.deliver([record(1)])
    assert synced == [str(tmp_path), str(tmp_path / "out"), str(tmp_path / "out")]


async def test_a_place_that_cannot_be_written_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "elsewhere").write_text("theirs")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "link", "pipe", "absent/out"):
        with pytest.raises(NotDelivered, match=name):
            await FileSink(tmp_path / name, JSONL, rotate_bytes=99).deliver([record(0)])
    assert (tmp_path / "elsewhere").read_text() == "theirs"
