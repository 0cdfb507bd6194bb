"""Signing keys and data keys, sealed and wrapped: nothing here opens anything."""

from collections.abc import Sequence

from gateway.domain.secrets import DataKey, SealedKey
from gateway.storage.identity.remembered import Columns
from gateway.storage.identity.statements import IdentityDatabase, Statements

_SIGNING = Columns(SealedKey, "signing_keys")
_DATA = Columns(DataKey, "data_keys")


class SigningKeyTables:
    """A `SigningKeyStore`. One key is next and one is active: the table takes no second one."""

    def __init__(self, database: IdentityDatabase) -> None:
        self._database = database

    def keys(self) -> Sequence[SealedKey]:
        """Return every key that is not forgotten, newest first."""
        rows = self._database.read(
            lambda connection: connection.execute(
                f"{_SIGNING.select} ORDER BY created_at DESC, kid"
            ).fetchall()
        )
        return [*map(_SIGNING.value, rows)]

    def add_key(self, key: SealedKey) -> bool:
        """Store a new key; false if another process has just stored one of that state."""
        added = self._database.write(
            lambda connection: (
                connection.execute(
                    f"{_SIGNING.insert} ON CONFLICT DO NOTHING", _SIGNING.row(key)
                ).rowcount
            )
        )
        return added == 1

    def activate_key(self, kid: str, *, at: float) -> bool:
        """Make the next key the active one and retire the active one; true for one caller."""

        def job(connection: Statements) -> bool:
            connection.execute(
                "UPDATE signing_keys SET state = 'retired', retired_at = ? WHERE state = 'active'"
                " AND EXISTS (SELECT 1 FROM signing_keys WHERE kid = ? AND state = 'next')",
                (at, kid),
            )
            activated = connection.execute(
                "UPDATE signing_keys SET state = 'active', activated_at = ?"
                " WHERE kid = ? AND state = 'next'",
                (at, kid),
            )
            return activated.rowcount == 1

        return self._database.write(job)

    def forget_keys(self, *, retired_before: float) -> int:
        """Forget keys that signed nothing since; return how many they were."""
        return self._database.write(
            lambda connection: (
                connection.execute(
                    "DELETE FROM signing_keys WHERE state = 'retired' AND retired_at < ?",
                    (retired_before,),
                ).rowcount
            )
        )


class DataKeyTables:
    """A `DataKeyStore`. All of them are wrapped by one key-encryption key, at every moment."""

    def __init__(self, database: IdentityDatabase) -> None:
        self._database = database

    def data_keys(self) -> Sequence[DataKey]:
        """Return every data key, newest first."""
        rows = self._database.read(
            lambda connection: connection.execute(
                f"{_DATA.select} ORDER BY created_at DESC, id"
            ).fetchall()
        )
        return [*map(_DATA.value, rows)]

    def add_data_key(self, key: DataKey) -> None:
        """Store a new key.

        Raises:
            LookupError: The keys there are wrapped by another key-encryption key.

        """

        def job(connection: Statements) -> None:
            connection.execute(_DATA.insert, _DATA.row(key))
            _wrapped_by_one(connection, key.kek_id)

        self._database.write(job)

    def rewrap(self, keys: Sequence[DataKey]) -> None:
        """Replace the wrapping of these keys, all or none.

        Raises:
            LookupError: They are not all the keys there are.

        """

        def job(connection: Statements) -> None:
            connection.executemany(
                "UPDATE data_keys SET wrapped = ?, kek_id = ? WHERE id = ?",
                [(key.wrapped, key.kek_id, key.id) for key in keys],
            )
            for kek_id in {key.kek_id for key in keys}:
                _wrapped_by_one(connection, kek_id)

        self._database.write(job)


def _wrapped_by_one(connection: Statements, kek_id: str) -> None:
    ((others,),) = connection.execute("SELECT count(*) FROM data_keys WHERE kek_id <> ?", (kek_id,))
    if others:
        raise LookupError("the data keys were wrapped by another key-encryption key meanwhile")
