"""What `douane login` keeps: one private file a gateway, refreshed by one process at a time."""

import contextlib
import fcntl
import json
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

from gateway.cli.authorization import InvalidGrant, PublicEndpoints, Refused, Unreachable
from gateway.cli.failure import NO, Failed
from gateway.cli.output import cell
from gateway.domain._value import value

_MARGIN_S = 30.0
"""A token that ends sooner is refreshed first."""
_LARGEST_FILE_BYTES = 64 * 1024
_NO_LIFETIME_S = 1e10


@value
class Tokens:
    """A sign-in at one gateway."""

    issuer: str
    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    """Empty if there is none."""
    expires_at: float
    """Of the access token, in seconds since the epoch."""

    @classmethod
    def of(
        cls, issuer: str, answer: dict[str, Any], *, now: float, refresh_token: str = ""
    ) -> "Tokens":
        """Read a token endpoint's answer; `refresh_token` is kept if it brings no other.

        Raises:
            Failed: It is no answer for the admin API.

        """
        access, lifetime = answer.get("access_token"), answer.get("expires_in")
        is_bearer = str(answer.get("token_type", "")).lower() == "bearer"
        if not isinstance(access, str) or not isinstance(lifetime, int | float) or not is_bearer:
            raise Failed(f"{issuer} gave no access token", exit_code=NO)
        if not abs(lifetime) < _NO_LIFETIME_S:  # JSON has integers beyond a double
            raise Failed(f"{issuer} gave no access token that ends", exit_code=NO)
        renewed = answer.get("refresh_token", refresh_token)
        return cls(
            issuer=issuer,
            access_token=access,
            refresh_token=renewed if isinstance(renewed, str) else "",
            expires_at=now + lifetime,
        )


def current_token(issuer: str) -> str | None:
    """Return an access token of this user's sign-in at `issuer`; `None` if there is none.

    Raises:
        Failed: There is one and it has ended, or it cannot be read or refreshed.

    """
    kept = Kept(issuer)
    found = kept.read()
    if found is None:
        return None
    if found.expires_at <= time.time() + _MARGIN_S:
        found = _refreshed(kept, found)
    return found.access_token


def _refreshed(kept: "Kept", found: Tokens) -> Tokens:
    ended = Failed(
        f"the sign-in at {found.issuer} has ended; sign in again with `douane login`, "
        "or forget it with `douane logout`",
        exit_code=NO,
    )
    with kept.locked():
        # Another command may have refreshed it meanwhile; a refresh token works once.
        found = kept.read() or found
        if found.expires_at > time.time() + _MARGIN_S:
            return found
        if not found.refresh_token:
            raise ended
        try:
            answer = PublicEndpoints.of(found.issuer).refresh(found.refresh_token)
        except InvalidGrant as error:
            raise ended from error
        except (Refused, Unreachable) as error:
            told = cell(str(error))
            raise Failed(f"the sign-in cannot be refreshed: {told}", exit_code=NO) from error
        tokens = Tokens.of(found.issuer, answer, now=time.time(), refresh_token=found.refresh_token)
        kept.write(tokens)
        return tokens


class Kept:
    """The file of one gateway's sign-in."""

    def __init__(self, issuer: str) -> None:
        self._issuer = issuer
        base = os.environ.get("XDG_CONFIG_HOME") or os.fspath(Path.home() / ".config")
        self._folder = Path(base) / "douane" / "tokens"
        host = re.sub(r"[^a-z0-9.-]", "_", issuer.partition("://")[2])
        self.path = self._folder / f"{host}.json"

    def read(self) -> Tokens | None:
        """Return what is kept; `None` if nothing is.

        Raises:
            Failed: The file is not this user's alone, or holds something else.

        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(str(error.strerror)) from error
        with os.fdopen(descriptor, "rb") as file:
            self._require_private(os.fstat(file.fileno()))
            data = file.read(_LARGEST_FILE_BYTES)
        try:
            content = json.loads(data)
            found = Tokens(**{**content, "expires_at": float(content["expires_at"])})
        except (ValueError, TypeError, KeyError) as error:
            raise self._unusable("it is damaged; remove it") from error
        # http and https of one host share a name, and two gateways a host.
        return found if found.issuer == self._issuer else None

    def write(self, tokens: Tokens) -> None:
        """Keep `tokens` in place of what was kept, private from the first moment.

        Raises:
            Failed: The file cannot be written.

        """
        content = {
            "issuer": tokens.issuer,
            "access_token": tokens.access_token,
            "refresh_token": tokens.refresh_token,
            "expires_at": tokens.expires_at,
        }
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=self._folder, prefix=".new-")
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(content, file)
            Path(name).replace(self.path)
        except OSError as error:
            raise self._unusable(str(error.strerror)) from error

    def forget(self) -> None:
        """Delete the file; it need not be there."""
        self.path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other commands of this user from refreshing while the context is open."""
        try:
            lock = (self._folder / f"{self.path.stem}.lock").open("w")
        except OSError as error:
            raise self._unusable(str(error.strerror)) from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _require_private(self, status: os.stat_result) -> None:
        if status.st_uid != os.geteuid():
            raise self._unusable("it belongs to another user; set HOME to your own")
        if stat.S_IMODE(status.st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
            raise self._unusable(f"others can reach it; run: chmod 600 {self.path}")

    def _unusable(self, why: str) -> Failed:
        return Failed(f"{self.path} cannot be used: {why}", exit_code=NO)
