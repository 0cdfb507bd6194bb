"""Authlib's authorization server without a framework: bytes in, values out, refusals as `OAuthError`.

It is synchronous and waits for the stores: everything here runs in a thread of its own kind (`intake`),
never in one that the loop may want meanwhile. Whatever needs the network (a client's metadata document, an issuer's key) is fetched before and comes along with
the request; a port that is asynchronous is asked on the loop that the request came in on.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Any, Never, TypeVar
from urllib.parse import parse_qsl

from authlib.oauth2.rfc6749 import (
    AuthorizationServer,
    ClientMixin,
    OAuth2Error,
    OAuth2Payload,
    OAuth2Request,
)

from gateway.domain._value import value
from gateway.domain.identity import AuthMethod, Client, Proof
from gateway.errors import ConfigError, IdentityUnavailable
from gateway.oauth.assertions import PublicKey
from gateway.oauth.client_authentication import Assertions, Presented, authenticate
from gateway.oauth.clients import SECRET_OCTETS, secret_text
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.keys import KeyRing
from gateway.oauth.possession import Possession, without_proofs
from gateway.oauth.programs import Programs
from gateway.oauth.redirects import is_of_the_device
from gateway.oauth.resources import SCOPES, Resources
from gateway.oauth.tokens import LONGEST_LIFETIME_S
from gateway.ports.grants import GrantStore
from gateway.ports.identity import UserStore
from gateway.ports.secrets import Sealer

MOST_PARAMETERS = 32

_PATIENCE_S = 30.0
"""For so long a request waits for what is asked of the loop."""

_Told = TypeVar("_Told")

_PRINTABLE = frozenset(map(chr, range(0x20, 0x7F)))
_TEXTS = {
    ErrorCode.INVALID_REQUEST: "the request lacks a parameter or has one that is malformed",
    ErrorCode.INVALID_CLIENT: "client authentication failed",
    ErrorCode.INVALID_GRANT: "the grant is not valid",
    ErrorCode.UNAUTHORIZED_CLIENT: "the client may not use this grant",
    ErrorCode.UNSUPPORTED_GRANT_TYPE: "there is no such grant",
    ErrorCode.INVALID_SCOPE: "the grant has none or not all of these scopes",
}


@value
class Attempt:
    """When and from where a request came, and under which id it is recorded."""

    source_ip: str
    time: float
    """Seconds since the epoch."""
    record_id: str


@value
class Lifetimes:
    """How long what is given out is good, in seconds: the section `auth` of the configuration."""

    access_s: int = 600
    device_s: int = 0
    """Of access tokens for clients on people's machines; 0 for as long as all others."""
    refresh_s: float = 30 * 86400.0
    grace_s: float = 120.0
    """For so long after its use a refresh token is one of a race; 0 is never."""
    lost_s: float = 86400.0
    """For so long a used refresh token gives its successor again if nobody has used that; 0 is
    never."""
    grant_s: float = 90 * 86400.0
    code_s: float = 60.0

    def __post_init__(self) -> None:
        if not 0 < self.access_s <= LONGEST_LIFETIME_S:
            raise ConfigError(f"auth.token_lifetime must be 1 to {LONGEST_LIFETIME_S} seconds")
        if not 0 <= self.device_s <= LONGEST_LIFETIME_S:
            raise ConfigError(
                f"auth.device_token_lifetime must be 1 to {LONGEST_LIFETIME_S} seconds"
            )

    def access_of(self, client: Client) -> int:
        """Return how long an access token for `client` is good."""
        return self.device_s if self.device_s and is_of_the_device(client) else self.access_s


class Reuse(StrEnum):
    """What becomes of a family of which a used token comes back, without evidence of a thief."""

    REFUSE = "refuse"
    """Nothing, until its person signs in anew."""
    REVOKE = "revoke"
    """It ends (RFC 9700 section 4.14.2)."""


@value
class Stores:
    """What the protocol reads and writes."""

    users: UserStore
    grants: GrantStore
    sealer: Sealer


@value
class IssuerKey:
    """An identity provider that is trusted, and the key that its assertion names."""

    issuer: str
    key: PublicKey


class Parameters(OAuth2Payload):
    """What a request carries, as Authlib reads it."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._parameters = dict(parameters)

    @property
    def data(self) -> dict[str, str]:
        return self._parameters


class ProtocolRequest(OAuth2Request):
    """A POST whose form was already read; what else the request carried is not looked at."""

    def __init__(
        self,
        parameters: Mapping[str, str],
        attempt: Attempt,
        *,
        presented: Presented | None = None,
        known: Client | None = None,
        issuer_key: IssuerKey | None = None,
        proof: Proof | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        # Authlib wants to hear of TLS. Where plain http will do is said by configuration, once.
        super().__init__("POST", "https://gateway.invalid/")
        self.payload = Parameters(parameters)
        self.attempt = attempt
        self.presented = presented
        """How a client of a POST endpoint proves itself, unverified."""
        self.known = known
        """The client of the id in `presented`, as it was found before."""
        self.issuer_key = issuer_key
        """What an identity provider's assertion is verified with, as it was fetched before."""
        self.proof = proof
        """That the client holds a key, if it says so; its use is not noted yet."""
        self.told: dict[str, Any] = {}
        """What its record says beside the answer, once it is known; of a refusal as well."""
        self._loop = loop

    def waited(self, asked: Coroutine[Any, Any, _Told]) -> _Told:
        """Return what `asked` returns on the loop that the request came in on; raises what it does.

        Raises:
            IdentityUnavailable: It took too long, and was ended.

        """
        if self._loop is None:
            asked.close()
            raise RuntimeError("this request came in on no loop")
        coming = asyncio.run_coroutine_threadsafe(asked, self._loop)
        try:
            return coming.result(_PATIENCE_S)
        except TimeoutError as error:
            coming.cancel()
            detail = f"no answer after {_PATIENCE_S:g} s"
            raise IdentityUnavailable("try again later", detail=detail) from error

    @property
    def form(self) -> dict[str, str]:
        return self.payload.data

    @property
    def resources(self) -> Sequence[str]:
        """The `resource` parameter (RFC 8707): one or none, as repeated ones were refused."""
        resource = self.form.get("resource")
        return () if resource is None else (resource,)


