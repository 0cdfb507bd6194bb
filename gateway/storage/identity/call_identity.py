"""What of the identity database is on the way of a call: who calls, and what was revoked."""

from pathlib import Path
from typing import Self

from gateway.errors import ConfigError, IdentityUnavailable
from gateway.ports import Clock
from gateway.ports.identity import ClientStore, UserStore
from gateway.storage.identity.clients import ClientTables
from gateway.storage.identity.database import DATABASE, SqliteIdentityDatabase
from gateway.storage.identity.revocations import Revocations
from gateway.storage.identity.statements import IdentityDatabase
from gateway.storage.identity.takeover import take_over_clients
from gateway.storage.identity.users import UserTables


class CallIdentity:
    """What of `IdentityStores` is on the way of a call. Several processes may have it open."""

    def __init__(self, database: IdentityDatabase, *, clock: Clock) -> None:
        """Wire the stores to an open database; see `open`."""
        self.database = database
        self.epoch = database.epoch
        """Turned by whatever may change who somebody is, and what they may do."""
        self.revocations = Revocations(database, clock=clock)
        self.clients: ClientStore = ClientTables(database, self.revocations, clock=clock)
        self.users: UserStore = UserTables(database, self.revocations)

    @classmethod
    def open(cls, data_dir: Path, *, clock: Clock, wait_s: float = 5.0) -> Self:
        """Open the database of `data_dir`, made or brought up to date where needed.

        `wait_s` is how long to wait for another process's transaction, in seconds.

        Raises:
            ConfigError: It cannot be used, or what it holds cannot be read.

        """
        database = SqliteIdentityDatabase.open(data_dir, wait_s=wait_s)
        try:
            take_over_clients(database, data_dir)
            return cls(database, clock=clock)
        except (IdentityUnavailable, ValueError) as error:
            database.close()
            raise ConfigError(f"{data_dir / DATABASE} cannot be used: {error}") from error
        except BaseException:
            database.close()
            raise

    @property
    def people(self) -> int:
        """How often rights of anybody have ended, as memory shows; see `IdentityDatabase`."""
        return self.database.people

    def follow(self) -> bool:
        """See what other processes have changed; say whether they have changed anything.

        Raises:
            IdentityUnavailable: The database cannot be read now.

        """
        return self.database.follow()

    def close(self) -> None:
        """Let go of the database; nothing is waiting to be written."""
        self.database.close()
