"""Secrets at rest: sealed with data keys, which are wrapped by a key that is kept elsewhere."""

import base64
import hashlib
import itertools
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gateway.domain._value import value
from gateway.domain.secrets import DataKey
from gateway.errors import ConfigError, Unsealable
from gateway.ports import Clock
from gateway.ports.sealed import DataKeyStore

Random = Callable[[int], bytes]
"""Returns so many octets that nobody can guess (`os.urandom`)."""

_KEY_BYTES = 32
_NONCE_BYTES = 12
_ID_BYTES = 8

_DATA_KEY_LIFETIME_S = 90 * 86_400
"""A key may meet 2^32 random nonces (NIST SP 800-38D section 8.3): more than 500 a second."""

_FEWEST_DISTINCT_OCTETS = 12
"""32 random octets hold fewer distinct ones with a probability below 1e-23."""

_KEY = re.compile(r"[A-Za-z0-9_-]{43}=?")
_SEALED = re.compile(r"v1\.([0-9a-f]{16})\.([A-Za-z0-9_-]+)")


@value
class KeyEncryptionKey:
    """Wraps data keys, and nothing else. It is never in the database."""

    named: str
    """What an operator calls it: the setting or the file."""
    octets: bytes = field(repr=False)

    @classmethod
    def parse(cls, text: str, *, named: str) -> Self:
        """Read 32 octets in base64url (RFC 4648 section 5), padded or not.

        Raises:
            ConfigError: It is not that, or was not drawn at random.

        """
        if _KEY.fullmatch(text) is None:
            raise ConfigError(f"{named} is not a key: it must be 32 octets in base64url")
        octets = _decoded(text.rstrip("="))
        if text in (text.lower(), text.upper()) or _is_guessable(octets):
            raise ConfigError(f"{named} was not drawn at random; make a new key")
        return cls(named=named, octets=octets)

    @property
    def id(self) -> str:
        """Names it and tells nothing about it."""
        return hashlib.sha256(b"douane key-encryption key\0" + self.octets).hexdigest()[:16]

    @property
    def text(self) -> str:
        """What `parse` reads, without padding."""
        return _encoded(self.octets)


class Vault:
    """A `Sealer`: AES-256-GCM with the row as associated data, under the newest data key.

    A text moved to another row, or sealed by anybody else, does not open.
    """

    def __init__(
        self,
        store: DataKeyStore,
        kek: KeyEncryptionKey,
        keys: Sequence[DataKey],
        *,
        random: Random,
        clock: Clock,
    ) -> None:
        """Unwrap `keys`, newest first; see `unlock`."""
        self._store = store
        self._random = random
        self._clock = clock
        self.kek = kek
        """The key-encryption key in use."""
        self._swap = threading.Lock()
        self._newest = keys[0]
        self._ciphers: Mapping[str, AESGCM] = {key.id: AESGCM(_unwrapped(key, kek)) for key in keys}

    @classmethod
    def unlock(
        cls,
        store: DataKeyStore,
        keks: Sequence[KeyEncryptionKey],
        *,
        random: Random,
        clock: Clock,
    ) -> Self:
        """Open the keys of `store` with the one of `keks` that wraps them; `kek` says which.

        With none there, the first data key is made under the first of `keks`; one that has sealed
        for long enough gets a successor.

        Raises:
            ConfigError: The keys are wrapped by another key-encryption key, or are damaged;
                nothing was changed.

        """
        found = store.data_keys()
        kek = _that_wraps(found, keks)
        if not found or found[0].created_at + _DATA_KEY_LIFETIME_S <= clock():
            _add_key(store, kek, random=random, clock=clock)
            found = store.data_keys()
        return cls(store, kek, found, random=random, clock=clock)

    def seal(self, plain: bytes, row: str) -> str:
        """Return `plain` sealed for `row`; see `Sealer`."""
        nonce = self._random(_NONCE_BYTES)
        sealed = self._ciphers[self._newest.id].encrypt(nonce, plain, row.encode())
        return f"v1.{self._newest.id}.{_encoded(nonce + sealed)}"

    def open(self, sealed: str, row: str) -> bytes:
        """Return what `seal` was given; see `Sealer.open`."""
        parts = _SEALED.fullmatch(sealed)
        if parts is None:
            raise _unsealable("not a sealed text")
        key_id, text = parts.groups()
        cipher = self._cipher(key_id)
        try:
            octets = _decoded(text)
            return cipher.decrypt(octets[:_NONCE_BYTES], octets[_NONCE_BYTES:], row.encode())
        except (InvalidTag, ValueError) as error:
            raise _unsealable(f"not sealed for {row} with the data key {key_id}") from error

    def add_data_key(self) -> None:
        """Seal with a new data key from now on. What the ones before sealed still opens.

        Raises:
            ConfigError: Another process has changed the key-encryption key meanwhile.

        """
        _add_key(self._store, self.kek, random=self._random, clock=self._clock)
        self._reload()

    def rewrap(self, kek: KeyEncryptionKey) -> None:
        """Wrap every data key with `kek` from now on; no secret is touched.

        Raises:
            ConfigError: Another process has changed the data keys meanwhile; nothing was changed.

        """
        keys = [
            _wrapped(_unwrapped(key, self.kek), key, kek, self._random)
            for key in self._store.data_keys()
        ]
        try:
            self._store.rewrap(keys)
        except LookupError as error:
            raise ConfigError(str(error)) from error
        self.kek = kek

    def follow(self) -> None:
        """Seal with the newest data key from now on, whichever process has added it.

        Raises:
            IdentityUnavailable: The keys cannot be read now.

        """
        self._reload()

    def _cipher(self, key_id: str) -> AESGCM:
        if key_id not in self._ciphers:
            self._reload()  # another process may have added it
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise _unsealable(f"there is no data key {key_id} that this process can open")
        return cipher

    def _reload(self) -> None:
        # What is wrapped by a key-encryption key of which this process has not heard, it passes over.
        keys, kek, known = self._store.data_keys(), self.kek, self._ciphers
        found = [key for key in keys if key.id in known or key.kek_id == kek.id]
        added = {key.id: AESGCM(_unwrapped(key, kek)) for key in found if key.id not in known}
        # Not around the store, which may be what asks for a key.
        with self._swap:
            self._ciphers = {**self._ciphers, **added}
            # What another thread read before the newest was there does not bring an older one back.
            if self._newest.id in {key.id for key in keys}:
                self._newest = found[0]


