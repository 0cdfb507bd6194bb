"""Keys of our own towards other authorization servers, and the proofs that we hold them (RFC 9449)."""

import base64
import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from joserfc import jws
from joserfc.jwk import ECKey

from gateway.oauth.proofs import TYPE

_ALGORITHM: Final = "ES256"
_CURVE: Final = "P-256"


class HeldKeys:
    """Makes keys and signs with them; a key is the text of a private JWK."""

    def new(self) -> str:
        return json.dumps(ECKey.generate_key(_CURVE).as_dict(private=True))

    def proof(self, key: str, claims: Mapping[str, Any], *, token: str) -> str:
        """Return a proof of `key` that says `claims`, about `token` if there is one."""
        private = ECKey.import_key(json.loads(key))
        public = {name: private.as_dict(private=False)[name] for name in ("kty", "crv", "x", "y")}
        header = {"typ": TYPE, "alg": _ALGORITHM, "jwk": public}
        said = {**claims, "ath": _hash(token)} if token else claims
        return jws.serialize_compact(header, json.dumps(said).encode(), private)


def _hash(token: str) -> str:
    return base64.urlsafe_b64encode(sha256(token.encode()).digest()).rstrip(b"=").decode()
