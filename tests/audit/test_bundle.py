"""An export says by itself whether it is what was signed, and where it is not."""

import base64
import json
import random
from itertools import pairwise

import pytest

from gateway.audit.bundle import BundleCheck, BundleWriter, NotABundle, bundle_lines, perfect_parts
from gateway.audit.bundle import BundleVerification as Found
from gateway.audit.merkle import leaf_hash
from tests.audit.exported import SignedLog

LOG = SignedLog(45)
SHOWN = {
    "the whole log": range(45),
    "the beginning": range(20),
    "the end": range(13, 45),
    "one record": [21],
    "a selection": [0, 3, 4, 17, 30, 31, 44],
    "nothing": [],
}


def checked(lines: list[bytes], *, kept: tuple[str, ...] = (), **log: SignedLog) -> Found:
    verifier = log.get("log", LOG).verifier
    notes = [(f"kept {number}", note) for number, note in enumerate(kept)]
    return BundleCheck(verifier, notes).run(lines)


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN.keys())
def test_every_selection_leads_to_the_root_that_was_signed(shown: list[int]) -> None:
    found = checked(LOG.export(shown))
    assert found == Found(
        ok=True,
        key=str(LOG.verifier),
        size=45,
        root=LOG.root_of(range(45)).hex(),
        records=len(shown),
        first=min(shown, default=None),
        last=max(shown, default=None),
        gaps=max(shown) - min(shown) + 1 - len(shown) if shown else 0,
        checkpoints=1,
    )


def test_a_selection_of_a_large_log_is_small() -> None:
    """Each record needs no more than the path to it: 2 * log2(n) subtrees."""
    big = SignedLog(3000)
    assert len(big.export([1499])) <= 2 + 2 * 12 + 1


@pytest.mark.parametrize("size", range(1, 20))
def test_parts_are_the_largest_perfect_subtrees(size: int) -> None:
    for start in range(size):
        parts = list(perfect_parts(start, size))
        assert [index for part in parts for index in part] == list(range(start, size))
        for part in parts:
            assert len(part) & (len(part) - 1) == 0
            assert part.start % len(part) == 0
        for left, right in pairwise(parts):
            assert len(left) != len(right) or (left.start // len(left)) % 2 == 1


def test_what_was_changed_is_named() -> None:
    lines = LOG.export(range(45), heads=[19])
    lines[8] = lines[8].replace(b"0007", b"1007")
    found = checked(lines)
    assert (found.ok, found.reason, found.line) == (False, "record 7 was changed", 9)
    assert (found.records, found.size) == (7, 7)


def test_what_was_changed_together_with_its_leaf_is_between_two_checkpoints() -> None:
    lines = LOG.export(range(45), heads=[9, 19])
    forged = SignedLog(45)
    forged.bodies[14] = forged.bodies[14].replace(b"0014", b"9914")
    (line,) = [line for line in BundleWriterOf(forged).record(14) if b"9914" in line]
    lines[16] = line
    found = checked(lines)
    assert found.reason == "one of the records 10 to 19 was changed or moved"


class BundleWriterOf:
    """Writes single lines."""

    def __init__(self, log: SignedLog) -> None:
        self._writer = BundleWriter(key=log.verifier, size=45, root_of=log.root_of)
        self._log = log

    def record(self, index: int) -> list[bytes]:
        return [line.encode() for line in self._writer.record(index, self._log.bodies[index])]


def test_an_export_is_of_the_log_whose_key_is_trusted() -> None:
    """Whoever signs another history names another key in it, and is believed by nobody."""
    other = SignedLog(45, seed=2)
    assert checked(other.export(range(45)), log=other).ok
    assert BundleCheck().run(other.export(range(45))).key == str(other.verifier)
    found = checked(other.export(range(45)))
    assert found.reason == f"the export is of {other.verifier}, not of {LOG.verifier}"


def test_a_key_of_another_name_is_another_log() -> None:
    lines = LOG.export([3])
    header = json.loads(lines[0])
    lines[0] = json.dumps({**header, "log_id": "douane/other"}).encode() + b"\n"
    assert checked(lines).reason.startswith("the export is of ")


def test_a_checkpoint_that_was_kept_has_to_be_met() -> None:
    lines = LOG.export(range(20), size=40)
    assert checked(lines, kept=(LOG.note(12), LOG.note(40))).checkpoints == 3
    found = checked(lines, kept=(LOG.note(45),))
    assert (found.ok, found.reason) == (False, "kept 0: 45 records were signed, here are 40")
    found = checked(lines, kept=(LOG.note(27),))
    assert found.reason == "kept 0: the records around 27 are left out here"


def test_a_history_that_was_signed_anew_is_shown_by_a_checkpoint_that_was_kept() -> None:
    rewritten = SignedLog(45)
    rewritten.bodies[2] = rewritten.bodies[2].replace(b"0002", b"9902")
    rewritten.leaves[2] = leaf_hash(rewritten.bodies[2])
    lines = rewritten.export(range(45))
    assert checked(lines).ok
    assert checked(lines, kept=(LOG.note(5),)).reason == "kept 0: the first 5 records are others"


def test_an_empty_log_that_was_signed_proves_that_it_is_empty() -> None:
    empty = SignedLog(0)
    found = checked(empty.export([]), log=empty)
    assert (found.ok, found.size, found.checkpoints) == (True, 0, 1)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"{}\n",
        b"[]\n",
        b"\xff\n",
        b"[" * 100_000 + b"\n",
        b'{"leaf_index":0,"leaf_hash":"00","body":"{}"}\n',
        b'{"format":"douane-log/2","log_id":"","key":"","size":0,"selection":{}}\n',
        b'{"format":"douane-log/1","log_id":"","key":"","size":0,"selection":{}}\n',
        b'{"format":"douane-log/1","log_id":"","key":"x","size":0}\n',
        b'{"format":"douane-log/1","log_id":"","key":1,"size":0,"selection":{}}\n',
        b'{"format":"douane-log/1","log_id":"","key":"x","size":-1,"selection":{}}\n',
        b'{"format":"douane-log/1","log_id":"","key":"x","size":true,"selection":{}}\n',
        b'{"format":"douane-log/1","log_id":"","key":"x","size":0,"selection":[]}\n',
        b'{"format":"douane-log/1","log_id":"","key":"\\ud800+00000000+%s","size":0,"selection":{}}\n'
        % base64.b64encode(b"\x01" * 33),
    ],
    ids=range(15),
)
def test_what_does_not_begin_as_an_export_is_none(line: bytes) -> None:
    with pytest.raises(NotABundle):
        checked([line] if line else [])


