"""A copy of the files opens nothing: no code, token, link, password or upstream token is in them."""

import hashlib
import os
import secrets
from contextlib import closing

from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from gateway.domain.grants import DeviceStatus
from gateway.storage.identity.store import IdentityStores
from gateway.storage.kek import KekFile
from gateway.vault import KeyEncryptionKey, Vault
from tests.storage.identity.identities import (
    NOW,
    Hand,
    code,
    connection,
    device,
    grant,
    session,
    token,
    transaction,
    user,
)
from tests.storage.suite import client


class Planted:
    """Fresh secrets, and what of each may be stored."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self.secrets: list[str] = []

    def secret(self) -> str:
        self.secrets.append(secrets.token_urlsafe(32))
        return self.secrets[-1]

    def hashed(self) -> str:
        return hashlib.sha256(self.secret().encode()).hexdigest()

    def sealed(self, row: str) -> str:
        return self._vault.seal(self.secret().encode(), row)

    def password(self) -> str:
        argon2 = Argon2id(salt=os.urandom(16), length=32, iterations=1, lanes=1, memory_cost=64)
        return argon2.derive_phc_encoded(self.secret().encode())


def plant(stores: IdentityStores, planted: Planted) -> None:
    """Store a secret in every place that there is for one."""
    link, used, first = planted.hashed(), planted.hashed(), planted.hashed()
    stores.users.add(user(), link_hash=link, link_until=NOW + 10)
    assert stores.users.redeem_link(link, planted.password(), now=NOW)
    stores.users.add_link("u_emma", planted.hashed(), until=NOW + 10)
    stores.clients.add(client(secret_hash=f"sha256:{planted.hashed()}"))
    stores.browsers.open_session(session(planted.hashed()))
    stores.browsers.begin(
        transaction(browser_hash=planted.hashed(), secrets=planted.sealed("transactions:x:secrets"))
    )
    stores.grants.issue_code(grant(), code(used))
    assert stores.grants.redeem_code(used, token(first), at=NOW)
    assert stores.grants.rotate(
        first,
        token(planted.hashed(), parent_hash=first),
        sealed=planted.sealed(f"refresh_tokens:{first}:successor"),
        at=NOW,
    )
    device_hash = planted.hashed()
    stores.grants.add_device(device(device_hash))
    assert stores.grants.answer_device(device_hash, DeviceStatus.APPROVED, grant("d"), now=NOW)
    stores.connections.connect(connection(sealed=planted.sealed("connections:u_emma:mail")))
    stores.connections.register("mail", "as", planted.sealed("registrations:mail:as:sealed"))


def test_no_secret_of_anybodys_is_in_the_files_in_the_clear(tmp_path):
    with closing(IdentityStores.open(tmp_path, clock=Hand())) as stores:
        (key,) = KekFile(tmp_path).read(make=True)
        kek = KeyEncryptionKey.parse(key, named="kek.key")
        vault = Vault.unlock(stores.data_keys, [kek], random=os.urandom, clock=Hand())
        planted = Planted(vault)
        plant(stores, planted)
        open_files = [path.read_bytes() for path in tmp_path.glob("identity.db*")]
    written = b"".join([*open_files, (tmp_path / "identity.db").read_bytes()])
    assert len(planted.secrets) == 14
    hashes = [hashlib.sha256(secret.encode()).hexdigest() for secret in planted.secrets]
    assert sum(found.encode() in written for found in hashes) >= 9
    for secret in [*planted.secrets, key]:
        assert secret.encode() not in written
    assert kek.octets not in written
