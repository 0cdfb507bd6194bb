"""Power cuts below SQLite: every write and every sync is recorded, and any moment can be cut at.

A cut keeps what was synced. Of what was written since, it keeps any part in any combination, torn
at 512 bytes: what a disk with a cache may do. The recording sits in SQLite's own file layer, so the
connections are the product's, opened by the product's code with the product's settings.
"""

import ctypes
import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

from gateway.storage import database, files, journal, spool
from gateway.storage.database import CHECKPOINT

_SECTOR_BYTES = 512
_NAME = b"douane-recording"
_READS = ctypes.c_void_p

_Open = ctypes.CFUNCTYPE(
    ctypes.c_int, _READS, _READS, _READS, ctypes.c_int, ctypes.POINTER(ctypes.c_int)
)
_Delete = ctypes.CFUNCTYPE(ctypes.c_int, _READS, _READS, ctypes.c_int)
_Write = ctypes.CFUNCTYPE(ctypes.c_int, _READS, _READS, ctypes.c_int, ctypes.c_int64)
_Truncate = ctypes.CFUNCTYPE(ctypes.c_int, _READS, ctypes.c_int64)
_Sync = ctypes.CFUNCTYPE(ctypes.c_int, _READS, ctypes.c_int)


class _Vfs(ctypes.Structure):
    """`sqlite3_vfs`, version 3 (https://sqlite.org/c3ref/vfs.html)."""

    _fields_: ClassVar[Sequence[Any]] = (
        ("iVersion", ctypes.c_int),
        ("szOsFile", ctypes.c_int),
        ("mxPathname", ctypes.c_int),
        ("pNext", ctypes.c_void_p),
        ("zName", ctypes.c_char_p),
        ("pAppData", ctypes.c_void_p),
        ("xOpen", ctypes.c_void_p),
        ("xDelete", ctypes.c_void_p),
        ("others", ctypes.c_void_p * 14),
    )


class _Methods(ctypes.Structure):
    """`sqlite3_io_methods`, version 3 (https://sqlite.org/c3ref/io_methods.html)."""

    _fields_: ClassVar[Sequence[Any]] = (
        ("iVersion", ctypes.c_int),
        ("xClose", ctypes.c_void_p),
        ("xRead", ctypes.c_void_p),
        ("xWrite", ctypes.c_void_p),
        ("xTruncate", ctypes.c_void_p),
        ("xSync", ctypes.c_void_p),
        ("others", ctypes.c_void_p * 13),
    )


class Unsupported(Exception):
    """This Python's SQLite cannot be reached from outside."""


class Kind(Enum):
    WRITE = "write"
    TRUNCATE = "truncate"
    SYNC = "sync"
    DELETE = "delete"
    REPLACE = "replace"
    """A whole file, durable at once: written, synced, renamed, and its directory synced."""
    ACKED = "acked"
    """A writer was told that something is durable."""


@dataclass(frozen=True, slots=True)
class Operation:
    kind: Kind
    name: str
    """Of the file, without its directory; of an acknowledgement, what it was for."""
    offset: int = 0
    """Of a write; of a truncation, the size that is left."""
    data: bytes = b""


@dataclass
class Recording:
    """What reached the disk's driver, in order."""

    operations: list[Operation] = field(default_factory=list)
    sync_takes_s: float = 0.0
    """How long the disk is made to take for every sync from now on."""

    def acknowledge(self, name: str) -> None:
        """Note that whoever wrote `name` relies on it from now on."""
        self.operations.append(Operation(Kind.ACKED, name))


@contextmanager
def recorded() -> Iterator[Recording]:
    """Record all that SQLite, the checkpoint file, the journal and the spool do in this process.

    Raises:
        Unsupported: It cannot be done with this Python.

    """
    recording = Recording()
    vfs = _RecordingVfs(_sqlite(), recording)
    replace = files.write_atomically

    def replaced(path: Path, content: bytes) -> None:
        replace(path, content)
        recording.operations.append(Operation(Kind.REPLACE, path.name, data=content))

    vfs.register()
    try:
        with (
            mock.patch.object(database, "write_atomically", replaced),
            mock.patch.object(spool, "os", _ObservedOs(recording)),
            mock.patch.object(journal, "os", _ObservedOs(recording)),
        ):
            yield recording
    finally:
        vfs.unregister()


