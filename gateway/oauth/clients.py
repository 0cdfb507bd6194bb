"""OAuth clients: making one, and telling whether a request comes from it (RFC 6749 section 2)."""

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import field
from urllib.parse import unquote_plus

from gateway.domain._value import value
from gateway.domain.identity import Client
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.resources import SCOPES, Resources

AUTH_METHODS = ("client_secret_basic", "client_secret_post")
"""How a client may prove itself (RFC 7591 section 2)."""

ID_OCTETS = 16
SECRET_OCTETS = 32
LONGEST_NAME = 80

_NOBODY = "sha256:" + "0" * 64
"""Compared with where there is no client, so that both ways take the same time."""


@value
class NewClient:
    """A client, and the only copy of its secret."""

    client: Client
    secret: str = field(repr=False)


@value
class ClientCredentials:
    """What a request carried to prove which client sends it, unverified."""

    client_id: str
    secret: str = field(repr=False)


def new_client(
    *,
    name: str,
    resources: frozenset[str],
    scopes: frozenset[str],
    known: Resources,
    groups: frozenset[str] = frozenset(),
    trusted_host: bool = False,
    id_octets: bytes,
    secret_octets: bytes,
    now: float,
    by: str,
) -> NewClient:
    """Make a client for client credentials from 16 and 32 random octets.

    Raises:
        ValueError: The name is empty, long or unprintable; no resource or scope, or one that does
            not exist; too little randomness.

    """
    _check_registration(name, resources, scopes, known)
    if len(id_octets) != ID_OCTETS or len(secret_octets) != SECRET_OCTETS:
        raise ValueError("a client takes 16 random octets for its id and 32 for its secret")
    secret = base64.urlsafe_b64encode(secret_octets).rstrip(b"=").decode()
    client = Client(
        id=id_octets.hex(),
        name=name,
        secret_hash=secret_hash(secret),
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


def secret_hash(secret: str) -> str:
    """Return `sha256:` and the hex digest of `secret`."""
    # The secret holds 256 random bits: nothing to guess, hence nothing to slow down.
    return "sha256:" + hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def read_credentials(authorization: str | None, form: Mapping[str, str]) -> ClientCredentials:
    """Read a client's credentials from the header or the form, never from both.

    Raises:
        OAuthError: `invalid_client` where there are none that can be read, `invalid_request` where
            a client authenticates in two ways (RFC 6749 section 2.3).

    """
    if authorization is None:
        if "client_id" not in form or "client_secret" not in form:
            raise OAuthError(ErrorCode.INVALID_CLIENT, "client authentication is required")
        return ClientCredentials(client_id=form["client_id"], secret=form["client_secret"])
    credentials = _basic(authorization)
    if "client_secret" in form or "client_assertion" in form:
        raise OAuthError(ErrorCode.INVALID_REQUEST, "two ways of client authentication at once")
    if form.get("client_id", credentials.client_id) != credentials.client_id:
        raise OAuthError(ErrorCode.INVALID_REQUEST, "header and form name different clients")
    return credentials


def _basic(authorization: str) -> ClientCredentials:
    """Read RFC 7617 credentials whose parts are form-encoded (RFC 6749 section 2.3.1)."""
    scheme, _, encoded = authorization.partition(" ")
    unreadable = OAuthError(
        ErrorCode.INVALID_CLIENT, "the Authorization header holds no Basic credentials"
    )
    try:
        decoded = base64.b64decode(encoded.strip(" "), validate=True).decode("utf-8")
        client_id, colon, secret = (
            unquote_plus(part, errors="strict") for part in decoded.partition(":")
        )
    except ValueError:
        # Without a cause: the text of the error could hold a piece of the secret.
        raise unreadable from None
    if scheme.lower() != "basic" or not colon:
        raise unreadable
    return ClientCredentials(client_id=client_id, secret=secret)


def sign_in(credentials: ClientCredentials, find: Callable[[str], Client | None]) -> Client:
    """Return the client that `credentials` prove.

    Raises:
        OAuthError: `invalid_client`, told alike for an unknown client and a wrong secret.

    """
    client = find(credentials.client_id)
    expected = _NOBODY if client is None else client.secret_hash
    matches = hmac.compare_digest(
        secret_hash(credentials.secret).encode(), expected.encode("utf-8", "surrogatepass")
    )
    if client is None or not matches:
        raise OAuthError(
            ErrorCode.INVALID_CLIENT,
            "unknown client or wrong secret",
            detail="unknown client" if client is None else "wrong secret",
            client_id="" if client is None else client.id,
        )
    return client
