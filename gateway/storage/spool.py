"""A bounded file for records that the log cannot take now: durable, in order, found again."""

import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from gateway.audit.merkle import leaf_hash
from gateway.audit.record import Entry, columns_of
from gateway.domain._value import value
from gateway.errors import ConfigError
from gateway.storage.files import FileIdentity, create_private, write_atomically, written_until

_FORMAT = "douane-spool/1"
_KEY = b"douane spool"
_HEADER_BYTES = 512
"""One sector: a power cut leaves the old header or the new one."""
_SMALLEST_BYTES = 64 * 1024
_ZEROS = bytes(1 << 20)


class SpoolFailed(OSError):
    """The spool did not take records: it is full, was moved, or its disk failed."""


@value
class Spooled:
    """What was found in a spool."""

    entries: Sequence[tuple[int, Entry]] = ()
    """Whole records with their numbers, in the order in which they were written."""
    damaged: int = 0
    """How many bytes are no whole record: what an end without warning tore, or somebody changed."""


class Spool:
    """Used by one thread at a time. Every line has a keyed checksum: a torn one is told apart.

    Its space is taken at the start, so a disk that fills up later does not take it away.
    """

    def __init__(self, path: Path, descriptor: int, *, capacity: int, key: bytes) -> None:
        """Take over an open file; see `open`."""
        self.path = path
        self.capacity = capacity
        self._descriptor = descriptor
        self._key = key
        self._identity = FileIdentity.of(str(path))
        self.nonce = ""
        """Names what is in the file: another one, each time that it is emptied."""
        self._number = 0
        self._end = _HEADER_BYTES
        self._full = False

    @classmethod
    def open(cls, path: Path, *, capacity: int, log_id: str, secret: bytes) -> tuple[Self, Spooled]:
        """Open the spool of the log `log_id`, made where there is none, and read what is in it.

        Raises:
            ConfigError: It cannot be used, or it is another log's or another process's.

        """
        key = hmac.digest(secret, _KEY + b"\0" + log_id.encode(), hashlib.sha256)
        capacity = max(capacity, _SMALLEST_BYTES)
        try:
            create_private(path)
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise ConfigError(f"the spool {path} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.posix_fallocate(descriptor, 0, capacity)
            size = os.fstat(descriptor).st_size
            spool = cls(path, descriptor, capacity=max(capacity, size), key=key)
            return spool, spool._read(log_id)
        except BlockingIOError as error:
            os.close(descriptor)
            raise ConfigError(f"the spool {path} is another process's") from error
        except OSError as error:
            os.close(descriptor)
            raise ConfigError(f"the spool {path} cannot be used: {error.strerror}") from error
        except BaseException:
            os.close(descriptor)
            raise

    @property
    def written(self) -> int:
        """How many records were written since it was last emptied."""
        return self._number

    @property
    def used(self) -> int:
        """How many bytes of the file are taken."""
        return self._end

    @property
    def problem(self) -> str:
        """Why no further record can be taken; empty if one can."""
        if not self._identity.is_current():
            return "the spool was renamed or deleted"
        return "the spool is full" if self._full else ""

    def append(self, entries: Sequence[Entry]) -> None:
        """Write records; they are durable on return.

        Raises:
            SpoolFailed: They are not. What was written before is not affected.

        """
        # It begins a line of its own, whatever was half written before it.
        lines = b"\n" + b"".join(
            self._line(number, entry) for number, entry in enumerate(entries, self._number)
        )
        if self._end + len(lines) > self.capacity:
            self._full = True
            raise SpoolFailed("the spool is full")
        start = self._end
        # Whatever comes of it, the next ones go behind: what may be half written is not reused.
        self._end += len(lines)
        self._number += len(entries)
        try:
            self._put(start, lines)
        except OSError as error:
            raise SpoolFailed(f"the spool cannot be written: {error.strerror}") from error
        if not self._identity.is_current():
            raise SpoolFailed("the spool was renamed or deleted")

    def after(self, number: int) -> Spooled:
        """Read the records after that of `number`; -1 is before all.

        Raises:
            OSError: They cannot be read.

        """
        found, damaged = [], 0
        for line in self._lines():
            read = self._parsed(line)
            if read is None:
                damaged += len(line)
            elif read[0] > number:
                found.append(read)
        return Spooled(entries=found, damaged=damaged)

    def empty(self) -> None:
        """Forget everything that is in it; the log has it.

        Raises:
            OSError: It could not be done, and may be half done.

        """
        for start in range(_HEADER_BYTES, self._end, len(_ZEROS)):
            os.pwrite(self._descriptor, _ZEROS[: self._end - start], start)
        os.fdatasync(self._descriptor)
        self._begin()

    def set_aside(self) -> Path:
        """Copy what is in it, for a person to look at, and return where that is.

        Raises:
            OSError: It could not be copied.

        """
        path = self.path.with_name(f"{self.path.name}.kept-{self.nonce}")
        write_atomically(path, os.pread(self._descriptor, self._end, 0))
        return path

    def close(self) -> None:
        os.close(self._descriptor)

    def _begin(self) -> None:
        nonce = secrets.token_hex(8)
        self._put(0, self._header(nonce).ljust(_HEADER_BYTES, b"\0"))
        self.nonce, self._number, self._end = nonce, 0, _HEADER_BYTES
        self._full = False

    def _read(self, log_id: str) -> Spooled:
        self._log_id = log_id
        head = os.pread(self._descriptor, _HEADER_BYTES, 0).rstrip(b"\0")
        if not head:
            self._begin()
            return Spooled()
        words = head.decode("ascii", "replace").split()
        if len(words) != 4 or words[0] != _FORMAT or words[1] != log_id:  # noqa: PLR2004 - as written
            raise ConfigError(f"the spool {self.path} is not one of this log; move it away")
        if not hmac.compare_digest(head, self._header(words[2])):
            raise ConfigError(f"the head of the spool {self.path} was changed; move it away")
        self.nonce = words[2]
        self._end = written_until(self._descriptor, _HEADER_BYTES, self.capacity)
        found = self.after(-1)
        self._number = found.entries[-1][0] + 1 if found.entries else 0
        return found

    def _lines(self) -> Iterator[bytes]:
        content = os.pread(self._descriptor, self._end - _HEADER_BYTES, _HEADER_BYTES)
        lines = content.rstrip(b"\0").splitlines(keepends=True)
        return (line for line in lines if line.strip(b"\0\n"))

    def _parsed(self, line: bytes) -> tuple[int, Entry] | None:
        mac, _, rest = line.partition(b" ")
        number, _, body = rest.removesuffix(b"\n").partition(b" ")
        if not line.endswith(b"\n") or not number.isdigit():
            return None
        if not hmac.compare_digest(mac, self._mac(number, body)):
            return None
        return int(number), Entry(columns=columns_of(body), body=body, leaf=leaf_hash(body))

    def _line(self, number: int, entry: Entry) -> bytes:
        digits = str(number).encode()
        return b"%s %s %s\n" % (self._mac(digits, entry.body), digits, entry.body)

    def _mac(self, number: bytes, body: bytes) -> bytes:
        content = b"%s %s %s" % (self.nonce.encode(), number, body)
        return hmac.digest(self._key, content, hashlib.sha256).hex().encode()

    def _header(self, nonce: str) -> bytes:
        text = f"{_FORMAT} {self._log_id} {nonce}".encode()
        return text + b" " + hmac.digest(self._key, text, hashlib.sha256).hex().encode()

    def _put(self, offset: int, content: bytes) -> None:
        written = 0
        while written < len(content):
            written += os.pwrite(self._descriptor, content[written:], offset + written)
        os.fdatasync(self._descriptor)
