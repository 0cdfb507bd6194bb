"""The journal: durable at once, told apart from what a crash tore, and read once."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from gateway.errors import ConfigError
from gateway.storage import journal as module
from gateway.storage.files import written_until
from gateway.storage.journal import JOURNAL, Journal, JournalFailed, Left, OtherJournal
from tests.audit.encoders import encoder_of
from tests.storage.suite import event

SECRET = b"s" * 32
LOG = "douane/1"
HALF = 4096
ENCODER = encoder_of(log_id=LOG, keys=(b"k" * 32,))


def entry(name: str, size: int = 0):
    return ENCODER.encode(event(name, target="x" * size))


def names(left: Left, size: int = 0) -> list[str]:
    return [str(one.columns[0]) for one in left.beyond(size)]


@contextmanager
def opened(folder: Path, *, log_id: str = LOG, secret: bytes = SECRET) -> Iterator[Journal]:
    """A journal that was begun, so that nothing is in it."""
    made, _ = Journal.open(folder / JOURNAL, log_id=log_id, secret=secret, half_bytes=HALF)
    made.begin()
    try:
        yield made
    finally:
        made.close()


def put_and_sync(journal: Journal, name: str) -> None:
    journal.put([entry(name)], 1)
    journal.sync()


def left_in(folder: Path) -> Left:
    made, left = Journal.open(folder / JOURNAL, log_id=LOG, secret=SECRET, half_bytes=HALF)
    made.close()
    return left


def change(folder: Path, at: int, to: bytes) -> None:
    with (folder / JOURNAL).open("r+b") as file:
        file.seek(at)
        file.write(to)


def test_what_was_put_is_found_again_in_order(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        assert journal.put([entry("a"), entry("b")], 7)
        assert journal.put([entry("c")], 9)
        written = entry("b")
    left = left_in(tmp_path)
    assert names(left) == ["a", "b", "c"]
    assert left.beyond(0)[1] == written
    assert [names(left, size) for size in (7, 8, 9, 10)] == [["a", "b", "c"], ["b", "c"], ["c"], []]
    assert [left.missing_beyond(size) for size in (5, 7, 9, 10)] == [2, 0, 0, 0]


def test_once_begun_anew_there_is_nothing_in_it(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        for number in range(12):
            journal.put([entry(f"e{number}", 300)], number)
            journal.taken(number + 1)
    assert len(left_in(tmp_path).beyond(0)) > 6
    with opened(tmp_path) as journal:
        journal.put([entry("new")], 3)
    assert names(left_in(tmp_path)) == ["new"]


def test_a_half_is_written_to_again_only_when_the_log_has_all_of_it(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        put = 0
        while put < 100 and journal.put([entry(f"e{put}", 300)], put):
            put += 1
        assert 8 < put < 100
        assert journal.problem == ""
        in_the_first_half = next(
            n for n in range(put) if n == put - 1 or left_in_half(journal, n + 1)
        )
        journal.taken(in_the_first_half)
        assert not journal.put([entry("more", 300)], put)
        journal.taken(in_the_first_half + 1)
        assert journal.put([entry("more", 300)], put)
    left = left_in(tmp_path)
    assert names(left)[-1] == "more"
    assert left.missing_beyond(in_the_first_half + 1) == 0
    assert len(left.beyond(in_the_first_half + 1)) == put - in_the_first_half


def left_in_half(journal: Journal, number: int) -> bool:
    """Whether a record is in the second half."""
    return number > journal._halves[0].last


def test_what_is_larger_than_a_half_has_no_room(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        assert not journal.put([entry(f"e{n}", 300) for n in range(12)], 0)
        assert journal.put([entry("small")], 0)
    assert names(left_in(tmp_path)) == ["small"]


@pytest.mark.parametrize("cut", [1, 30, 120])
def test_a_torn_record_is_none_and_those_before_it_are(tmp_path: Path, cut: int) -> None:
    with opened(tmp_path) as journal:
        journal.put([entry("a")], 0)
        journal.put([entry("b")], 1)
        end = journal._now.end
    change(tmp_path, end - cut - 1, bytes(cut + 1))
    assert names(left_in(tmp_path)) == ["a"]


def test_a_record_that_was_changed_is_missed(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        for index, name in enumerate("abc"):
            journal.put([entry(name)], index)
    content = (tmp_path / JOURNAL).read_bytes()
    change(tmp_path, content.index(b'"id":"b"') + 6, b"x")
    left = left_in(tmp_path)
    assert (names(left), left.missing_beyond(0)) == (["a", "c"], 1)


def test_a_record_with_anothers_number_or_of_an_earlier_turn_does_not_count(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        journal.put([entry("a")], 0)
        journal.put([entry("b")], 1)
    content = (tmp_path / JOURNAL).read_bytes()
    start = content.index(b" 1 {")
    change(tmp_path, start, b" 7 {")
    assert names(left_in(tmp_path)) == ["a"]
    earlier = content[512 : content.index(b"\n", 512) + 1]
    with opened(tmp_path):
        change(tmp_path, 512, earlier)
    assert names(left_in(tmp_path)) == []


def test_digits_without_end_in_what_is_left_of_an_earlier_turn_are_no_number(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as journal:
        journal.put([entry("a")], 1)
        end = journal._now.end
    change(tmp_path, end, b"chosen " + b"1" * 5000 + b" by somebody\n")
    made, left = Journal.open(tmp_path / JOURNAL, log_id=LOG, secret=SECRET, half_bytes=8 * HALF)
    made.close()
    assert names(left) == ["a"]


@pytest.mark.parametrize("at", [1, 99, 65_536, 65_636, 65_637, 199_998, 199_999])
def test_what_stands_behind_zeros_is_read(tmp_path: Path, at: int) -> None:
    content = bytearray(200_000)
    content[100], content[at] = 1, 2
    (tmp_path / "one").write_bytes(content)
    with (tmp_path / "one").open("rb") as file:
        for start in (0, 100):
            last = max(at, 100) + 1 if start == 0 or at > 100 else 101
            assert written_until(file.fileno(), start, 200_000) == last
            assert written_until(file.fileno(), start, 1 << 20) == last
        assert written_until(file.fileno(), 101, max(at, 101)) == 101


def test_it_is_one_logs_and_one_processs(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        journal.put([entry("a")], 0)
        with pytest.raises(ConfigError, match="another process's"):
            left_in(tmp_path)
        looked = Journal.look(tmp_path / JOURNAL, log_id=LOG, secret=SECRET)
        assert names(looked) == ["a"]
    with pytest.raises(OtherJournal, match="not one of this log"), opened(tmp_path, log_id="x"):
        pass
    with pytest.raises(ConfigError, match="was changed"), opened(tmp_path, secret=b"t" * 32):
        pass
    assert Journal.look(tmp_path / "none", log_id=LOG, secret=SECRET) == Left()


def test_one_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").touch()
    with pytest.raises(ConfigError, match="cannot be used"), opened(tmp_path):
        pass


@pytest.mark.parametrize("act", ["pwrite", "fdatasync"])
def test_after_a_failure_it_takes_nothing_more(tmp_path: Path, act: str) -> None:
    with opened(tmp_path) as journal:
        journal.put([entry("a")], 0)
        broken = mock.Mock(wraps=os)
        getattr(broken, act).side_effect = OSError(5, "Input/output error")
        with (
            mock.patch.object(module, "os", broken),
            pytest.raises(JournalFailed, match="cannot be written: Input/output error"),
        ):
            put_and_sync(journal, "b")
        assert "cannot be written" in journal.problem


@pytest.mark.parametrize("moved", [True, False])
def test_what_nobody_would_find_again_is_a_failure(tmp_path: Path, *, moved: bool) -> None:
    with opened(tmp_path) as journal:
        path = tmp_path / JOURNAL
        if moved:
            path.rename(tmp_path / "elsewhere")
        else:
            path.unlink()
        with pytest.raises(JournalFailed, match="renamed or deleted"):
            journal.put([entry("a")], 0)
        assert journal.problem
