"""Clients that hold a key and prove it by hand: no library's checks in between (RFC 9449)."""

import base64
import hashlib
import json
from collections.abc import Mapping
from itertools import count
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, OKPKey

from tests.oauth.world import NOW, PUBLIC_URL

TOKEN_URL = PUBLIC_URL + "/oauth/token"


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def hash_of(token: str) -> str:
    return b64(hashlib.sha256(token.encode()).digest())


class Holder:
    """Somebody with a key, whose proofs each have a `jti` of their own."""

    def __init__(self, key: ECKey | OKPKey | None = None, algorithm: str = "ES256") -> None:
        self.key = key or ECKey.generate_key("P-256")
        self.algorithm = algorithm
        self._numbers = count(1)

    @property
    def thumbprint(self) -> str:
        return self.key.thumbprint()

    @property
    def jwk(self) -> dict[str, Any]:
        return dict(self.key.as_dict(private=False))

    def proof(
        self,
        *,
        header: Mapping[str, Any] | None = None,
        token: str | None = None,
        signed_by: ECKey | OKPKey | None = None,
        **claims: Any,
    ) -> str:
        """Return a proof for a POST to the token endpoint, changed as told; `None` leaves one out."""
        said = {
            "jti": f"{self.thumbprint}-{next(self._numbers)}",
            "htm": "POST",
            "htu": TOKEN_URL,
            "iat": int(NOW),
            "ath": None if token is None else hash_of(token),
            **claims,
        }
        head = {"typ": "dpop+jwt", "alg": self.algorithm, "jwk": public(self.jwk), **(header or {})}
        parts = [
            b64(json.dumps({name: one for name, one in part.items() if one is not None}).encode())
            for part in (head, said)
        ]
        signing_input = ".".join(parts)
        algorithm = jws.JWSRegistry.algorithms[self.algorithm]
        signature = algorithm.sign(signing_input.encode(), signed_by or self.key)
        return f"{signing_input}.{b64(signature)}"


def public(jwk: Mapping[str, Any]) -> dict[str, Any]:
    """Return what makes up a public key, and nothing beside."""
    return {name: jwk[name] for name in ("kty", "crv", "x", "y") if name in jwk}