BAD_LINES = {
    "cut off": b'{"checkpoint":""}',
    "no JSON": b"-\n",
    "no object": b"7\n",
    "twice": b'{"leaf_index":0,"left_out":1,"left_out":1,"root":"' + b"0" * 64 + b'"}\n',
    "a member more": b'{"leaf_index":0,"left_out":1,"root":"' + b"0" * 64 + b'","x":1}\n',
    "no number": b'{"leaf_index":"0","left_out":1,"root":"' + b"0" * 64 + b'"}\n',
    "a truth": b'{"leaf_index":false,"left_out":1,"root":"' + b"0" * 64 + b'"}\n',
    "a fraction": b'{"leaf_index":0.0,"left_out":1,"root":"' + b"0" * 64 + b'"}\n',
    "nothing left out": b'{"leaf_index":0,"left_out":0,"root":"' + b"0" * 64 + b'"}\n',
    "no subtree": b'{"leaf_index":0,"left_out":3,"root":"' + b"0" * 64 + b'"}\n',
    "huge": b'{"leaf_index":0,"left_out":1' + b"0" * 4000 + b',"root":"' + b"0" * 64 + b'"}\n',
    "a short hash": b'{"leaf_index":0,"left_out":1,"root":"00"}\n',
    "a spaced hash": b'{"leaf_index":0,"left_out":1,"root":"' + b"00 " * 32 + b'"}\n',
    "no text": b'{"leaf_index":0,"leaf_hash":"' + b"0" * 64 + b'","body":{}}\n',
    "half a character": b'{"leaf_index":0,"leaf_hash":"' + b"0" * 64 + b'","body":"\\ud800"}\n',
    "no note": b'{"checkpoint":{}}\n',
    "half a note": b'{"checkpoint":"\\ud800\\n\\n\xe2\x80\x94 x AAAA\\n"}\n',
    "an unsigned note": b'{"checkpoint":"douane/0123456789abcdef\\n0\\nAAAA\\n"}\n',
}


@pytest.mark.parametrize("line", BAD_LINES.values(), ids=BAD_LINES.keys())
def test_a_line_that_is_not_of_the_form_ends_the_check(line: bytes) -> None:
    lines = LOG.export([0, 1])
    lines.insert(1, line)
    found = checked(lines)
    assert (found.ok, found.line, found.size) == (False, 2, 0)
    assert found.reason


def test_the_end_and_its_checkpoint_have_to_be_there() -> None:
    lines = LOG.export(range(45), heads=[19])
    assert checked(lines[:-1]).reason == "the checkpoint of 45 records is missing"
    assert checked(lines[:22]).reason == "the export ends after 20 of 45 records"
    assert checked(lines[:1]).reason == "the export ends after 0 of 45 records"


def test_records_stand_in_their_order() -> None:
    lines = LOG.export(range(45))
    lines[1], lines[2] = lines[2], lines[1]
    found = checked(lines)
    assert (found.reason, found.line) == ("record 1 stands where 0 belongs", 2)


def test_a_record_has_one_place() -> None:
    writer = BundleWriter(key=LOG.verifier, size=3, root_of=LOG.root_of)
    list(writer.record(1, b"{}"))
    for index in (0, 1, 3):
        with pytest.raises(ValueError, match="no place here"):
            list(writer.record(index, b"{}"))
    for size in (1, 4):
        with pytest.raises(ValueError, match="no place here"):
            list(writer.checkpoint(size, ""))


def test_a_whole_file_is_written_at_once() -> None:
    writer = BundleWriter(key=LOG.verifier, size=45, root_of=LOG.root_of)
    records = [(index, LOG.bodies[index]) for index in range(4, 9)]
    lines = bundle_lines(writer, records, (45, LOG.note(45)))
    assert [line.encode() for line in lines] == LOG.export(range(4, 9))


def test_random_selections_verify_and_random_bytes_do_not() -> None:
    dice = random.Random(9)
    for _ in range(60):
        size = dice.randrange(1, 46)
        shown = [index for index in range(size) if dice.random() < dice.choice((0.1, 0.5, 0.9))]
        lines = LOG.export(shown, size=size)
        assert checked(lines).ok
        number = dice.randrange(1, len(lines))
        line = bytearray(lines[number])
        line[dice.randrange(len(line))] ^= 1 << dice.randrange(8)
        changed = b"".join([*lines[:number], bytes(line), *lines[number + 1 :]])
        assert not checked(changed.splitlines(keepends=True)).ok
