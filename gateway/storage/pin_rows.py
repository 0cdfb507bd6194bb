"""Pins as rows of their table."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from gateway.domain.document import Document
from gateway.domain.tools import (
    Kind,
    Manifest,
    Pin,
    PinApproval,
    PinStatus,
    Profile,
    Target,
    UpstreamId,
)
from gateway.pins.observe import pin_at
from gateway.storage.pin_table import PinKey, identity_of, pin_key
from gateway.storage.state import Given, Tables, given

_KEY: Final = ("server", "kind", "name", "profile")
_SAID: Final = (
    *("status", "observed", "observed_version", "{approved}", "approved_version", "approved_by"),
    *("approved_at", "first_seen", "note", "approvals", "filed", "expires_at", "body_digest"),
    *("observed_identity", "approved_identity"),
)
_DIGEST: Final = "approved"
_APPROVALS: Final = tuple[PinApproval, ...]
_BETWEEN: Final = "\x1f"


class PinRows:
    """Reads and writes them."""

    def __init__(self, *, compared: bool = False) -> None:
        """Spell their statements.

        Where calls are `compared` with the column `approved`, that is the digest of the definition, and
        its text stands beside it; else it is the text.
        """
        self._compared = compared
        said = [one.format(approved="approved_text" if compared else "approved") for one in _SAID]
        self._all = f"SELECT {', '.join((*_KEY, *said))} FROM pins"  # noqa: S608 - fixed text
        self._one = f"{self._all} WHERE {' AND '.join(f'{one} = ?' for one in _KEY)}"
        written = [*said, _DIGEST] if compared else said
        columns = (*_KEY, *written)
        self._store = (
            f"INSERT INTO pins ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608
            f" ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET"
            f" {', '.join(f'{one} = excluded.{one}' for one in written)}"
        )

    def all(self, tables: Tables) -> Sequence[Pin]:
        return [_pin(row) for row in tables.execute(self._all)]

    def read(self, tables: Tables, key: PinKey, now: float) -> Pin | None:
        """Return a pin as it is `now`, in seconds since the epoch."""
        row = tables.execute(self._one, _columns(key)).fetchone()
        return None if row is None else pin_at(_pin(row), now)

    def under(self, tables: Tables, keys: Iterable[str]) -> Sequence[Pin]:
        """Return the pins as they were written under keys that the database has told of."""
        found = []
        for one in keys:
            server, kind, name, profile = one.split(_BETWEEN)
            column = Given(given(bytes.fromhex(name)))
            row = tables.execute(self._one, (server, kind, column, profile)).fetchone()
            if row is not None:
                found.append(_pin(row))
        return found

    def write(self, tables: Tables, pin: Pin) -> Pin:
        approved = pin.approved
        row = (
            *_columns(pin_key(pin)),
            pin.status.value,
            pin.observed.definition.text,
            pin.observed.server_version,
            None if approved is None else approved.definition.text,
            None if approved is None else approved.server_version,
            pin.approved_by,
            pin.approved_at,
            pin.first_seen,
            pin.note,
            msgspec.json.encode(pin.approvals).decode(),
            msgspec.json.encode(pin.filed).decode(),
            pin.expires_at,
            pin.body_digest,
            pin.observed.identity,
            None if approved is None else approved.identity,
        )
        digest = None if approved is None else str(approved.digest)
        tables.execute(self._store, (*row, digest) if self._compared else row)
        return pin


def digest_in(row: tuple[Any, ...]) -> str | None:
    """Return what calls are compared with, of a pin's row with all its columns in their order."""
    approved = _pin(row).approved
    return None if approved is None else str(approved.digest)


def _columns(key: PinKey) -> tuple[str, str, str, str]:
    server, kind, name, profile = identity_of(key)
    return server, kind, Given(name), profile


def _pin(row: tuple[Any, ...]) -> Pin:
    server, kind, name, profile, status, shown, shown_version = row[:7]
    approved, approved_version, approved_by, approved_at, first_seen, note = row[7:13]
    approvals, filed, expires_at, body_digest = row[13:17]
    shown_identity, approved_identity = row[17:]
    target = Target(server=UpstreamId(server), kind=Kind(kind), name=given(name))

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
        approvals=msgspec.json.decode(approvals, type=_APPROVALS),
        filed=msgspec.json.decode(filed, type=_APPROVALS),
        expires_at=expires_at,
        body_digest=body_digest,
    )
