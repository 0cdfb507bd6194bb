"""Who is known and what is kept of them, for the life of the process: secrets, keys, the way out."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

import orjson
from joserfc import jws

from gateway.config import Config
from gateway.config.values import SecretRef
from gateway.domain.trouble import Trouble
from gateway.errors import ConfigError, Fault, GatewayError
from gateway.oauth.custodian import KeyCustodian, new_private_key
from gateway.oauth.documents import LARGEST_DOCUMENT_BYTES
from gateway.oauth.foreign.keys import RemoteKeys
from gateway.oauth.foreign.metadata import RemoteMetadata
from gateway.oauth.foreign.tokens import ForeignTokens
from gateway.oauth.keys import ALGORITHM, KeyRing
from gateway.ports.identity import UserStore
from gateway.storage.earlier_key import earlier_signing_key, forget_earlier_signing_key
from gateway.storage.identity.store import IdentityStores
from gateway.storage.identity.vouched import VouchedUsers
from gateway.storage.kek import KekFile, new_key
from gateway.turns import Line
from gateway.upstream.egress import EgressPolicy, GuardedFetcher
from gateway.vault import KeyEncryptionKey, Vault
from gateway.wiring.foundation import now, open_store
from gateway.wiring.replicas import open_shared
from gateway.wiring.stores import Stores

logger = logging.getLogger(__name__)

_FOLLOW_S = 0.25
"""How soon another process's revocations are seen here: well within a second."""
_TICK_S = 60.0


@asynccontextmanager
async def opened(config: Config) -> AsyncIterator["Identity"]:
    """Open whatever a gateway keeps, unlocked.

    Raises:
        ConfigError: It cannot be used.

    """
    if config.storage.kind == "sqlite":
        async with open_store(config) as store:
            yield await Identity.open(config, store)
        return
    unlocking = _Unlocking(config)
    async with open_shared(config, unlocking) as shared:
        yield await Identity.open(config, shared, unlocking.vault)


class _Unlocking:
    """Opens the vault once there are its keys; the gateway's own keys are sealed with it."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.vault: Vault | None = None

    def __call__(self, stores: IdentityStores) -> Vault:
        try:
            self.vault = unlocked(self._config, stores)
        except Fault as error:
            raise ConfigError(
                f"what is sealed in PostgreSQL cannot be read: {error.public}",
                problems=[error.detail] if error.detail else (),
            ) from error
        return self.vault


class Identity:
    """The vault, the signing keys in step with other processes, and fetches on others' word."""

    def __init__(
        self, config: Config, store: Stores, *, vault: Vault, custodian: KeyCustodian, ring: KeyRing
    ) -> None:
        """Take over what `open` has opened."""
        self.store = store
        self.users: UserStore = VouchedUsers(store.identity.users, _vouching(config))
        """People whom the configuration lets sign in; those of a former mode are not found."""
        self.vault = vault
        self._config = config
        self._custodian = custodian
        self._ring = ring
        self._listeners: list[Callable[[KeyRing], None]] = []
        # Of two that replace the key-encryption key at once, each would take the other's key off the disk.
        self._rotating = Line()
        egress = EgressPolicy.of(config.egress.allow)
        self.fetcher = GuardedFetcher(egress, ca=config.egress.ca)
        self.documents = GuardedFetcher(
            egress, ca=config.egress.ca, most_bytes=LARGEST_DOCUMENT_BYTES
        )
        self.metadata = RemoteMetadata(self.fetcher, clock=now)
        self.remote_keys = RemoteKeys(self.fetcher, metadata=self.metadata, clock=now)
        self.foreign_tokens = ForeignTokens(self.remote_keys, clock=now)

    @classmethod
    async def open(cls, config: Config, store: Stores, vault: Vault | None = None) -> Self:
        """Unlock the secrets of `store`, unless `vault` is them, and take its signing keys into use.

        Raises:
            ConfigError: They are locked with another key, or damaged.

        """
        try:
            if vault is None:
                vault = await asyncio.to_thread(unlocked, config, store.identity)
            custodian = KeyCustodian(
                store.identity.signing_keys,
                vault,
                key_lifetime_s=config.auth.key_lifetime,
                token_lifetime_s=max(
                    config.auth.token_lifetime, config.auth.device_token_lifetime or 0
                ),
                generate=new_private_key,
            )
            ring = await asyncio.to_thread(_started, custodian, store)
        except Fault as error:
            raise ConfigError(
                f"the identity database in {config.data_dir} cannot be used: {error.public}",
                problems=[error.detail] if error.detail else (),
            ) from error
        return cls(config, store, vault=vault, custodian=custodian, ring=ring)

    @property
    def ring(self) -> KeyRing:
        """The keys that sign and verify our tokens now."""
        return self._ring

    def on_rotation(self, use: Callable[[KeyRing], None]) -> Callable[[], None]:
        """Have `use` called with every ring from now on; the result ends that."""
        self._listeners.append(use)
        use(self._ring)
        return lambda: self._listeners.remove(use)

    async def watch(self) -> None:
        """Follow other processes, and take the steps that are due, until cancelled."""
        ticked, seen, trouble = now(), self.store.identity.epoch.now, Trouble()
        while True:
            await asyncio.sleep(_FOLLOW_S)
            try:
                await asyncio.to_thread(self.store.identity.follow)
                # A call that was decided again may have had its memory follow before.
                epoch = self.store.identity.epoch.now
                if changed := epoch != seen:
                    await asyncio.to_thread(self.vault.follow)
                if changed or now() - ticked >= _TICK_S:
                    ticked = now()
                    await asyncio.to_thread(self._custodian.tick, now=ticked)
                    self._use_latest()
                seen = epoch  # what could not be followed is tried again
                trouble.is_new("")
            except GatewayError as error:
                # What is in memory stays in use; whatever needs the database says no by itself.
                if trouble.is_new(error.detail):
                    logger.warning("the identity database cannot be read: %s", error.detail)

    def sign(self, claims: Mapping[str, Any]) -> str:
        """Return `claims` as a JWT that is no access token (`broker.Signer`)."""
        key = self._ring.signing
        header = {"alg": ALGORITHM, "typ": "JWT", "kid": key.kid}
        return jws.serialize_compact(header, orjson.dumps(claims), key.pair, algorithms=[ALGORITHM])

    async def signing(self) -> Mapping[str, Any]:
        """Let the next key sign from now on; the active one still verifies what it has signed.

        Raises:
            ValueError: The next key has not been published for long enough.

        """
        await self._rotating.take(lambda: asyncio.to_thread(self._custodian.rotate, now=now()))
        self._use_latest()
        return {"use": "signing", "id": self._ring.signing.kid}

    async def data(self) -> Mapping[str, Any]:
        """Seal with a new data key from now on; what was sealed before stays readable."""
        await self._rotating.take(lambda: asyncio.to_thread(self.vault.add_data_key))
        return {"use": "data", "id": self.store.identity.data_keys.data_keys()[0].id}

    async def kek(self) -> Mapping[str, Any]:
        """Wrap every data key with another key-encryption key.

        Raises:
            ConfigError: It is the operator's, and only they can replace it.

        """
        if self._config.auth.key_encryption_key is not None:
            raise ConfigError(
                "auth.key_encryption_key is yours: write the new one there, the one in use now as "
                "auth.former_key_encryption_key, and restart the gateway"
            )
        await self._rotating.take(lambda: asyncio.to_thread(self._rewrap))
        return {"use": "kek", "id": self.vault.kek.id}

    async def record_hash(self) -> Mapping[str, Any]:
        """Hash what stands in records with a new key from now on; the older ones are kept."""
        return {"use": "record-hash", "id": f"h{await self.store.rotate_record_hash()}"}

    def _rewrap(self) -> None:
        file = KekFile(self._config.data_dir)
        text = new_key()
        # Kept before it is used: cut short at any moment, one of the two opens everything.
        file.propose(text)
        self.vault.rewrap(KeyEncryptionKey.parse(text, named="kek.key"))
        file.settle(text)

    def _use_latest(self) -> None:
        """Take what the custodian has now: of two steps the earlier may be heard of later."""
        ring = self._custodian.ring
        if ring is not None and ring is not self._ring:
            self._ring = ring
            for use in self._listeners:
                use(ring)


