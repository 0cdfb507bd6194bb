"""Everything in the identity database of one process, opened and closed together."""

from gateway.ports import Clock
from gateway.ports.grants import BrowserStore, GrantStore
from gateway.ports.sealed import ConnectionStore, DataKeyStore, SigningKeyStore
from gateway.storage.identity.browsers import BrowserTables
from gateway.storage.identity.call_identity import CallIdentity
from gateway.storage.identity.connections import ConnectionTables
from gateway.storage.identity.grants import GrantTables
from gateway.storage.identity.keys import DataKeyTables, SigningKeyTables
from gateway.storage.identity.statements import IdentityDatabase


class IdentityStores(CallIdentity):
    """Who calls, and all that signing in and connecting keep beside it."""

    def __init__(self, database: IdentityDatabase, *, clock: Clock) -> None:
        """Wire the stores to an open database; see `open`."""
        super().__init__(database, clock=clock)
        self.browsers: BrowserStore = BrowserTables(database, self.revocations, clock=clock)
        self.grants: GrantStore = GrantTables(database, self.revocations, clock=clock)
        self.signing_keys: SigningKeyStore = SigningKeyTables(database)
        self.data_keys: DataKeyStore = DataKeyTables(database)
        self.connections: ConnectionStore = ConnectionTables(database)
