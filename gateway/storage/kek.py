"""The file with the key-encryption key, beside the database and never in it."""

import base64
import secrets
from collections.abc import Sequence
from pathlib import Path

from gateway.errors import ConfigError
from gateway.storage.files import alone_in, read_private, rename, write_atomically

_KEK_BYTES = 32


class KekFile:
    """`kek.key`, as text: 32 octets in base64url. While it is being changed, also its successor."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._path = data_dir / "kek.key"
        self._successor = data_dir / "kek.key.next"

    def read(self, *, make: bool) -> Sequence[str]:
        """Return what `found` does; make the key if there is none.

        Raises:
            ConfigError: There is none and none is to be made, or others than its owner can reach it.

        """
        # Of two processes that begin at once, one makes it.
        with alone_in(self._data_dir):
            if not self._path.exists():
                if not make:
                    raise ConfigError(
                        f"{self._path} is missing, and keys in the identity database are wrapped "
                        "with it: restore it from a backup"
                    )
                write_atomically(self._path, f"{new_key()}\n".encode())
        return self.found()

    def found(self) -> Sequence[str]:
        """Return the key, if there is one, and its successor, if a change was cut short.

        Raises:
            ConfigError: Others than its owner can reach it, or it is no text.

        """
        texts = (_text(self._path), _text(self._successor))
        return [text for text in texts if text is not None]

    def forget(self) -> None:
        """Delete it: an operator's own key wraps everything now."""
        self._successor.unlink(missing_ok=True)
        self._path.unlink(missing_ok=True)

    def propose(self, key: str) -> None:
        """Keep the successor durably, before anything is wrapped with it."""
        write_atomically(self._successor, f"{key}\n".encode())

    def settle(self, key: str) -> None:
        """Make the one that is in use, `key`, the only one, whatever else lies there."""
        if _text(self._successor) == key:
            rename(self._successor, self._path)
            return
        if _text(self._path) != key:
            write_atomically(self._path, f"{key}\n".encode())
        self._successor.unlink(missing_ok=True)


def new_key() -> str:
    """Return a fresh key, as text."""
    return base64.urlsafe_b64encode(secrets.token_bytes(_KEK_BYTES)).decode().rstrip("=")


def _text(path: Path) -> str | None:
    try:
        return read_private(path).decode("ascii").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:  # its text quotes the file
        raise ConfigError(f"{path} is not a key in base64url") from error