def _that_wraps(keys: Sequence[DataKey], keks: Sequence[KeyEncryptionKey]) -> KeyEncryptionKey:
    used = {key.kek_id for key in keys}
    for kek in keks:
        if used <= {kek.id}:
            return kek
    raise ConfigError(
        f"{keks[0].named} is not the key that wraps the keys in the identity database: "
        "give back the one that does"
    )


def _add_key(store: DataKeyStore, kek: KeyEncryptionKey, *, random: Random, clock: Clock) -> None:
    # Newer than all others, also by a clock that was set back.
    newest = max((key.created_at + 1 for key in store.data_keys()), default=0.0)
    moment = max(clock(), newest)
    bare = DataKey(id=random(_ID_BYTES).hex(), wrapped="", kek_id="", created_at=moment)
    try:
        store.add_data_key(_wrapped(random(_KEY_BYTES), bare, kek, random))
    except LookupError as error:
        raise ConfigError(str(error)) from error


def _wrapped(octets: bytes, key: DataKey, kek: KeyEncryptionKey, random: Random) -> DataKey:
    nonce = random(_NONCE_BYTES)
    wrapped = nonce + AESGCM(kek.octets).encrypt(nonce, octets, key.id.encode())
    return DataKey(id=key.id, wrapped=_encoded(wrapped), kek_id=kek.id, created_at=key.created_at)


def _unwrapped(key: DataKey, kek: KeyEncryptionKey) -> bytes:
    try:
        wrapped = _decoded(key.wrapped)
        nonce, sealed = wrapped[:_NONCE_BYTES], wrapped[_NONCE_BYTES:]
        return AESGCM(kek.octets).decrypt(nonce, sealed, key.id.encode())
    except (InvalidTag, ValueError) as error:
        raise ConfigError(
            f"the data key {key.id} in the identity database is damaged or wrapped with another "
            f"key than {kek.named}: restore the data directory from a backup"
        ) from error


def _is_guessable(octets: bytes) -> bool:
    """Whether a random key looks like this less often than once in 10^13 draws."""
    steps = {(after - before) % 256 for before, after in itertools.pairwise(octets)}
    repeated = any(octets[period:] == octets[:-period] for period in range(1, _KEY_BYTES // 2 + 1))
    few = min(len(set(octets)), len(steps)) < _FEWEST_DISTINCT_OCTETS
    return few or repeated or (octets.isascii() and octets.decode().isprintable())


def _encoded(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _unsealable(why: str) -> Unsealable:
    return Unsealable("a secret at rest cannot be opened", detail=why)
