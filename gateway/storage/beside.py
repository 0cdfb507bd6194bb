"""What is looked up in a data directory from beside its gateway, also while that runs."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from gateway.audit.bundle import BundleVerification
from gateway.audit.cosignature import WitnessKey
from gateway.domain.tools import Pin
from gateway.storage.connection import open_reader
from gateway.storage.database import DATABASE
from gateway.storage.journal import JOURNAL, Journal
from gateway.storage.keys import audit_key
from gateway.storage.pin_rows import PinRows
from gateway.storage.reader import AuditReader
from gateway.storage.segments import segment_verified
from gateway.storage.verify import Verification, own_verifier, verify


def waiting_in(data_dir: Path) -> int:
    """Return how many records stand in the journal of a log, and not in its database yet.

    Raises:
        ConfigError: There is no log, or the journal is not its.
        OSError: The journal cannot be read.

    """
    secret = audit_key(data_dir).private_bytes_raw()
    with closing(AuditReader.open(data_dir / DATABASE)) as reader:
        size, log_id = reader.newest() + 1, reader.log_id
    return len(Journal.look(data_dir / JOURNAL, log_id=log_id, secret=secret).beyond(size))


class SqliteBeside:
    """Reads alone. Nothing is opened before it is asked for, and nothing is made."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def verify(
        self, *, checkpoints: Sequence[tuple[str, str]], witnesses: Sequence[WitnessKey]
    ) -> Verification:
        """Compare the log with itself and with every checkpoint there is; see `verify`.

        Raises:
            ConfigError: There is no log.

        """
        verifier = own_verifier(self._data_dir)
        return verify(self._data_dir, verifier, checkpoints=checkpoints, witnesses=witnesses)

    def segment_verified(self, path: Path) -> BundleVerification:
        """Check a file of records by itself and against the log's own tree; see `segment_verified`.

        Raises:
            ConfigError: There is no log.
            OSError: The file cannot be read.
            NotABundle: It is not of that form.

        """
        return segment_verified(path, own_verifier(self._data_dir), self._data_dir / DATABASE)

    def waiting(self) -> int:
        """Return how many records are durable in the journal, and not in the log yet.

        Raises:
            ConfigError: There is no log, or the journal is not its.
            OSError: The journal cannot be read.

        """
        return waiting_in(self._data_dir)

    def pins(self) -> Sequence[Pin]:
        """Return every pin; none, if there are none yet."""
        path = self._data_dir / DATABASE
        if not path.is_file():
            return ()
        try:
            with closing(open_reader(path)) as connection:
                return PinRows().all(connection)
        except sqlite3.OperationalError:
            return ()  # no gateway has made its tables yet, or another version has
