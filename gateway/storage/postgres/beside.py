"""What is looked up in PostgreSQL from beside the gateways that share it."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import psycopg

from gateway.audit.bundle import BundleVerification
from gateway.audit.checkpoint import VerifierKey
from gateway.audit.cosignature import WitnessKey
from gateway.domain.tools import Pin
from gateway.errors import ConfigError, Fault, IdentityUnavailable
from gateway.ports import Clock
from gateway.ports.secrets import Sealer
from gateway.storage.identity.store import IdentityStores
from gateway.storage.pin_rows import PinRows
from gateway.storage.postgres.connection import connect
from gateway.storage.postgres.identity import PostgresIdentityDatabase
from gateway.storage.postgres.keys import SealedRows, signing_key
from gateway.storage.postgres.log_views import PostgresLog
from gateway.storage.postgres.spelling import SpelledStatements
from gateway.storage.verify import Verification

_NONE_YET = "there is no log in PostgreSQL yet: start a gateway first"


class PostgresBeside:
    """Reads alone. Nothing is opened before it is asked for, and nothing is made."""

    def __init__(
        self, conninfo: str, *, unlock: Callable[[IdentityStores], Sealer], clock: Clock
    ) -> None:
        self._conninfo = conninfo
        self._unlock = unlock
        self._clock = clock

    def verify(
        self, *, checkpoints: Sequence[tuple[str, str]], witnesses: Sequence[WitnessKey]
    ) -> Verification:
        """Compare the log with itself and with every checkpoint there is; see `verify`.

        Raises:
            ConfigError: There is no log, or it cannot be read now.

        """
        with closing(PostgresLog(self._conninfo)) as log:
            try:
                return log.verify(self._verifier(log), checkpoints=checkpoints, witnesses=witnesses)
            except Fault as error:
                raise ConfigError(f"the log cannot be read: {error.detail}") from error

    def segment_verified(self, path: Path) -> BundleVerification:
        """Check a file of records by itself and against the log's own tree; see `segment_verified`.

        Raises:
            ConfigError: There is no log, or it cannot be read now.
            OSError: The file cannot be read.
            NotABundle: It is not of that form.

        """
        with closing(PostgresLog(self._conninfo)) as log:
            try:
                return log.segment_verified(path, self._verifier(log))
            except sqlite3.Error as error:
                raise ConfigError(f"the log cannot be read: {error}") from error

    def waiting(self) -> int:
        """Return 0: what is durable is in the database."""
        return 0

    def pins(self) -> Sequence[Pin]:
        """Return every pin; none, if there are none yet."""
        try:
            with closing(connect(self._conninfo, application="douane reader")) as connection:
                return PinRows(compared=True).all(SpelledStatements(connection))
        except psycopg.errors.UndefinedTable:
            return ()
        except psycopg.Error as error:
            raise ConfigError(f"PostgreSQL cannot be used: {error}".strip()) from error

    def _verifier(self, log: PostgresLog) -> VerifierKey:
        """Return who signs the log, by its key, which is sealed beside it."""
        database = PostgresIdentityDatabase(self._conninfo)
        try:
            stores = IdentityStores(database, clock=self._clock)
            rows = SealedRows(database, self._unlock(stores), clock=self._clock)
            key = rows.found("audit")
            with log.reading() as reader:
                name = reader.log_id
        except (IdentityUnavailable, Fault) as error:
            raise ConfigError(_NONE_YET, problems=[error.detail or error.public]) from error
        finally:
            database.close()
        if key is None:
            raise ConfigError(_NONE_YET)
        return VerifierKey.of(name, signing_key(key))