class ProtocolClient(ClientMixin):
    """A client as Authlib asks about it."""

    def __init__(self, of: Client) -> None:
        self.of = of

    def get_client_id(self) -> str:
        return self.of.id

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in self.of.grants


class ProtocolServer(AuthorizationServer):
    """Authlib's server over our stores: `register_grant` and `register_endpoint` teach it more.

    `keys` signs; another ring may take its place at any time.
    """

    def __init__(
        self,
        *,
        resources: Resources,
        lifetimes: Lifetimes,
        stores: Stores,
        keys: KeyRing,
        new_id: Callable[[], str],
        random: Callable[[int], bytes],
        programs: Programs | None = None,
        reuse: Reuse | None = None,
        possession: Possession | None = None,
    ) -> None:
        """Without `programs` there are no tokens for them; without `reuse` the client decides;
        without `possession` no token is bound to a key.
        """
        super().__init__(scopes_supported=SCOPES)
        self.resources = resources
        self.lifetimes = lifetimes
        self.stores = stores
        self.keys = keys
        self.new_id = new_id
        self.random = random
        self.programs = programs
        self.reuse = reuse
        self.possession = possession or without_proofs()
        self._assertions = Assertions(
            issuer=resources.public_url, first_use=stores.grants.first_use
        )

    def new_secret(self) -> str:
        """Return 256 random bits as text: a code or a token that only its hash is kept of."""
        return secret_text(self.random(SECRET_OCTETS))

    def authenticate_client(
        self, request: ProtocolRequest, methods: Sequence[AuthMethod], endpoint: str = "token"
    ) -> ProtocolClient:
        """Return the client that has proved itself in the one way that it presented."""
        del endpoint  # a client proves itself alike everywhere
        client = authenticate(
            request.presented,
            request.known,
            methods=methods,
            assertions=self._assertions,
            now=request.attempt.time,
        )
        request.auth_method = None if request.presented is None else request.presented.method
        request.client = proven = ProtocolClient(client)
        return proven

    def create_oauth2_request(self, request: ProtocolRequest) -> ProtocolRequest:
        return request

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Tell nobody: Authlib's signals are its frameworks'."""

    def handle_response(self, status: int, body: Any, headers: Any) -> Any:
        """Return what the grant or the endpoint made; it becomes an answer elsewhere."""
        del status, headers
        return body

    def handle_error_response(self, request: ProtocolRequest, error: OAuth2Error) -> Never:
        """Refuse with a text of our own; see `refusal_of`."""
        del request
        raise refusal_of(error) from error


def refusal_of(error: OAuth2Error) -> OAuthError:
    """Return our refusal for one of Authlib's, whose texts may hold pieces of the request."""
    code = ErrorCode(error.error)
    return OAuthError(code, _TEXTS[code])


def token_hash(text: str) -> str:
    """Return what is kept of a code or a token: its SHA-256 in hex."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_parameters(data: bytes) -> dict[str, str]:
    """Return the parameters of a query or a form, each once; one without a value is left out.

    Raises:
        OAuthError: It cannot be read, holds more than printable ASCII, too many parameters, or one
            of them twice (RFC 6749 sections 3.1 and 3.2, appendix A).

    """
    try:
        pairs = parse_qsl(
            data.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(data),
            errors="strict",
            max_num_fields=MOST_PARAMETERS,
        )
    except ValueError:
        # Without a cause: the text of the error could hold a piece of a secret.
        raise OAuthError(ErrorCode.INVALID_REQUEST, "the parameters cannot be read") from None
    parameters = dict(pairs)
    if len(parameters) != len(pairs):
        several = sum(name == "resource" for name, _ in pairs) > 1
        # Several resources are legal (RFC 8707 section 2), but a token is for exactly one.
        raise OAuthError(
            ErrorCode.INVALID_TARGET if several else ErrorCode.INVALID_REQUEST,
            "a token is for one resource" if several else "a parameter is repeated",
        )
    if not all(_PRINTABLE.issuperset(name + text) for name, text in pairs):
        raise OAuthError(ErrorCode.INVALID_REQUEST, "parameters are printable ASCII")
    return {name: text for name, text in parameters.items() if text}
