"""A folder for the life of this process: whoever finds one that a dead process left removes it."""

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

_LOCK: Final = "held"
_BEGUN: Final = "begun"


class OwnFolder:
    """A private folder among the system's temporary ones, and a lock that ends with its holder."""

    def __init__(self, path: Path, lock: int) -> None:
        """Take over a folder and the descriptor of its lock; see `begin`."""
        self.path = path
        self._lock = lock

    @classmethod
    def begin(cls, prefix: str) -> Self:
        """Make one, and remove those of the same `prefix` whose process is there no more.

        Raises:
            OSError: It cannot be made.

        """
        _sweep(prefix)
        path = Path(tempfile.mkdtemp(prefix=prefix))
        lock = os.open(path / _BEGUN, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Under its name it was never unlocked: nobody takes it for one that was left.
        (path / _BEGUN).rename(path / _LOCK)
        return cls(path, lock)

    def remove(self) -> None:
        """Remove it and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _sweep(prefix: str) -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
                _remove_if_left(path)


def _remove_if_left(path: Path) -> None:
    """Remove a folder of ours that nobody holds.

    Raises:
        OSError: Somebody does, or it has no lock.

    """
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
