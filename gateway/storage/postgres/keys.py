"""The gateway's own keys where replicas share them: sealed, in rows, each made once by whoever is first.

A file of a data directory would be another key at each replica. What opens a row is the
key-encryption key, which is in no database; a row that does not open is never made anew.
"""

import re
import secrets
from collections.abc import Callable, Mapping
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)

from gateway.errors import ConfigError, Unsealable
from gateway.ports import Clock
from gateway.ports.secrets import Sealer
from gateway.storage.identity.statements import IdentityDatabase, Statements
from gateway.storage.keys import Keys

_SECRET_BYTES: Final = 32
_RECORD_HASH: Final = re.compile(r"record-hash-(\d{1,6})", re.ASCII)
_ALL: Final = "SELECT name, sealed FROM keys"
_ONE: Final = "SELECT sealed FROM keys WHERE name = ?"
_ADD: Final = "INSERT INTO keys (name, sealed, made_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_REPLACE: Final = "UPDATE keys SET sealed = ?, made_at = ? WHERE name = ? AND sealed = ?"
_FORGET: Final = "DELETE FROM keys WHERE name = ?"


class SealedRows:
    """The table `keys`, in which each key is sealed for its own name."""

    def __init__(self, database: IdentityDatabase, sealer: Sealer, *, clock: Clock) -> None:
        self._database = database
        self._sealer = sealer
        self._clock = clock

    def found(self, name: str) -> bytes | None:
        """Return the key of that name, if there is one."""
        row = self._database.read(lambda of: of.execute(_ONE, (name,)).fetchone())
        return None if row is None else self.opened(name, row[0])

    def made(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return the key of that name, which is what the first one made who found none."""
        found = self.found(name)
        if found is not None:
            return found
        row = (name, self.sealed(name, make()), self._clock())

        def job(connection: Statements) -> str:
            connection.execute(_ADD, row)
            ((sealed,),) = connection.execute(_ONE, (name,))
            return str(sealed)

        return self.opened(name, self._database.write(job))

    def sealed(self, name: str, octets: bytes) -> str:
        """Return a key as it stands in its row."""
        return self._sealer.seal(octets, key_row(name))

    def opened(self, name: str, sealed: str) -> bytes:
        """Return what `sealed` was given, for the same name.

        Raises:
            ConfigError: It was sealed for another row, or by a key that is not here.

        """
        try:
            return self._sealer.open(sealed, key_row(name))
        except Unsealable as error:
            raise ConfigError(f"the key {name} in the database cannot be opened") from error


class SharedKeys:
    """The keys of all replicas, and their rotation."""

    def __init__(self, database: IdentityDatabase, sealer: Sealer, *, clock: Clock) -> None:
        self._database = database
        self._rows = SealedRows(database, sealer, clock=clock)
        self._clock = clock

    def keys(self) -> Keys:
        """Return the keys, of which those that are missing are made.

        Raises:
            ConfigError: One cannot be opened, or is not a key.
            IdentityUnavailable: The database cannot be used now.

        """
        former = self._rows.found("seal.former")
        return Keys(
            audit=signing_key(self._rows.made("audit", _new_signing_key)),
            hmac=_secret("hmac", self._rows.made("hmac", _new_secret)),
            seal=_secret("seal", self._rows.made("seal", _new_secret)),
            former_seal=None if former is None else _secret("seal.former", former),
        )

    def renew_seal(self) -> bool:
        """Seal sessions with a new key from the next start on; what is in use stays as the former.

        False if another replica has just done it: the former key of a second time would open nothing
        of what is in use.

        Raises:
            ConfigError: The key in use cannot be opened.
            IdentityUnavailable: The database cannot be used now.

        """
        before = self._database.read(lambda of: of.execute(_ONE, ("seal",)).fetchone())
        if before is None:
            return False
        former = self._rows.sealed("seal.former", self._rows.opened("seal", before[0]))
        new, moment = self._rows.sealed("seal", _new_secret()), self._clock()

        def job(connection: Statements) -> bool:
            replaced = connection.execute(_REPLACE, (new, moment, "seal", before[0]))
            if replaced.rowcount != 1:
                return False
            connection.execute(_FORGET, ("seal.former",))
            connection.execute(_ADD, ("seal.former", former, moment))
            return True

        return self._database.write(job)

    def record_keys(self) -> "SharedRecordKeys":
        """Return the keys of the hash in records, as they are now and become."""
        return SharedRecordKeys(self._database, self._rows, clock=self._clock)


class SharedRecordKeys:
    """The keys of the hash that stands in records: the one in use, and all that ever were.

    With a key that is lost, nobody can find again what was hashed with it.
    """

    def __init__(self, database: IdentityDatabase, rows: SealedRows, *, clock: Clock) -> None:
        """Follow the database from now on; see `SharedKeys.record_keys`."""
        self._database = database
        self._rows = rows
        self._clock = clock
        self._first = _secret("hmac", rows.made("hmac", _new_secret))
        self._keys: tuple[bytes, ...] = (self._first,)
        database.remembers(self._load)

    @property
    def all(self) -> tuple[bytes, ...]:
        """Every key, oldest first; the last one is in use."""
        return self._keys

    def add(self) -> tuple[bytes, ...]:
        """Make another key, durable on return, and return all of them."""
        octets = _new_secret()

        def job(connection: Statements) -> tuple[bytes, ...]:
            # Of two replicas that add one at once, one is done again and counts the other's.
            name = f"record-hash-{len(self._read(connection)) + 1}"
            connection.execute(_ADD, (name, self._rows.sealed(name, octets), self._clock()))
            return self._read(connection)

        return self._database.write(job, committed=self._hold)

    def _hold(self, keys: tuple[bytes, ...]) -> None:
        self._keys = keys

    def _load(self, connection: Statements) -> None:
        self._hold(self._read(connection))

    def _read(self, connection: Statements) -> tuple[bytes, ...]:
        rows: Mapping[str, str] = dict(connection.execute(_ALL).rows)
        numbers = {int(found[1]) for name in rows if (found := _RECORD_HASH.fullmatch(name))}
        missing = set(range(2, max(numbers, default=1) + 1)) - numbers
        if missing:
            raise ConfigError(
                f"the key record-hash-{min(missing)} is missing, and records may have been written with it"
            )
        names = [f"record-hash-{number}" for number in sorted(numbers)]
        opened = (_secret(name, self._rows.opened(name, rows[name])) for name in names)
        return (self._first, *opened)


def key_row(name: str) -> str:
    """Return what the key of that name is sealed for."""
    return f"keys:{name}:sealed"


def _new_secret() -> bytes:
    return secrets.token_bytes(_SECRET_BYTES)


def _new_signing_key() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(
        Encoding.DER, PrivateFormat.PKCS8, NoEncryption()
    )


def _secret(name: str, octets: bytes) -> bytes:
    if len(octets) != _SECRET_BYTES:
        raise ConfigError(f"the key {name} in the database is not one of {_SECRET_BYTES} bytes")
    return octets


def signing_key(octets: bytes) -> Ed25519PrivateKey:
    """Return the key that signs the log, as it stands in its row.

    Raises:
        ConfigError: It is none.

    """
    try:
        key = load_der_private_key(octets, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError("the key audit in the database is not a private key") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError("the key audit in the database is not an Ed25519 key")
    return key
