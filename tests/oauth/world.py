"""A small authorization server and what surrounds it, built from real parts."""

from cryptography.hazmat.primitives.asymmetric import ec

from gateway.domain.identity import Client
from gateway.oauth.clients import NewClient, new_client
from gateway.oauth.keys import KeyRing, SigningKey
from gateway.oauth.resources import Resources
from gateway.oauth.tokens import AccessToken

PUBLIC_URL = "http://127.0.0.1:8080"
MAIL = "/mcp/mail"
MAIL_URI = PUBLIC_URL + MAIL
NOW = 1_800_000_000.0
RESOURCES = Resources.of(public_url=PUBLIC_URL, servers=["mail", "web"])


def new_key() -> SigningKey:
    return SigningKey.of(ec.generate_private_key(ec.SECP256R1()))


KEY = new_key()
KEYS = KeyRing([KEY])


class Hand:
    """A clock that moves only when told to."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def client(
    *,
    seed: int = 1,
    resources: frozenset[str] = frozenset({MAIL}),
    scopes: frozenset[str] = frozenset({"tools:list", "tools:call"}),
    groups: frozenset[str] = frozenset(),
    trusted_host: bool = False,
) -> NewClient:
    return new_client(
        name=f"agent {seed}",
        resources=resources,
        scopes=scopes,
        known=RESOURCES,
        groups=groups,
        trusted_host=trusted_host,
        id_octets=bytes([seed]) * 16,
        secret_octets=bytes([seed]) * 32,
        now=NOW,
        by="alice",
    )


def access_token(of: Client, **changes: object) -> AccessToken:
    fields: dict[str, object] = {
        "issuer": PUBLIC_URL,
        "subject": of.id,
        "audience": MAIL_URI,
        "client_id": of.id,
        "client_name": of.name,
        "scopes": of.scopes,
        "groups": of.groups,
        "issued_at": int(NOW),
        "expires_at": int(NOW) + 900,
        "token_id": "token-1",
    }
    return AccessToken(**{**fields, **changes})  # type: ignore[arg-type]
