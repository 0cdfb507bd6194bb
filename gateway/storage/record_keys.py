"""The keys of the hash that stands in records: the one in use, and all that ever were."""

import re
import secrets
from pathlib import Path
from typing import Self

from gateway.errors import ConfigError
from gateway.storage.files import write_atomically
from gateway.storage.keys import secret_in

_FIRST = "hmac.key"
_NAME = re.compile(r"record-hash-(\d{1,6})\.key", re.ASCII)
_SECRET_BYTES = 32


class RecordKeys:
    """`hmac.key`, `record-hash-2.key` and so on: a file each, and none is ever replaced.

    With a key that is lost, nobody can find again what was hashed with it.
    """

    def __init__(self, data_dir: Path, keys: tuple[bytes, ...]) -> None:
        """Take what `open` has read."""
        self._data_dir = data_dir
        self._keys = keys

    @classmethod
    def open(cls, data_dir: Path, first: bytes) -> Self:
        """Read every key of `data_dir` beside the `first`, which other things are made of as well.

        Raises:
            ConfigError: One is missing, can be read by others, or is not a key.

        """
        found = {
            int(name[1]) for path in data_dir.iterdir() if (name := _NAME.fullmatch(path.name))
        }
        missing = set(range(2, max(found, default=1) + 1)) - found
        if missing:
            path = data_dir / named(min(missing))
            raise ConfigError(f"{path} is missing, and records may have been written with it")
        return cls(data_dir, (first, *(secret_in(data_dir / named(n)) for n in sorted(found))))

    @property
    def all(self) -> tuple[bytes, ...]:
        """Every key, oldest first; the last one is in use."""
        return self._keys

    def add(self) -> tuple[bytes, ...]:
        """Make another key, durable on return, and return all of them. One at a time."""
        path = self._data_dir / named(len(self._keys) + 1)
        write_atomically(path, secrets.token_bytes(_SECRET_BYTES))
        self._keys = (*self._keys, secret_in(path))
        return self._keys


def named(number: int) -> str:
    """Return the name of the file that the key of that number is in."""
    return _FIRST if number == 1 else f"record-hash-{number}.key"
