"""A small file in which records are durable at once, until the database has them.

A `COMMIT` costs a call far more than the few bytes that it is about. So what a call waits for is
written here first, with one write for all that one turn of the event loop brought, and the
database takes it up a little later, many records in one transaction.

The file has two halves that take turns: one is written to again when the database has all of it.
A line's number is the leaf index that its record has in the log, which is known before it is there:
whatever else comes into the log in between waits for it. Every line has a keyed checksum over its
number, its leaf hash and the nonce of its half, so what a crash tore, and what is left of an earlier
turn, is told apart from what counts.
"""

import contextlib
import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Self

from gateway.audit.hashing import Keyed
from gateway.audit.merkle import leaf_hash
from gateway.audit.record import Entry, columns_of
from gateway.domain._value import value
from gateway.errors import ConfigError
from gateway.storage.files import FileIdentity, create_private, written_until

JOURNAL: Final = "journal"
"""The file's name in the data directory."""

_FORMAT: Final = "douane-journal/1"
_KEY: Final = b"douane journal"
_HEADER_BYTES: Final = 512
"""One sector: a power cut leaves the old header or the new one."""
_WORDS: Final = 4
_HALF_BYTES: Final = 8 << 20
_HALVES: Final = 2


_CLOSED: Final = "the journal is closed"


class OtherJournal(ConfigError):
    """It is another log's, or its head is damaged."""


class JournalFailed(OSError):
    """The journal did not take records: it was moved, or its disk failed."""


@value
class Left:
    """What an earlier process left in a journal."""

    lines: Sequence[tuple[int, bytes, bytes]] = ()
    """Whole records as leaf index, body and leaf, in their order."""

    def beyond(self, size: int) -> Sequence[Entry]:
        """Return what a log of `size` records has not."""
        return [
            Entry(columns=columns_of(body), body=body, leaf=leaf)
            for index, body, leaf in self.lines
            if index >= size
        ]

    def missing_beyond(self, size: int) -> int:
        """Return how many records should stand before or among those, and are not there."""
        found = [index for index, _, _ in self.lines if index >= size]
        return found[-1] + 1 - size - len(found) if found else 0


