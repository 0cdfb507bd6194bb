"""Appends records to a file that somebody else reads, durably, and turns it over by size."""

import asyncio
import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from gateway.audit.forms import Written
from gateway.export.collector import in_form
from gateway.ports.following import NotDelivered, StoredRecord


class FileSink:
    """A `Sink` into one file. What it returned for is on the disk.

    A file that has grown to `rotate_bytes` is renamed, with the leaf index of its last record
    behind its name, and a new one is begun. None is ever removed. The file may be moved away by
    somebody else at any time: it is opened anew for each batch.
    """

    def __init__(self, path: Path, written: Written, *, rotate_bytes: int) -> None:
        self._path = path
        self._written = written
        self._rotate_bytes = rotate_bytes
        self._last = -1

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Return once all of `records` are on the disk.

        Raises:
            NotDelivered: They are not, or it is not known.

        """
        content = await in_form(self._written, records)
        try:
            await asyncio.to_thread(self._append, content, records[-1].leaf_index)
        except OSError as error:
            raise NotDelivered(f"{self._path}: {error.strerror or error}") from error

    def _append(self, content: bytes, last: int) -> None:
        if _size(self._path) >= self._rotate_bytes and self._last >= 0:
            self._path.rename(_free(f"{self._path}.{self._last:012d}"))
        descriptor = _opened(self._path)
        try:
            size = os.fstat(descriptor).st_size
            if not size:
                content = self._written.head + content
            elif os.pread(descriptor, 1, size - 1) != b"\n":
                content = b"\n" + content  # a write that broke off: what it began comes again
            _write(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._last = last


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _free(name: str) -> str:
    while Path(name).exists():  # of an earlier log
        name += "+"
    return name


def _opened(path: Path) -> int:
    """Return a descriptor of the file, made where there is none, that writes at its end."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        _sync(path.parent)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file")


def _write(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
