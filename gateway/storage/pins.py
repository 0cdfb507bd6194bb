"""Pins in SQLite, read from memory."""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gateway.domain.document import Document
from gateway.domain.epoch import Epoch
from gateway.domain.tools import (
    Kind,
    Manifest,
    Pin,
    PinApproval,
    PinStatus,
    Profile,
    Sighting,
    Target,
    UpstreamId,
)
from gateway.errors import PinMismatch
from gateway.pins.names import tools_elsewhere
from gateway.pins.observe import approved_pin, observed, pin_at, revoked_pin, with_body
from gateway.ports import Clock
from gateway.storage.connection import open_reader
from gateway.storage.pin_table import PinKey, PinTable, identity_of, pin_key
from gateway.storage.writer import Writer

_COLUMNS = (
    "server, kind, name, profile, status, observed, observed_version, approved,"
    " approved_version, approved_by, approved_at, first_seen, note, approvals, filed, expires_at,"
    " body_digest, observed_identity, approved_identity"
)
_ALL = f"SELECT {_COLUMNS} FROM pins"  # noqa: S608 - fixed text
_ONE = f"{_ALL} WHERE server = ? AND kind = ? AND name = ? AND profile = ?"
_STORE = f"INSERT OR REPLACE INTO pins ({_COLUMNS}) VALUES ({', '.join('?' * 19)})"  # noqa: S608


class SqlitePinStore:
    """A `PinStore`. Memory holds what is committed, and nothing else."""

    def __init__(
        self, writer: Writer, connection: sqlite3.Connection, *, clock: Clock, epoch: Epoch
    ) -> None:
        """Load every pin through `connection`, which is not needed afterwards."""
        self._writer = writer
        self._clock = clock
        self._pins = PinTable(epoch)
        self._pins.put(map(_pin, connection.execute(_ALL)))

    def find(self, target: Target, profile: Profile) -> Pin | None:
        return self._pins.find(target, profile, self._clock())

    def all(self, server: UpstreamId | None = None) -> Sequence[Pin]:
        return self._pins.all(server, self._clock())

    @property
    def version(self) -> int:
        return self._pins.version(self._clock())

    async def observe(self, sightings: Sequence[Sighting]) -> Sequence[Pin]:
        """Note what upstreams show, in one transaction, durable on return; see `PinStore`."""
        if not any(observed(self._pins.committed(*sighted(each)), each) for each in sightings):
            return ()

        now = self._clock()

        def job(connection: sqlite3.Connection) -> list[Pin]:
            changed: dict[PinKey, Pin] = {}
            for sighting in sightings:
                pin = observed(_read(connection, sighted(sighting), now), sighting)
                if pin is not None:
                    _write(connection, pin)
                    changed[pin_key(pin)] = pin
            return list(changed.values())

        return await self._writer.run(job, committed=self._pins.put)

    async def approve(
        self,
        target: Target,
        profile: Profile,
        *,
        expected: str,
        by: str,
        note: str,
        user_id: str = "",
        people: int = 1,
        expires_at: float | None = None,
    ) -> Pin:
        """Approve what was last observed, durable on return; see `PinStore`."""
        now = self._clock()
        elsewhere = tools_elsewhere(self.all(), target.server)

        def job(connection: sqlite3.Connection) -> list[Pin]:
            pin = approved_pin(
                known(_read(connection, (target, profile), now), target),
                expected=expected,
                by=by,
                at=now,
                note=note,
                user_id=user_id,
                people=people,
                expires_at=expires_at,
                elsewhere=elsewhere,
            )
            return [_write(connection, pin)]

        return (await self._writer.run(job, committed=self._pins.put))[0]

    async def revoke(self, target: Target, profile: Profile, *, by: str, note: str) -> Pin:  # noqa: ARG002 - the port's; who it was is in the audit log
        """Withdraw the approval, durable on return; see `PinStore`."""
        now = self._clock()

        def job(connection: sqlite3.Connection) -> list[Pin]:
            pin = known(_read(connection, (target, profile), now), target)
            return [_write(connection, revoked_pin(pin, note=note))]

        return (await self._writer.run(job, committed=self._pins.put))[0]

    async def keep_body(self, target: Target, profile: Profile, digest: str) -> Pin:
        """Keep what a prompt said when it was first used, durable on return; see `PinStore`."""
        now = self._clock()

        def job(connection: sqlite3.Connection) -> list[Pin]:
            pin = known(_read(connection, (target, profile), now), target)
            return [_write(connection, with_body(pin, digest))]

        return (await self._writer.run(job, committed=self._pins.put))[0]


def read_pins(path: Path) -> Sequence[Pin]:
    """Return the pins in a database, also beside a gateway that writes; none, if there are none yet."""
    if not path.is_file():
        return ()
    try:
        with closing(open_reader(path)) as connection:
            return [_pin(row) for row in connection.execute(_ALL)]
    except sqlite3.OperationalError:
        return ()  # no gateway has made its tables yet, or another version has


def sighted(sighting: Sighting) -> PinKey:
    """Return which pin a sighting is of."""
    return sighting.manifest.target, sighting.manifest.profile


def known(pin: Pin | None, target: Target) -> Pin:
    """Return the pin, which there is.

    Raises:
        PinMismatch: There is none.

    """
    if pin is None:
        raise PinMismatch("there is no such pin", detail=str(target))
    return pin


def _read(connection: sqlite3.Connection, key: PinKey, now: float) -> Pin | None:
    row = connection.execute(_ONE, identity_of(key)).fetchone()
    return None if row is None else pin_at(_pin(row), now)


def _write(connection: sqlite3.Connection, pin: Pin) -> Pin:
    approved = pin.approved
    connection.execute(
        _STORE,
        (
            *identity_of(pin_key(pin)),
            pin.status.value,
            pin.observed.definition.text,
            pin.observed.server_version,
            None if approved is None else approved.definition.text,
            None if approved is None else approved.server_version,
            pin.approved_by,
            pin.approved_at,
            pin.first_seen,
            pin.note,
            json.dumps([asdict(each) for each in pin.approvals]),
            json.dumps([asdict(each) for each in pin.filed]),
            pin.expires_at,
            pin.body_digest,
            pin.observed.identity,
            None if approved is None else approved.identity,
        ),
    )
    return pin


def _pin(row: tuple[Any, ...]) -> Pin:
    server, kind, name, profile, status, shown, shown_version = row[:7]
    approved, approved_version, approved_by, approved_at, first_seen, note = row[7:13]
    approvals, filed, expires_at, body_digest = row[13:17]
    shown_identity, approved_identity = row[17:]
    target = Target(server=UpstreamId(server), kind=Kind(kind), name=name)

    def manifest(text: str, version: str, identity: str) -> Manifest:
        return Manifest(
            target=target,
            profile=Profile(profile),
            definition=Document(text),
            server_version=version,
            identity=identity,
        )

    return Pin(
        target=target,
        profile=Profile(profile),
        status=PinStatus(status),
        observed=manifest(shown, shown_version, shown_identity),
        approved=None
        if approved is None
        else manifest(approved, approved_version, approved_identity),
        approved_by=approved_by,
        approved_at=approved_at,
        first_seen=first_seen,
        note=note,
        approvals=tuple(map(_approval, json.loads(approvals))),
        filed=tuple(map(_approval, json.loads(filed))),
        expires_at=expires_at,
        body_digest=body_digest,
    )


def _approval(kept: dict[str, Any]) -> PinApproval:
    return PinApproval(**{**kept, "findings": tuple(kept["findings"])})
