"""A signing key's life: next, active, retired, forgotten; in step with other processes."""

import threading
from collections.abc import Callable, Sequence

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)

from gateway.domain.secrets import KeyState, SealedKey
from gateway.errors import Unsealable
from gateway.oauth.keys import KeyRing, SigningKey
from gateway.ports.sealed import SigningKeyStore
from gateway.ports.secrets import Sealer

PUBLISHED_FIRST_S = 3600
"""So long everybody can see a key before it signs: longer than keys are cached for."""

_LEEWAY_S = 3600
"""Clocks differ, and a process that was asleep may sign with a key that another has retired."""


class KeyCustodian:
    """Keeps one key active and the next one published.

    Every step is conditional in the store: of several processes one takes it, and the others see
    what became of it at their next `tick`.
    """

    def __init__(
        self,
        store: SigningKeyStore,
        sealer: Sealer,
        *,
        key_lifetime_s: float,
        token_lifetime_s: float,
        generate: Callable[[], ec.EllipticCurvePrivateKey],
    ) -> None:
        self._store = store
        self._sealer = sealer
        self._key_lifetime_s = key_lifetime_s
        self._kept_s = token_lifetime_s + _LEEWAY_S
        self._generate = generate
        self._opened: dict[str, SigningKey] = {}
        self._shown: Sequence[SealedKey] = ()
        self._ring: KeyRing | None = None
        # Of two steps at once the one that read the keys earlier must not have the last word.
        self._one_by_one = threading.RLock()

    @property
    def ring(self) -> KeyRing | None:
        """The keys in use as the latest step has left them, whichever thread took it."""
        return self._ring

    def start(self, *, now: float, earlier: ec.EllipticCurvePrivateKey | None = None) -> KeyRing:
        """Return the keys in use. Where there are none, `earlier` or a new one becomes active.

        Raises:
            ConfigError: `earlier` is a key that others may know.
            Unsealable: A key was not sealed by this vault.
            IdentityUnavailable: The keys cannot be read or written now.

        """
        if earlier is not None and not self._store.keys():
            self._add(earlier, KeyState.ACTIVE, now=now)
        return self.tick(now=now)

    def tick(self, *, now: float) -> KeyRing:
        """Take the steps that are due and return the keys in use; the same ring if none changed.

        Raises:
            Unsealable: A key was not sealed by this vault.
            IdentityUnavailable: The keys cannot be read or written now.

        """
        with self._one_by_one:
            return self._ticked(now)

    def _ticked(self, now: float) -> KeyRing:
        keys = self._store.keys()
        if in_state(keys, KeyState.ACTIVE) is None:
            self._add(self._generate(), KeyState.ACTIVE, now=now)
        successor = successor_due(keys, now=now, key_lifetime_s=self._key_lifetime_s)
        if successor is not None:
            self._store.activate_key(successor.kid, at=now)
        if successor is not None or in_state(keys, KeyState.NEXT) is None:
            self._add(self._generate(), KeyState.NEXT, now=now)
        if forgettable(keys, now=now, kept_s=self._kept_s):
            self._store.forget_keys(retired_before=now - self._kept_s)
        return self._ring_of(self._store.keys())

    def rotate(self, *, now: float) -> KeyRing:
        """Let the next key sign from now on, whatever the active one's age.

        Raises:
            ValueError: The next key has not been published for long enough.

        """
        with self._one_by_one:
            following = in_state(self._store.keys(), KeyState.NEXT)
            if following is None or not is_known(following, now=now):
                raise ValueError("the next key has not been published for an hour; try again later")
            self._store.activate_key(following.kid, at=now)
            return self._ticked(now)

    def _add(self, private: ec.EllipticCurvePrivateKey, state: KeyState, *, now: float) -> None:
        key = SigningKey.of(private)
        octets = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        # If another process was faster, its key is the one.
        self._store.add_key(
            SealedKey(
                kid=key.kid,
                state=state,
                sealed=self._sealer.seal(octets, _row(key.kid)),
                created_at=now,
                activated_at=now if state is KeyState.ACTIVE else None,
            )
        )

    def _ring_of(self, keys: Sequence[SealedKey]) -> KeyRing:
        if self._ring is None or keys != self._shown:
            self._opened = {key.kid: self._opened.get(key.kid) or self._open(key) for key in keys}
            in_order = sorted(keys, key=lambda key: _ORDER.index(key.state))
            self._ring = KeyRing([self._opened[key.kid] for key in in_order])
            self._shown = keys
        return self._ring

    def _open(self, key: SealedKey) -> SigningKey:
        octets = self._sealer.open(key.sealed, _row(key.kid))
        try:
            private = load_der_private_key(octets, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise _unsealable(key.kid) from error
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise _unsealable(key.kid)
        return SigningKey.of(private)


_ORDER = (KeyState.ACTIVE, KeyState.NEXT, KeyState.RETIRED)


def in_state(keys: Sequence[SealedKey], state: KeyState) -> SealedKey | None:
    """Return the newest key in `state`; there is one at most that is next or active."""
    return next((key for key in keys if key.state is state), None)


def is_known(key: SealedKey, *, now: float) -> bool:
    """Whether the key has been published for as long as everybody may cache the keys."""
    return key.created_at + PUBLISHED_FIRST_S <= now


def successor_due(
    keys: Sequence[SealedKey], *, now: float, key_lifetime_s: float
) -> SealedKey | None:
    """Return the next key if the active one has signed for its time and the next one is known."""
    active, following = in_state(keys, KeyState.ACTIVE), in_state(keys, KeyState.NEXT)
    if active is None or active.activated_at is None or following is None:
        return None
    is_due = active.activated_at + key_lifetime_s <= now
    return following if is_due and is_known(following, now=now) else None


def forgettable(keys: Sequence[SealedKey], *, now: float, kept_s: float) -> bool:
    """Whether a key was retired so long ago that nothing it signed is valid any more."""
    return any(key.retired_at is not None and key.retired_at < now - kept_s for key in keys)


def new_private_key() -> ec.EllipticCurvePrivateKey:
    """Return a fresh key on P-256."""
    return ec.generate_private_key(ec.SECP256R1())


def _row(kid: str) -> str:
    return f"signing_keys:{kid}:sealed"


def _unsealable(kid: str) -> Unsealable:
    return Unsealable("a signing key cannot be used", detail=f"{kid} is not a private key on P-256")
