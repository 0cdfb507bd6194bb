"""OAuth clients: how one is made (RFC 6749 section 2)."""

import base64
import hashlib
from dataclasses import field

from gateway.domain._value import value
from gateway.domain.identity import AuthMethod, Client
from gateway.oauth.builtin import AUTHORIZATION_CODE, DEVICE_CODE, PUBLIC, REFRESH_TOKEN
from gateway.oauth.client_keys import public_keys
from gateway.oauth.errors import OAuthError
from gateway.oauth.resources import ADMIN_API, SCOPES, Resources

CLIENT_CREDENTIALS = "client_credentials"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"

GRANT_TYPES = (AUTHORIZATION_CODE, REFRESH_TOKEN, CLIENT_CREDENTIALS, DEVICE_CODE, JWT_BEARER)
"""Every `grant_type` there is."""

ID_OCTETS = 16
SECRET_OCTETS = 32
LONGEST_NAME = 80

SECRET_METHODS = frozenset({AuthMethod.BASIC, AuthMethod.POST})
_FOR_ITSELF = frozenset({CLIENT_CREDENTIALS, JWT_BEARER})
"""Grants without a person at a browser: whoever has no secret could be anybody."""


@value
class NewClient:
    """A client, and the only copy of its secret."""

    client: Client
    secret: str = field(repr=False)
    """Empty where it has none."""


DESK_ID = "douane-desk"


def desk_client(redirect_uri: str, secret: str) -> Client:
    """Return the desk where it has a listener of its own: built in too, and it proves itself.

    `secret` is of this process alone, so that no other program can trade a code for it.
    """
    return Client(
        id=DESK_ID,
        name="Douane desk",
        auth_methods=frozenset({AuthMethod.BASIC}),
        secret_hash=secret_hash(secret),
        redirect_uris=(redirect_uri,),
        grants=(AUTHORIZATION_CODE, REFRESH_TOKEN),
        resources=frozenset({ADMIN_API}),
        scopes=frozenset({"admin"}),
        created_at=0.0,
        created_by="douane",
    )


def new_client(
    *,
    name: str,
    resources: frozenset[str],
    scopes: frozenset[str],
    known: Resources,
    grants: tuple[str, ...] = (CLIENT_CREDENTIALS,),
    auth_methods: frozenset[AuthMethod] = SECRET_METHODS,
    redirect_uris: tuple[str, ...] = (),
    jwks: object = None,
    groups: frozenset[str] = frozenset(),
    trusted_host: bool = False,
    id_octets: bytes,
    secret_octets: bytes,
    now: float,
    by: str,
) -> NewClient:
    """Make a registered client from 16 and 32 random octets, with a secret if it proves itself so.

    `redirect_uris` have passed `gateway.oauth.redirects`; `jwks` is a parsed JWK Set.

    Raises:
        ValueError: The name is empty, long or unprintable; no resource or scope, or one that does
            not exist; grants, methods, keys and redirect URIs that do not go together; too little
            randomness.

    """
    _check_registration(name, resources, scopes, known)
    keys = _keys(auth_methods, jwks)
    _check_grants(grants, auth_methods, redirect_uris)
    if len(id_octets) != ID_OCTETS or len(secret_octets) != SECRET_OCTETS:
        raise ValueError("a client takes 16 random octets for its id and 32 for its secret")
    secret = secret_text(secret_octets) if auth_methods & SECRET_METHODS else ""
    client = Client(
        id=id_octets.hex(),
        name=name,
        auth_methods=auth_methods,
        secret_hash=secret_hash(secret) if secret else "",
        jwks=keys,
        redirect_uris=redirect_uris,
        grants=grants,
        resources=resources,
        scopes=scopes,
        groups=groups,
        trusted_host=trusted_host,
        created_at=now,
        created_by=by,
    )
    return NewClient(client=client, secret=secret)


def _check_registration(
    name: str, resources: frozenset[str], scopes: frozenset[str], known: Resources
) -> None:
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise ValueError(f"a client's name is 1 to {LONGEST_NAME} printable characters")
    if not resources or not resources <= known.uris.keys():
        raise ValueError(f"a client's resources are some of {', '.join(known.uris)}")
    if not scopes or not scopes <= set(SCOPES):
        raise ValueError(f"a client's scopes are some of {', '.join(SCOPES)}")


def _keys(methods: frozenset[AuthMethod], jwks: object) -> str:
    if not methods or (AuthMethod.NONE in methods and methods != PUBLIC):
        raise ValueError("a client proves itself in some way, or is public and does not")
    if (AuthMethod.PRIVATE_KEY_JWT in methods) is (jwks is None):
        raise ValueError("a client has public keys for private_key_jwt, and for nothing else")
    try:
        return "" if jwks is None else public_keys(jwks)
    except OAuthError as error:
        raise ValueError(f"a client's keys cannot be used: {error.public}") from error


def _check_grants(
    grants: tuple[str, ...], methods: frozenset[AuthMethod], redirect_uris: tuple[str, ...]
) -> None:
    if not grants or not set(grants) <= set(GRANT_TYPES) or len(set(grants)) < len(grants):
        raise ValueError(f"a client's grants are some of {', '.join(GRANT_TYPES)}")
    if (AUTHORIZATION_CODE in grants) is not bool(redirect_uris):
        raise ValueError("a client has redirect URIs for authorization_code, and for nothing else")
    if methods == PUBLIC and _FOR_ITSELF & set(grants):
        raise ValueError("a client without a secret or a key cannot act without a person")
    if set(grants) == {REFRESH_TOKEN}:
        raise ValueError("a client gets a refresh token by another grant")


def secret_text(octets: bytes) -> str:
    """Return random octets as a secret that can stand in a header or a form."""
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def secret_hash(secret: str) -> str:
    """Return `sha256:` and the hex digest of `secret`."""
    # The secret holds 256 random bits: nothing to guess, hence nothing to slow down.
    return "sha256:" + hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