class _Half:
    """Where one half begins, how far it is written, and the number of its last record."""

    __slots__ = ("end", "last", "nonce", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start + _HEADER_BYTES
        self.nonce = ""
        self.last = -1


class Journal:
    """Written by the event loop, synced by a thread, and read at the start alone."""

    def __init__(
        self, path: Path, descriptor: int, *, key: bytes, log_id: str, half_bytes: int
    ) -> None:
        """Take over an open file; see `open`."""
        self._descriptor = descriptor
        self._keyed = Keyed(key).hex
        self._log_id = log_id
        self._half_bytes = half_bytes
        self._identity = FileIdentity.of(str(path))
        self._halves = [_Half(n * half_bytes) for n in range(_HALVES)]
        self._now = self._halves[0]
        self._taken = -1
        self.problem = ""
        """Why it takes no records any more, until the next start; empty if it does."""

    @classmethod
    def open(
        cls, path: Path, *, log_id: str, secret: bytes, half_bytes: int = _HALF_BYTES
    ) -> tuple[Self, Left]:
        """Open the journal of the log `log_id`, made where there is none, and read what is in it.

        Raises:
            ConfigError: It cannot be used, or it is another log's or another process's.

        """
        key = hmac.digest(secret, _KEY + b"\0" + log_id.encode(), hashlib.sha256)
        try:
            create_private(path)
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise ConfigError(f"the journal {path} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            journal = cls(path, descriptor, key=key, log_id=log_id, half_bytes=half_bytes)
            return journal, journal._read(path)
        except BlockingIOError as error:
            os.close(descriptor)
            raise ConfigError(f"the journal {path} is another process's") from error
        except OSError as error:
            os.close(descriptor)
            raise ConfigError(f"the journal {path} cannot be used: {error.strerror}") from error
        except BaseException:
            os.close(descriptor)
            raise

    @classmethod
    def look(cls, path: Path, *, log_id: str, secret: bytes) -> Left:
        """Return what stands in a journal, which may be another process's; nothing without one.

        Raises:
            ConfigError: It is another log's.
            OSError: It cannot be read.

        """
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return Left()
        try:
            key = hmac.digest(secret, _KEY + b"\0" + log_id.encode(), hashlib.sha256)
            journal = cls(path, descriptor, key=key, log_id=log_id, half_bytes=_HALF_BYTES)
            return journal._read(path)
        finally:
            os.close(descriptor)

    def begin(self) -> None:
        """Begin anew: the log has everything that was in it.

        Raises:
            OSError: It cannot be written.

        """
        for half in self._halves:
            self._put(half.start, bytes(_HEADER_BYTES))
            half.last = -1
        self._turn_to(self._halves[0])
        os.fdatasync(self._descriptor)

    def put(self, entries: Sequence[Entry], first: int) -> bool:
        """Write records, which outlive this process from now on; `first` is the first one's index.

        It says no if there is no room: the database has not yet what stands in the other half.

        Raises:
            JournalFailed: They may be half written. It takes no records any more.

        """
        lines = self._lines_of(entries, first)
        try:
            if self._now.end + len(lines) > self._now.start + self._half_bytes:
                other = self._halves[self._now is self._halves[0]]
                if other.last > self._taken or _HEADER_BYTES + len(lines) > self._half_bytes:
                    return False
                self._turn_to(other)
                lines = self._lines_of(entries, first)
            self._put(self._now.end, lines)
        except OSError as error:
            raise self._failed(error) from error
        if not self.is_in_place():
            raise JournalFailed(self.problem)
        self._now.end += len(lines)
        self._now.last = first + len(entries) - 1
        return True

    def sync(self) -> None:
        """Wait until what was written survives a power cut; from a thread of its own.

        It does if the journal is in place after that, which the event loop says.

        Raises:
            JournalFailed: It may not. It takes no records any more.

        """
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise self._failed(error) from error

    def is_in_place(self) -> bool:
        """Say whether what is written is found at the next start; if not, it takes no records any more.

        Whoever renames or deletes the file takes it away from whoever opens it next.
        """
        if self._identity.is_current():
            return True
        self.problem = "the journal was renamed or deleted"
        return False

    def taken(self, size: int) -> None:
        """Hear that the log has so many records, as durably as it was promised."""
        self._taken = size - 1

    def finish(self) -> None:
        """Close it, with nothing in it if the log has all: a backup put in place has its own end."""
        if not self.problem and all(half.last <= self._taken for half in self._halves):
            with contextlib.suppress(OSError):
                self.begin()
        self.close()

    def close(self) -> None:
        """Let another process have it."""
        if self.problem != _CLOSED:
            self.problem = _CLOSED
            os.close(self._descriptor)

    def _failed(self, error: OSError) -> JournalFailed:
        self.problem = f"the journal cannot be written: {error.strerror}"
        return JournalFailed(self.problem)

    def _turn_to(self, half: _Half) -> None:
        nonce = secrets.token_hex(8)
        self._put(half.start, self._header(nonce).ljust(_HEADER_BYTES, b"\0"))
        half.nonce, half.end = nonce, half.start + _HEADER_BYTES
        self._now = half

    def _read(self, path: Path) -> Left:
        found: list[tuple[int, bytes, bytes]] = []
        for half in self._halves:
            head = os.pread(self._descriptor, _HEADER_BYTES, half.start).rstrip(b"\0")
            if not head:
                continue
            words = head.decode("ascii", "replace").split()
            if len(words) != _WORDS or words[:2] != [_FORMAT, self._log_id]:
                raise OtherJournal(f"the journal {path} is not one of this log; move it away")
            _, _, half.nonce, _ = words
            if not hmac.compare_digest(head, self._header(half.nonce)):
                raise ConfigError(f"the head of the journal {path} was changed; move it away")
            found += self._whole_lines(half)
        return Left(lines=sorted(found))

    def _whole_lines(self, half: _Half) -> Iterator[tuple[int, bytes, bytes]]:
        start = half.start + _HEADER_BYTES
        end = written_until(self._descriptor, start, half.start + self._half_bytes)
        for line in os.pread(self._descriptor, end - start, start).split(b"\n"):
            mac, _, rest = line.partition(b" ")
            digits, _, body = rest.partition(b" ")
            leaf = leaf_hash(body)
            # Only what is ours is read: what is left of an earlier turn may begin in the middle of
            # what somebody chose, with digits without end.
            if hmac.compare_digest(mac, self._mac(half.nonce, digits, leaf)):
                yield int(digits), body, leaf

    def _lines_of(self, entries: Sequence[Entry], first: int) -> bytes:
        nonce = self._now.nonce
        return b"".join(
            b"%s %d %s\n" % (self._mac(nonce, b"%d" % number, entry.leaf), number, entry.body)
            for number, entry in enumerate(entries, first)
        )

    def _mac(self, nonce: str, digits: bytes, leaf: bytes) -> bytes:
        content = b"%s %s %s" % (nonce.encode(), digits, leaf)
        return self._keyed(content).encode("ascii")

    def _header(self, nonce: str) -> bytes:
        text = f"{_FORMAT} {self._log_id} {nonce}".encode()
        return text + b" " + self._keyed(text).encode("ascii")

    def _put(self, offset: int, content: bytes) -> None:
        written = 0
        while written < len(content):
            written += os.pwrite(self._descriptor, content[written:], offset + written)
