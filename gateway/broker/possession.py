"""Proofs that the gateway holds the key of a token that it has for somebody (RFC 9449, as a client)."""

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from gateway.broker.urls import origin
from gateway.domain._value import value
from gateway.domain.bounded import Bounded
from gateway.ports import Clock
from gateway.ports.egress import Served

PROOF: Final = "dpop"
NONCE: Final = "dpop-nonce"
WANTED: Final = "use_dpop_nonce"
"""The refusal of whoever wants a nonce of theirs in the proof (RFC 9449 sections 8 and 9)."""

_NONCE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,1024}")
_MOST: Final = 10_000
_OCTETS: Final = 8 * 1024**2


class Keys(Protocol):
    """Makes keys and signs with them; a key is a text that is kept sealed."""

    def new(self) -> str: ...

    def proof(self, key: str, claims: Mapping[str, Any], *, token: str) -> str:
        """Return a proof of `key` that says `claims`, about `token` if there is one."""
        ...


class Proofs:
    """Makes proofs, each for one request, with the newest nonce of whoever is asked."""

    def __init__(self, keys: Keys, *, clock: Clock, new_id: Callable[[], str]) -> None:
        self._keys = keys
        self._clock = clock
        self._new_id = new_id
        self._nonces: Bounded[str, str] = Bounded(most=_MOST, octets=_OCTETS)
        """By origin."""
        self.new_key: Callable[[], str] = keys.new

    def of(self, key: str, method: str, url: str, *, token: str = "") -> str:
        """Return a proof for one request with `method` to `url`, which may bring `token`."""
        claims = {
            "jti": self._new_id(),
            "htm": method,
            "htu": urlsplit(url)._replace(query="", fragment="").geturl(),
            "iat": int(self._clock()),
        }
        nonce = self._nonces.get(origin(url))
        return self._keys.proof(
            key, claims if nonce is None else {**claims, "nonce": nonce}, token=token
        )

    def noted(self, url: str, nonce: str) -> bool:
        """Take `nonce` for the next proofs to the origin of `url`; whether it is one."""
        if not _NONCE.fullmatch(nonce):
            return False
        self._nonces.put(origin(url), nonce, len(nonce))
        return True


@value
class Holds:
    """What a token is bound to that is asked for."""

    proofs: Proofs
    key: str = field(repr=False)

    def header(self, endpoint: str) -> Mapping[str, str]:
        return {PROOF: self.proofs.of(self.key, "POST", endpoint)}

    def is_asked_again(self, endpoint: str, answer: Served) -> bool:
        """Whether `answer` gives a nonce, and says that it wants it."""
        noted = self.proofs.noted(endpoint, answer.headers.get(NONCE, ""))
        return noted and WANTED.encode() in answer.body
