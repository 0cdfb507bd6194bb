"""What the configuration's files say at one moment, and whether they still say it."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from gateway.config import Config, load
from gateway.config.registered import place_of_registered


class Reading:
    """The files of a configuration, read once: its own, that of registered servers, and its secrets.

    What is read of a file after this was made is at least as new as what this compares with.
    """

    def __init__(self, path: Path, before: Config) -> None:
        """Begin to read `path`; `before` says where servers are registered, which stays."""
        registered = place_of_registered({"data_dir": str(before.data_dir)}, Path())
        self._path = path
        self._files = {file: _print(file) for file in (path, registered)}

    def config(self, environ: Mapping[str, str]) -> Config:
        """Return what they say.

        Raises:
            ConfigError: It cannot be used.

        """
        config = load(self._path, environ)
        self._files |= {file: _print(file) for file in _secrets(config)}
        return config

    def still_is(self) -> bool:
        """Whether every file says what it said."""
        return all(_print(file) == print_ for file, print_ in self._files.items())


def _secrets(config: Config) -> Iterable[Path]:
    return (Path(ref.name) for ref in config.references if ref.kind == "file")


def _print(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror}"
