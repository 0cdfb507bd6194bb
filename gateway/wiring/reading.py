"""What the configuration's files say at one moment, whether they still say it, and whether it can be taken up."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from gateway.config import Config, load
from gateway.config.changes import changed_keys
from gateway.config.registered import place_of_registered
from gateway.domain.roster import Roster
from gateway.errors import ConfigError


class Reading:
    """The files of a configuration, read once: its own, that of registered servers, and all that it names.

    What is read of a file after this was made is at least as new as what this compares with.
    """

    def __init__(self, path: Path, before: Config, roster: Roster | None = None) -> None:
        """Begin to read `path`; `before` says where servers are registered, which stays.

        With a `roster` that says what is registered, instead of a file.
        """
        place = place_of_registered({"data_dir": str(before.data_dir)}, Path())
        self._path = path
        self._files = {
            file: _print(file) for file in ((path, place) if roster is None else (path,))
        }
        self._roster = roster
        self.registered = None if roster is None else roster.text
        """What was registered; `None` where a file says it."""

    def config(self, environ: Mapping[str, str]) -> Config:
        """Return what they say.

        Raises:
            ConfigError: It cannot be used.

        """
        config = load(self._path, environ, registered=self.registered)
        self._files |= {file: _print(file) for file in named(config)}
        return config

    def still_is(self) -> bool:
        """Whether every file says what it said, and the same is registered."""
        if self._roster is not None and self._roster.text != self.registered:
            return False
        return all(_print(file) == print_ for file, print_ in self._files.items())


def require_same_process(before: Config, after: Config) -> None:
    """Refuse what only a restart can change.

    Raises:
        ConfigError: One of these keys has changed.

    """
    fixed = (
        "public_url",
        "listen",
        "admin_listen",
        "data_dir",
        "auth",
        "audit",
        "tls",
        "limits",
        "egress",
        "runs",
        "alerts",
        "storage",
    )
    changed = [
        path
        for key in fixed
        if getattr(before, key) != getattr(after, key)
        for path in changed_keys(before, after, key)
    ]
    moved = {"console.listen", "console.url"}
    changed += [path for path in changed_keys(before, after, "console") if path in moved]
    changed += [
        path for path in changed_keys(before, after, "planes") if path.startswith("planes.grpc")
    ]
    if changed:
        raise ConfigError(
            "the new configuration needs a restart",
            problems=[
                f"{path}: cannot change while the gateway runs; restart it, or undo the change"
                for path in changed
            ],
        )


def named(config: Config) -> Iterable[Path]:
    """Return the files whose content counts for what is built of `config`, but for the policy's own.

    Those are compared by whoever holds the policy. What only the process reads is read at its start.
    """
    policy = config.policy
    authorities = (
        config.egress.ca,
        None if policy.opa is None else policy.opa.ca,
        None if policy.authzen is None else policy.authzen.ca,
    )
    return (
        *(Path(ref.name) for ref in config.references if ref.kind == "file"),
        *(one.file for one in config.dlp.lists.values()),
        *config.auth.registration.copies.values(),
        *(file for file in authorities if file is not None),
    )


def _print(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror}"
