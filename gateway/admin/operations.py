"""What people look at: servers and keys; and how keys are replaced."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from gateway.admin.journal import Change, Journal
from gateway.admin.person import EVERY_ROLE, Person, Role
from gateway.admin.rows import Row, Rows
from gateway.domain.audit import RecordKind
from gateway.domain.tools import PinStatus
from gateway.errors import Denied
from gateway.ports import PinStore

ServerStatus = Callable[[], Sequence[Mapping[str, Any]]]
"""One row a configured server: `server`, `url`, `status`, `profiles`, `checked_at`, `error`."""

KeyList = Callable[[], Sequence[Mapping[str, Any]]]
"""One row a key: `use`, `id`, `state`, `public`; never a private half. It may wait for the disk."""


class ServerDesk:
    def __init__(self, status: ServerStatus, pins: PinStore) -> None:
        self._status = status
        self._pins = pins

    async def list(self, person: Person) -> Rows:
        """Return one row a configured server, with how many of its pins are in which status."""
        person.need(*EVERY_ROLE)
        return [{**row, "pins": self._counts(row["server"])} for row in self._status()]

    def _counts(self, server: Any) -> dict[str, int]:
        found = [pin.status for pin in self._pins.all(server)]
        return {status.value: found.count(status) for status in PinStatus}


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


class KeyUse(StrEnum):
    """Keys that can be replaced."""

    SIGNING = "signing"
    DATA = "data"
    KEK = "kek"


class KeyDesk:
    def __init__(self, keys: KeyList, rotation: KeyRotation, journal: Journal) -> None:
        self._keys = keys
        self._journal = journal
        self._rotations = {
            KeyUse.SIGNING: rotation.signing,
            KeyUse.DATA: rotation.data,
            KeyUse.KEK: rotation.kek,
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