def _vouching(config: Config) -> frozenset[str]:
    """Return whose word about people is taken: ours only while they have a password here."""
    ours = {config.public_url} if config.auth.mode == "embedded" else set()
    return frozenset(config.auth.issuers | ours)


def unlocked(config: Config, stores: IdentityStores) -> Vault:
    """Open the vault; the operator's key takes over from the file's or a former one's."""
    keys = stores.data_keys
    file = KekFile(config.data_dir)
    auth = config.auth
    if auth.key_encryption_key is None:
        texts = file.read(make=not keys.data_keys())
        keks = [KeyEncryptionKey.parse(text, named="kek.key") for text in texts]
        vault = Vault.unlock(keys, keks, random=os.urandom, clock=now)
        file.settle(vault.kek.text)
        return vault
    kek, former = operators_keys(config)
    # What is shared was never wrapped by a file of one gateway's: such a file is of what was moved from there.
    is_here = config.storage.kind == "sqlite"
    texts = file.found() if is_here else ()
    former = [*(KeyEncryptionKey.parse(text, named="kek.key") for text in texts), *former]
    vault = Vault.unlock(keys, [kek, *former], random=os.urandom, clock=now)
    if vault.kek.id != kek.id:
        vault.rewrap(kek)
    if is_here:
        file.forget()
    return vault


def operators_keys(config: Config) -> tuple[KeyEncryptionKey, Sequence[KeyEncryptionKey]]:
    """Return the key-encryption key that the configuration gives, and the former one, if it says so.

    Raises:
        ConfigError: There is none, or it is no key.

    """
    auth = config.auth
    if auth.key_encryption_key is None:
        raise ConfigError("auth.key_encryption_key: say by reference where the key is")
    kek = _operators(auth.key_encryption_key, "auth.key_encryption_key")
    if auth.former_key_encryption_key is None:
        return kek, ()
    return kek, (_operators(auth.former_key_encryption_key, "auth.former_key_encryption_key"),)


def _operators(reference: SecretRef, named: str) -> KeyEncryptionKey:
    return KeyEncryptionKey.parse(reference.resolve(os.environ).reveal(), named=named)


def _started(custodian: KeyCustodian, store: Stores) -> KeyRing:
    ring = custodian.start(now=now(), earlier=earlier_signing_key(store.data_dir))
    forget_earlier_signing_key(store.data_dir)
    return ring