class _ObservedOs:
    """`os` as the journal and the spool see it: their writes and their syncs are recorded."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        written = os.pwrite(descriptor, data, offset)
        done = Operation(Kind.WRITE, _name_of(descriptor), offset, bytes(data[:written]))
        self._recording.operations.append(done)
        return written

    def fdatasync(self, descriptor: int) -> None:
        time.sleep(self._recording.sync_takes_s)
        os.fdatasync(descriptor)
        self._recording.operations.append(Operation(Kind.SYNC, _name_of(descriptor)))


def _name_of(descriptor: int) -> str:
    return Path(f"/proc/self/fd/{descriptor}").readlink().name


def _sqlite() -> ctypes.CDLL:
    """Return the library that the `sqlite3` module itself uses, and no other copy of it."""
    import _sqlite3

    library = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
    try:
        library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
        library.sqlite3_libversion.restype = ctypes.c_char_p
    except AttributeError as error:
        raise Unsupported("this Python keeps its SQLite to itself") from error
    if library.sqlite3_libversion().decode() != sqlite3.sqlite_version:
        raise Unsupported("another SQLite than Python's was found")
    return library


class _RecordingVfs:
    """The default file layer with four of its functions observed."""

    def __init__(self, library: ctypes.CDLL, recording: Recording) -> None:
        self._library = library
        self._recording = recording
        self._record = recording.operations.append
        self._plain = library.sqlite3_vfs_find(None)
        plain = self._plain.contents
        self._plain_open, self._plain_delete = _Open(plain.xOpen), _Delete(plain.xDelete)
        self._vfs = _Vfs.from_buffer_copy(plain)
        self._callbacks: list[Any] = [_Open(self._open), _Delete(self._delete)]
        self._vfs.zName = _NAME
        self._vfs.xOpen, self._vfs.xDelete = map(_address, self._callbacks)
        self._names: dict[int, str] = {}
        self._methods: dict[int, _Methods] = {}
        """By the address of the methods that they stand for."""

    def register(self) -> None:
        self._library.sqlite3_vfs_register(ctypes.byref(self._vfs), 1)

    def unregister(self) -> None:
        self._library.sqlite3_vfs_register(self._plain, 1)
        self._library.sqlite3_vfs_unregister(ctypes.byref(self._vfs))

    def _open(self, vfs: int, name: int | None, file: int, flags: int, out: Any) -> int:
        result = self._plain_open(vfs, name, file, flags, out)
        methods = ctypes.c_void_p.from_address(file)
        if result == 0 and name is not None and methods.value is not None:
            self._names[file] = _base_name(name)
            methods.value = ctypes.addressof(self._observed(methods.value))
        return int(result)

    def _delete(self, vfs: int, name: int, sync_directory: int) -> int:
        self._record(Operation(Kind.DELETE, _base_name(name)))
        return int(self._plain_delete(vfs, name, sync_directory))

    def _observed(self, address: int) -> _Methods:
        """Return the methods at `address` with the writing ones observed."""
        if address not in self._methods:
            plain = _Methods.from_address(address)
            observed = _Methods.from_buffer_copy(plain)
            callbacks = (
                _Write(self._writing(_Write(plain.xWrite))),
                _Truncate(self._truncating(_Truncate(plain.xTruncate))),
                _Sync(self._syncing(_Sync(plain.xSync))),
            )
            self._callbacks.extend(callbacks)
            observed.xWrite, observed.xTruncate, observed.xSync = map(_address, callbacks)
            self._methods[address] = observed
        return self._methods[address]

    def _writing(self, plain: Any) -> Callable[[int, int, int, int], int]:
        def write(file: int, data: int, count: int, offset: int) -> int:
            written = ctypes.string_at(data, count)
            self._record(Operation(Kind.WRITE, self._names[file], offset, written))
            return int(plain(file, data, count, offset))

        return write

    def _truncating(self, plain: Any) -> Callable[[int, int], int]:
        def truncate(file: int, size: int) -> int:
            self._record(Operation(Kind.TRUNCATE, self._names[file], size))
            return int(plain(file, size))

        return truncate

    def _syncing(self, plain: Any) -> Callable[[int, int], int]:
        def sync(file: int, flags: int) -> int:
            time.sleep(self._recording.sync_takes_s)
            result = int(plain(file, flags))
            if result == 0:
                self._record(Operation(Kind.SYNC, self._names[file]))
            return result

        return sync


def _address(callback: Any) -> int | None:
    return ctypes.cast(callback, ctypes.c_void_p).value


def _base_name(address: int) -> str:
    return Path(ctypes.string_at(address).decode()).name


@dataclass(frozen=True)
class Cut:
    """What a power cut left."""

    moment: int
    """Before which operation of the recording."""
    files: dict[str, bytes]
    acked: Sequence[str]
    """All that was acknowledged before."""

    def lay_out(self, folder: Path) -> None:
        """Write the files into `folder`, in place of those of an earlier cut."""
        kept = (f"{database.DATABASE}*", "journal*", "spool*")
        for old in (path for pattern in kept for path in folder.glob(pattern)):
            old.unlink()
        (folder / CHECKPOINT).unlink(missing_ok=True)
        for name, content in self.files.items():
            if not name.endswith("-shm"):
                (folder / name).write_bytes(content)


def cuts(recording: Recording, count: int, *, moments: Sequence[int], seed: int) -> Iterator[Cut]:
    """Yield `count` power cuts, each before another operation of those at `moments`."""
    dice = random.Random(seed)
    operations = recording.operations
    disk = _Disk()
    acked: list[str] = []
    done = 0
    for moment in sorted(dice.sample(moments, count)):
        for operation in operations[done:moment]:
            if operation.kind is Kind.ACKED:
                acked.append(operation.name)
            else:
                disk.take(operation)
        done = moment
        yield Cut(moment=moment, files=disk.after_a_cut(dice), acked=tuple(acked))


class _Disk:
    """Synced content, and what waits in the cache."""

    def __init__(self) -> None:
        self._synced: dict[str, bytearray] = {}
        self._waiting: dict[str, list[Operation]] = {}

    def take(self, operation: Operation) -> None:
        name = operation.name
        match operation.kind:
            case Kind.SYNC:
                for waiting in self._waiting.pop(name, ()):
                    _apply(self._synced.setdefault(name, bytearray()), waiting)
            case Kind.DELETE:
                self._waiting.pop(name, None)
                self._synced.pop(name, None)
            case Kind.REPLACE:
                self._synced[name] = bytearray(operation.data)
            case _:
                self._waiting.setdefault(name, []).append(operation)

    def after_a_cut(self, dice: random.Random) -> dict[str, bytes]:
        """Return the files that are found again: one time in three nothing unsynced is."""
        files = {name: bytearray(content) for name, content in self._synced.items()}
        cached = dice.random() > 1 / 3
        for name, waiting in self._waiting.items():
            content = files.setdefault(name, bytearray())
            for operation in waiting if cached else ():
                luck = dice.random()
                if luck < 0.4:
                    continue
                _apply(content, operation, dice if luck < 0.6 else None)
        return {name: bytes(content) for name, content in files.items()}


def _apply(content: bytearray, operation: Operation, dice: random.Random | None = None) -> None:
    """Do `operation`; with `dice`, only with some of its sectors."""
    if operation.kind is Kind.TRUNCATE:
        del content[operation.offset :]
        return
    if dice is None:
        _put(content, operation.offset, operation.data)
        return
    for start in range(0, len(operation.data), _SECTOR_BYTES):
        if dice.random() < 0.5:
            _put(content, operation.offset + start, operation.data[start : start + _SECTOR_BYTES])


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data
