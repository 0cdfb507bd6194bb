"""Files that must not be half written, read by others, or exchanged under a running process."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from gateway.domain._value import value
from gateway.errors import ConfigError, DirectoryInUse

_PID_CHARACTERS = 20
_ZEROS = bytes(64 << 10)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def private_directory(path: Path) -> Path:
    """Make `path` a directory that only its owner may enter (0700), and return it, absolute.

    Raises:
        ConfigError: It cannot be one.

    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
    except OSError as error:
        raise ConfigError(f"data_dir {path} cannot be used: {error.strerror}") from error
    return path.absolute()


@contextmanager
def alone_in(data_dir: Path) -> Iterator[None]:
    """Wait until no other process prepares something in the directory, and hold others back."""
    descriptor = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def create_private(path: Path) -> None:
    """Create an empty file of mode 0600 where there is none."""
    # One that is there is not even opened: closing it would end the locks that another SQLite
    # connection of this process has on it.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_EXCL | os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` as a whole, mode 0600; durable on return."""
    passing = path.with_name(path.name + ".new")
    descriptor = os.open(passing, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    rename(passing, path)


def rename(path: Path, to: Path) -> None:
    """Make `path` be called `to`, in place of what was; durable on return."""
    path.replace(to)
    _sync_directory(to.parent)


def remove(path: Path) -> None:
    """Have no file at `path`; durable on return."""
    path.unlink(missing_ok=True)
    _sync_directory(path.parent)


def written_until(descriptor: int, start: int, end: int) -> int:
    """Return behind which byte there are only zeros, up to `end`: of what is prepared most is never written."""
    while start < end:
        begin = max(start, end - len(_ZEROS))
        last = os.pread(descriptor, end - begin, begin)
        if last != _ZEROS[: len(last)]:
            return begin + len(last.rstrip(b"\0"))
        end = begin
    return start


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_private(path: Path) -> bytes:
    """Return the content of a secret file.

    Raises:
        FileNotFoundError: There is none.
        ConfigError: Others than its owner may read or write it.

    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if mode & _OTHERS:
            raise ConfigError(
                f"{path} can be reached by others (mode {mode:04o}); run: chmod 600 {path}"
            )
        return file.read()


@value
class FileIdentity:
    """Which file a path meant; a rename or a deletion makes it mean another, or none."""

    path: str
    device: int
    inode: int

    @classmethod
    def of(cls, path: str) -> Self:
        found = os.stat(path)  # noqa: PTH116 - on the writer's hot path
        return cls(path=path, device=found.st_dev, inode=found.st_ino)

    def is_current(self) -> bool:
        """Say whether the path still means the same file."""
        try:
            found = os.stat(self.path)  # noqa: PTH116 - on the writer's hot path
        except OSError:
            return False
        return found.st_ino == self.inode and found.st_dev == self.device


class DirectoryLock:
    """Held by the one process that writes in a data directory."""

    def __init__(self, data_dir: Path) -> None:
        """Take the lock.

        Raises:
            ConfigError: Another process holds it.

        """
        descriptor = os.open(data_dir / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "r+", encoding="ascii", errors="replace")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = self._file.read(_PID_CHARACTERS).strip() or "(unknown)"
            self._file.close()
            raise DirectoryInUse(
                f"{data_dir} is in use by process {holder}: "
                "if it is a gateway that starts, wait; else stop it, or give this one another data_dir"
            ) from error
        self._file.truncate()
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()

    def release(self) -> None:
        """Let another process have it. The file stays: removing it would race."""
        self._file.close()
