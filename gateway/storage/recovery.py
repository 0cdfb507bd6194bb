"""What the log was found like when it was opened: how the last process ended, and what it left."""

import sqlite3
import struct
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gateway.domain._value import value

STARTED = "started"
STOPPED = "stopped"
"""Codes of the records that a process begins and ends with."""

FOUND = ("opened", "recovered")
"""Codes of the record that says what the log was like at a start: in order, or not."""

_LOOKED_AT = 20_000
_LARGEST_WAL_BYTES = 16 << 20
_WAL_MAGIC = 0x377F0682
_WAL_HEADER = struct.Struct(">8I")
_FRAME_HEADER = struct.Struct(">6I")
_SUMMED_OF_FRAME = 8
_MOST = 0xFFFFFFFF


@value
class WalTail:
    """What stood in the write-ahead log behind its last commit."""

    pages: int = 0
    """Whole pages of a transaction that did not come to its end."""
    torn: bool = False
    """Whether a page was half written."""


@value
class FromJournal:
    """What came from the journal into the log."""

    records: int = 0
    """Those that were durable there alone."""
    missing: int = 0
    """Those that should stand between them, and cannot be read."""
    set_aside: str = ""
    """The file's name now, if it was not this log's to read; empty if it was."""


@value
class Found:
    """What the log was like before this process added anything to it."""

    records: int = 0
    clean: bool = True
    """Whether the last process ended by itself; a log without any process so far is clean."""
    outcome_unknown: int = 0
    """Intents of the last process without an outcome, among its newest records."""
    unsigned: int = 0
    """Records that no checkpoint covered; they are signed now."""
    unfinished_pages: int = 0
    torn: bool = False
    """See `WalTail`. None of it was ever acknowledged."""
    journaled: int = 0
    """Records that were in the journal and not in the database yet: nothing is wrong with that."""
    journal_missing: int = 0
    """Records that should stand among those, and cannot be read."""
    journal_set_aside: str = ""
    """The name of the file that the journal is now, as its head is not this log's: another one's, or
    damaged. What stood in it alone is not in the log."""
    spooled: int = 0
    """Records that waited in the spool."""
    spool_unreadable_bytes: int = 0
    clock_back_s: float = 0.0
    """By how much the clock is behind the last record's time."""

    @property
    def members(self) -> Mapping[str, Any]:
        """The same as JSON."""
        return asdict(self)

    @property
    def remarkable(self) -> tuple[str, ...]:
        """What an operator should hear, a sentence each."""
        told = {
            "the last process ended without warning": not self.clean,
            f"{self.outcome_unknown} calls have no known outcome": self.outcome_unknown,
            f"{self.unsigned} records were not signed yet": self.unsigned,
            "a transaction that was never acknowledged was cut off": self.unfinished_pages
            or self.torn,
            f"{self.journal_missing} records of the journal cannot be read": self.journal_missing,
            f"the journal's head was not this log's, so it is {self.journal_set_aside} now; records that "
            "were acknowledged may stand in it alone": self.journal_set_aside,
            f"{self.spooled} records waited in the spool": self.spooled,
            f"{self.spool_unreadable_bytes} bytes of the spool are no whole record": (
                self.spool_unreadable_bytes
            ),
            f"the clock is {self.clock_back_s:.0f} s behind the last record": self.clock_back_s,
        }
        return tuple(sentence for sentence, holds in told.items() if holds)


def found_in(
    connection: sqlite3.Connection,
    *,
    size: int,
    signed: int,
    tail: WalTail,
    journaled: FromJournal,
    now: float,
) -> Found:
    """Look at a log of `size` records that was just opened; `tail` was read before that."""
    row = connection.execute(
        "SELECT leaf_index, code FROM audit WHERE code IN (?, ?) AND kind = 'system'"
        " ORDER BY leaf_index DESC LIMIT 1",
        (STARTED, STOPPED),
    ).fetchone()
    begun, code = row or (-1, STOPPED)
    last = connection.execute(
        "SELECT time_us FROM audit WHERE leaf_index = ?", (size - 1,)
    ).fetchone()
    behind = 0.0 if last is None else last[0] / 1e6 - now
    return Found(
        records=size,
        clean=code == STOPPED,
        outcome_unknown=_open_intents(connection, max(begun, size - _LOOKED_AT)),
        unsigned=size - max(signed, 0),
        unfinished_pages=tail.pages,
        torn=tail.torn,
        journaled=journaled.records,
        journal_missing=journaled.missing,
        journal_set_aside=journaled.set_aside,
        clock_back_s=max(0.0, round(behind, 3)),
    )


def _open_intents(connection: sqlite3.Connection, after: int) -> int:
    rows = connection.execute(
        "SELECT kind, decision_id FROM audit WHERE leaf_index > ?"
        " AND kind IN ('intent', 'outcome', 'list')",
        (after,),
    ).fetchall()
    settled = {decision for kind, decision in rows if kind != "intent"}
    # What is late is not lost: its outcome is recorded when it comes, or its time has passed.
    settled |= {
        decision for (decision,) in connection.execute("SELECT decision_id FROM late_calls")
    }
    return sum(kind == "intent" and decision not in settled for kind, decision in rows)


def wal_tail(database: Path) -> WalTail:
    """Read what stands in a database's write-ahead log behind the last commit (sqlite.org/walformat).

    SQLite leaves it out by itself when it opens the file. One that is too long to be added up
    here in a moment counts as whole.
    """
    path = database.with_name(f"{database.name}-wal")
    try:
        if path.stat().st_size > _LARGEST_WAL_BYTES:
            return WalTail()
        content = path.read_bytes()
    except OSError:
        return WalTail()
    if len(content) < _WAL_HEADER.size:
        return WalTail()
    magic, _, page, _, *salts, one, two = _WAL_HEADER.unpack_from(content)
    if magic & ~1 != _WAL_MAGIC:
        return WalTail()
    words = struct.Struct(">2I" if magic & 1 else "<2I")
    return _tail_of(content, page, salts, (one, two), words)


def _tail_of(
    content: bytes, page: int, salts: list[int], summed: tuple[int, int], words: struct.Struct
) -> WalTail:
    pages, length = 0, _FRAME_HEADER.size + page
    for start in range(_WAL_HEADER.size, len(content), length):
        frame = content[start : start + length]
        if len(frame) < _FRAME_HEADER.size:
            break
        _, commit, *found, one, two = _FRAME_HEADER.unpack_from(frame)
        if found != salts:
            break  # of an earlier round through the file
        summed = _added(frame[:_SUMMED_OF_FRAME] + frame[_FRAME_HEADER.size :], summed, words)
        if summed != (one, two) or len(frame) < length:
            return WalTail(pages=pages, torn=True)
        pages = 0 if commit else pages + 1
    return WalTail(pages=pages)


def _added(octets: bytes, summed: tuple[int, int], words: struct.Struct) -> tuple[int, int]:
    one, two = summed
    for first, second in words.iter_unpack(octets[: len(octets) // 8 * 8]):
        one = (one + first + two) & _MOST
        two = (two + second + one) & _MOST
    return one, two
