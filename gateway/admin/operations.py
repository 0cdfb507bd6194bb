"""What people look at: servers and keys; and how keys are replaced."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, Protocol
from urllib.parse import urlsplit

from gateway.admin.journal import Change, Journal
from gateway.admin.person import EVERY_ROLE, Person, Role
from gateway.admin.pin_rows import changed_kinds, statuses
from gateway.admin.reaching import advised
from gateway.admin.rows import Row, Rows
from gateway.domain.audit import RecordKind
from gateway.errors import Denied, NotFound
from gateway.ports import PinStore

_LONGEST_NAME = 64
_LONGEST_HOST = 253
"""Characters (RFC 1035 section 2.3.4)."""

Look = Callable[[str], Awaitable[None]]
"""Reads all lists of one server now; raises what it met."""

ServerStatus = Callable[[], Sequence[Mapping[str, Any]]]
"""One row a configured server: `server`, `url`, `status`, `profiles`, `checked_at`, `error`."""

KeyList = Callable[[], Sequence[Mapping[str, Any]]]
"""One row a key: `use`, `id`, `state`, `public`; never a private half. It may wait for the disk."""


class ServerRegistry(Protocol):
    """The servers that people register beside the configuration file."""

    @property
    def names(self) -> frozenset[str]:
        """Those that are registered."""
        ...

    async def add(self, name: str, settings: Mapping[str, Any]) -> None:
        """Register a server, and put it in force.

        Raises:
            BadCommand: It cannot be one.
            ConfigError: What the files say cannot be put in force.

        """
        ...

    async def remove(self, name: str) -> None:
        """Let a registered server go.

        Raises:
            NotFound: No server of this name is registered.
            ConfigError: What the files say cannot be put in force.

        """
        ...


class ServerDesk:
    def __init__(
        self,
        status: ServerStatus,
        pins: PinStore,
        registry: ServerRegistry,
        journal: Journal,
        *,
        look: Look,
    ) -> None:
        self._look = look
        self._status = status
        self._pins = pins
        self._registry = registry
        self._journal = journal

    async def list(self, person: Person) -> Rows:
        """Return one row a server, with how many of its definitions are in which status.

        `changed` says of how many names of each kind another definition is shown than was approved.
        What both families of revisions show alike is one.
        """
        person.need(*EVERY_ROLE)
        registered = self._registry.names
        return [
            {
                **row,
                "error": advised(row["error"]) if row.get("error") else row.get("error"),
                "registered": row["server"] in registered,
                **self._counted(row["server"]),
            }
            for row in self._status()
        ]

    async def add(
        self, person: Person, *, name: str, url: str, credential: dict[str, Any] | None = None
    ) -> Row:
        """Register the server at `url`. All that it shows waits until a person approves it.

        `credential` is as in the configuration: secrets come by reference only.

        Raises:
            Forbidden: The person is no admin.
            BadCommand: The configuration could not have such a server.

        """
        person.need(Role.ADMIN)
        settings = {"url": url, **({} if credential is None else {"credential": credential})}
        act = partial(self._registry.add, name, settings)
        await self._make(person, "add", "registered", name, act, evidence=_whereabouts(url))
        return {"server": name, "url": url, "registered": True, **self._counted(name)}

    async def remove(self, person: Person, *, name: str) -> Row:
        """Let a registered server go; calls to it fail from now on.

        Raises:
            Forbidden: The person is no admin.
            NotFound: No server of this name is registered.

        """
        person.need(Role.ADMIN)
        act = partial(self._registry.remove, name)
        await self._make(person, "remove", "removed", name, act)
        return {"server": name, "registered": False, **self._counted(name)}

    async def refresh(self, person: Person, *, name: str) -> Row:
        """Look at all that a server shows, now, and return how it stands with it then.

        What has changed waits for a person, as when it is met in passing.

        Raises:
            Forbidden: The person may neither approve nor administer.
            NotFound: There is no such server.
            UpstreamFailed: It does not answer, or not as servers do.

        """
        person.need(Role.APPROVER, Role.ADMIN)
        if name not in {row["server"] for row in self._status()}:
            raise NotFound("there is no server of this name")
        await self._make(person, "refresh", "looked", name, partial(self._look, name))
        (row,) = [row for row in self._status() if row["server"] == name]
        return {**row, **self._counted(name)}

    async def _make(
        self,
        person: Person,
        verb: str,
        code: str,
        name: str,
        act: Callable[[], Awaitable[None]],
        *,
        evidence: tuple[tuple[str, str], ...] = (),
    ) -> None:
        # The name may be anything yet.
        change = Change(
            kind=RecordKind.CONFIG,
            method=f"servers.{verb}",
            code=code,
            subject=name[:_LONGEST_NAME],
            fields={"server": name[:_LONGEST_NAME]},
            evidence=evidence,
        )
        await self._journal.make(person, change, act)

    def _counted(self, server: Any) -> Row:
        found = self._pins.all(server)
        return {"pins": statuses(found), "changed": changed_kinds(found)}


def _whereabouts(url: str) -> tuple[tuple[str, str], ...]:
    """Return which machine `url` means; what else is in it may be what nobody should read."""
    if not url.isascii():
        return ()  # no server's: to take it apart takes time quadratic in the length of its host
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return ()
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return ()
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return (("address", f"{parts.scheme}://{host[:_LONGEST_HOST]}{port}"),)


class KeyRotation(Protocol):
    """Replaces keys that are ours. Each returns a row that says what came of it."""

    async def signing(self) -> Mapping[str, Any]:
        """Let the next key sign from now on; the active one still verifies what it has signed.

        Raises:
            ValueError: The next key has not been published for long enough.

        """
        ...

    async def data(self) -> Mapping[str, Any]:
        """Seal with a new data key from now on; what was sealed before stays readable."""
        ...

    async def kek(self) -> Mapping[str, Any]:
        """Wrap every data key with another key-encryption key.

        Raises:
            ConfigError: It is the operator's, and only they can replace it.

        """
        ...

    async def record_hash(self) -> Mapping[str, Any]:
        """Hash what stands in records with a new key from now on; the older ones are kept."""
        ...


class KeyUse(StrEnum):
    """Keys that can be replaced."""

    SIGNING = "signing"
    DATA = "data"
    KEK = "kek"
    RECORD_HASH = "record-hash"


class KeyDesk:
    def __init__(self, keys: KeyList, rotation: KeyRotation, journal: Journal) -> None:
        self._keys = keys
        self._journal = journal
        self._rotations = {
            KeyUse.SIGNING: rotation.signing,
            KeyUse.DATA: rotation.data,
            KeyUse.KEK: rotation.kek,
            KeyUse.RECORD_HASH: rotation.record_hash,
        }

    async def list(self, person: Person) -> Rows:
        """Return the public halves of the keys that sign tokens, the log and lock files."""
        person.need(*EVERY_ROLE)
        return [dict(row) for row in await asyncio.to_thread(self._keys)]

    async def rotate(self, person: Person, *, use: KeyUse = KeyUse.SIGNING) -> Row:
        """Replace a key of ours; nobody is signed out by it.

        Raises:
            Forbidden: The person is no admin.
            Denied: Its successor is not known to everybody yet.
            ConfigError: The key is the operator's, and only they can replace it.

        """
        person.need(Role.ADMIN)

        async def rotate() -> Mapping[str, Any]:
            try:
                return await self._rotations[use]()
            except ValueError as error:
                raise Denied(str(error)) from error

        change = Change(
            kind=RecordKind.ADMIN,
            method="keys.rotate",
            code="rotated",
            subject=f"{use.value} key",
            fields={},
        )
        done = await self._journal.make(person, change, rotate)
        return {"use": use.value, **done}
