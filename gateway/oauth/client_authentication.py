"""Which client sends a request, and whether it proves it (RFC 6749 section 2.3, RFC 7523)."""

import base64
import hmac
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from urllib.parse import unquote_plus

from gateway.domain._value import value
from gateway.domain.identity import AuthMethod, Client
from gateway.oauth.assertions import read, read_keys, verify
from gateway.oauth.clients import secret_hash
from gateway.oauth.errors import ErrorCode, OAuthError

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

EVERY_METHOD = tuple(AuthMethod)
CONFIDENTIAL = tuple(method for method in AuthMethod if method is not AuthMethod.NONE)

_NOBODY = "sha256:" + "0" * 64
"""Compared with where there is no client, so that both ways take the same time."""

# A client that types its assertions at all says this, or what every JWT may say. An access token
# or another's statement about a person is none.
_TYPES = (None, "JWT", "client-authentication+jwt")

_FAILED = "unknown client or wrong credentials"


@value
class Presented:
    """What a request carried to prove which client sends it, unverified."""

    client_id: str
    method: AuthMethod
    proof: str = field(default="", repr=False)
    """The secret or the assertion."""


@value
class Assertions:
    """What a client's assertion is measured by."""

    issuer: str
    """Ours: the one audience, so that an assertion for another server is none here."""
    first_use: Callable[..., bool]
    """`GrantStore.first_use`."""

    def check(self, text: str, client: Client, now: float) -> None:
        """Return only if `client` signed this assertion, for us, and it is used for the first time.

        The client was found by the assertion's `sub`; that `iss` is the same is seen to here.

        Raises:
            ValueError: Anything else; the text names the check that failed.

        """
        assertion = read(text)
        keys = read_keys(client.jwks)
        verify(assertion, keys, types=_TYPES, issuer=client.id, audience=self.issuer, now=now)
        claims = assertion.claims
        # Named so that a client whose id is a URL shares no room with an issuer of assertions.
        if not self.first_use(f"client {client.id}", claims["jti"], until=float(claims["exp"])):
            raise ValueError("it was used before")


def read_presented(authorization: str | None, form: Mapping[str, str]) -> Presented:
    """Read what a client presents: one of the ways there are, never two.

    Raises:
        OAuthError: `invalid_client` where there is nothing that can be read, `invalid_request`
            where a client authenticates in two ways (RFC 6749 section 2.3).

    """
    asserts = form.keys() & {"client_assertion", "client_assertion_type"}
    if authorization is not None:
        presented = _basic(authorization)
        twice = asserts or "client_secret" in form
    elif asserts:
        presented = _asserted(form)
        twice = "client_secret" in form
    elif "client_id" in form:
        secret = form.get("client_secret", "")
        method = AuthMethod.POST if secret else AuthMethod.NONE
        return Presented(client_id=form["client_id"], method=method, proof=secret)
    else:
        raise OAuthError(ErrorCode.INVALID_CLIENT, "client authentication is required")
    if twice:
        raise OAuthError(ErrorCode.INVALID_REQUEST, "two ways of client authentication at once")
    if form.get("client_id", presented.client_id) != presented.client_id:
        raise OAuthError(ErrorCode.INVALID_REQUEST, "two different clients are named")
    return presented


def authenticate(
    presented: Presented | None,
    client: Client | None,
    *,
    methods: Collection[AuthMethod],
    assertions: Assertions,
    now: float,
) -> Client:
    """Return `client`, the one of the id that was presented, if it has proved itself.

    Raises:
        OAuthError: `invalid_client`, told alike for an unknown client, a method that is not its own
            and a wrong proof.

    """
    if presented is None or presented.method not in methods:
        raise OAuthError(
            ErrorCode.INVALID_CLIENT,
            "client authentication is required",
            client_id="" if client is None else client.id,
        )
    problem = _problem(presented, client, assertions, now)
    if client is None or problem:
        raise OAuthError(
            ErrorCode.INVALID_CLIENT,
            _FAILED,
            detail=problem,
            client_id="" if client is None else client.id,
        )
    return client


def _problem(
    presented: Presented, client: Client | None, assertions: Assertions, now: float
) -> str:
    """Return what is wrong with the proof; nothing if it is good."""
    has_secret = presented.method in {AuthMethod.BASIC, AuthMethod.POST}
    expected = _NOBODY if client is None else client.secret_hash or _NOBODY
    given = secret_hash(presented.proof) if has_secret else ""
    matches = hmac.compare_digest(given.encode(), expected.encode("utf-8", "surrogatepass"))
    if client is None:
        return "unknown client"
    if presented.method not in client.auth_methods:
        return f"not registered for {presented.method.value}"
    if has_secret and not matches:
        return "wrong secret"
    if presented.method is AuthMethod.PRIVATE_KEY_JWT:
        try:
            assertions.check(presented.proof, client, now)
        except ValueError as error:
            return f"assertion: {error}"
    return ""


def _basic(authorization: str) -> Presented:
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
    return Presented(client_id=client_id, method=AuthMethod.BASIC, proof=secret)


def _asserted(form: Mapping[str, str]) -> Presented:
    """Read the client's id out of its assertion (RFC 7521 section 4.2)."""
    if form.get("client_assertion_type") != ASSERTION_TYPE:
        raise OAuthError(ErrorCode.INVALID_CLIENT, "there is no such type of client assertion")
    text = form.get("client_assertion", "")
    unreadable = OAuthError(ErrorCode.INVALID_CLIENT, "the client assertion cannot be read")
    try:
        client_id = read(text).claims.get("sub")
    except ValueError:
        raise unreadable from None
    if not isinstance(client_id, str):
        raise unreadable
    return Presented(client_id=client_id, method=AuthMethod.PRIVATE_KEY_JWT, proof=text)
