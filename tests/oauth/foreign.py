"""Another authorization server: its keys, its documents, its tokens, and what fetches from it."""

import asyncio
import hmac
import json
from collections.abc import Mapping
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey
from joserfc.util import urlsafe_b64encode

from gateway.errors import EgressRefused, UpstreamFailed
from gateway.oauth.foreign.keys import RemoteKeys
from gateway.oauth.foreign.metadata import RemoteMetadata
from gateway.oauth.foreign.tokens import ForeignTokens
from gateway.upstream.egress import WholeAnswer
from tests.oauth.world import NOW, Hand

ISSUER = "https://idp.test/tenant"
METADATA_URL = "https://idp.test/.well-known/oauth-authorization-server/tenant"
OPENID_URL = ISSUER + "/.well-known/openid-configuration"
JWKS_URL = "https://keys.idp.test/jwks"
TOKEN_URL = "https://idp.test/tenant/token"

RSA = RSAKey.generate_key(2048, {"kid": "rsa"}, private=True)
OTHER_RSA = RSAKey.generate_key(2048, {"kid": "other"}, private=True)
EC = ECKey.generate_key("P-256", {"kid": "ec"}, private=True)
ED = OKPKey.generate_key("Ed25519", {"kid": "ed"}, private=True)
KEYS: Mapping[str, Key] = {"RS256": RSA, "PS256": RSA, "ES256": EC, "EdDSA": ED}


def public(key: Key, **members: Any) -> dict[str, Any]:
    """Return the JWK that an issuer publishes."""
    return {**key.as_dict(private=False), **members}


def sign(
    claims: Any,
    *,
    key: Key = RSA,
    algorithm: str = "RS256",
    header: Mapping[str, Any] | None = None,
) -> str:
    """Return a JWT; a header member that is `None` is left out."""
    members = {"alg": algorithm, "typ": "at+jwt", "kid": key.kid, **(header or {})}
    kept = {name: member for name, member in members.items() if member is not None}
    text = f"{encoded(kept)}.{encoded(claims)}"
    if algorithm == "none":
        return text + "."
    signature = jws.JWSRegistry.algorithms[algorithm].sign(text.encode(), key)
    return f"{text}.{urlsafe_b64encode(signature).decode()}"


def sign_with_secret(claims: Any, secret: bytes, *, header: Mapping[str, Any]) -> str:
    """Return a JWT with an HMAC, whatever its header says: the library would make none such."""
    text = f"{encoded({'typ': 'at+jwt', **header})}.{encoded(claims)}"
    mac = hmac.digest(secret, text.encode(), "sha256")
    return f"{text}.{urlsafe_b64encode(mac).decode()}"


def encoded(document: Any) -> str:
    return urlsafe_b64encode(json.dumps(document).encode()).decode()


class Pages:
    """A `Fetcher` of documents by URL: a mapping is JSON, a number a status, an error is raised.

    `gate` lets fetches wait until a test says so.
    """

    def __init__(self) -> None:
        self.pages: dict[str, Any] = {}
        self.fetched: list[str] = []
        self.posts: list[tuple[str, Mapping[str, str], Mapping[str, str]]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def get(
        self, url: str, *, headers: Mapping[str, str] | None = None, who: str = ""
    ) -> WholeAnswer:
        self.fetched.append(url)
        await self.gate.wait()
        return self._answer(url)

    async def post(
        self,
        url: str,
        *,
        form: Mapping[str, str] | None = None,
        json: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        who: str = "",
    ) -> WholeAnswer:
        self.posts.append((url, form or {}, headers or {}))
        return self._answer(url)

    def _answer(self, url: str) -> WholeAnswer:
        page = self.pages.get(url, 404)
        if isinstance(page, Exception):
            raise page
        status, document = page if isinstance(page, tuple) else (200, page)
        if isinstance(page, int):
            status, document = page, {}
        return WholeAnswer(status=status, headers={}, body=json.dumps(document).encode())


OUTAGE = UpstreamFailed("The server gave no usable answer.", detail="outage")
ELSEWHERE = EgressRefused("This URL leads where the gateway does not go.", detail="elsewhere")


class Foreign:
    """What reads another issuer's tokens, with its clock and the issuer's documents at hand."""

    def __init__(self, *, clock: Hand | None = None, fetcher: Any = None) -> None:
        self.clock = clock or Hand()
        self.web = Pages()
        self.web.pages = {
            METADATA_URL: {"issuer": ISSUER, "jwks_uri": JWKS_URL, "token_endpoint": TOKEN_URL},
            JWKS_URL: {"keys": [public(RSA, use="sig"), public(EC), public(ED)]},
        }
        way_out = fetcher or self.web
        self.metadata = RemoteMetadata(way_out, clock=self.clock)
        self.keys = RemoteKeys(way_out, metadata=self.metadata, clock=self.clock)
        self.tokens = ForeignTokens(self.keys, clock=self.clock)

    def publish(self, *keys: Any) -> None:
        self.web.pages[JWKS_URL] = {"keys": list(keys)}


def claims(**changes: Any) -> dict[str, Any]:
    """Return what an access token says; a claim that is `None` is left out."""
    fields = {
        "iss": ISSUER,
        "sub": "alice",
        "aud": "http://127.0.0.1:8080/mcp/mail",
        "client_id": "agent",
        "scope": "tools:list tools:call",
        "iat": int(NOW) - 10,
        "exp": int(NOW) + 600,
        "jti": "token-1",
        **changes,
    }
    return {name: claim for name, claim in fields.items() if claim is not None}
