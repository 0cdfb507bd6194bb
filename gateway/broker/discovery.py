"""Who gives tokens for an upstream: from its own 401 to the metadata of an authorization server."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.broker.challenge import Challenge, read_challenge, scopes_in
from gateway.broker.settings import PersonalConnection
from gateway.broker.urls import covers, origin, usable, usable_issuer
from gateway.domain._value import value
from gateway.errors import UpstreamFailed
from gateway.ports.egress import Fetcher

_REVISION: Final = "2026-07-28"
_META: Final = "io.modelcontextprotocol/"
_PROTECTED: Final = "/.well-known/oauth-protected-resource"
_OAUTH: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"

_QUESTION: Final = {
    "jsonrpc": "2.0",
    "id": "douane-1",
    "method": "tools/list",
    "params": {
        "_meta": {
            f"{_META}protocolVersion": _REVISION,
            f"{_META}clientCapabilities": {},
            f"{_META}clientInfo": {"name": "douane", "version": "1"},
        }
    },
}
"""A list, not a handshake: some upstreams let anybody in that far."""
_QUESTION_HEADERS: Final = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": _REVISION,
    "mcp-method": "tools/list",
}


@value
class AuthorizationServer:
    """What an authorization server says of itself (RFC 8414 section 2), as far as we use it."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str
    """Empty if nobody can register there."""
    auth_methods: frozenset[str]
    scopes: frozenset[str]
    takes_documents: bool
    """Whether a client may name itself by the URL of its metadata document."""
    names_itself: bool
    """Whether its answers carry `iss` (RFC 9207 section 3)."""


@value
class Found:
    """Who gives tokens for an upstream, and what to ask for."""

    resource: str
    """How the upstream names itself; sent back exactly so (RFC 8707)."""
    scopes: tuple[str, ...]
    """What its challenge names, or else its metadata."""
    server: AuthorizationServer


class Discovery:
    """Believes no document that speaks for somebody else, and fetches all of them guarded."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    async def find(self, settings: PersonalConnection) -> Found:
        """Return who gives tokens for the upstream.

        Raises:
            UpstreamFailed: That cannot be found out, or what was found cannot be relied on.
            EgressRefused: A document is where the gateway must not go.

        """
        challenge = await self._challenge(settings)
        protected = await self._protected_resource(settings, challenge)
        if protected is None:
            if not settings.issuer:
                raise _unknown("no protected resource metadata")
            protected = {"resource": settings.url, "authorization_servers": [settings.issuer]}
        resource = protected.get("resource")
        if not isinstance(resource, str) or not covers(resource, settings.url):
            # RFC 9728 section 3.3: metadata for another resource must not be used.
            raise _unknown("the protected resource metadata is for another resource")
        issuer = _issuer(settings, protected)
        server = await self._authorization_server(issuer, settings.server)
        listed = _listed(protected.get("scopes_supported"))
        return Found(resource=resource, scopes=challenge.scopes or scopes_in(listed), server=server)

    async def _challenge(self, settings: PersonalConnection) -> Challenge:
        """Return what the upstream says to somebody without a credential."""
        try:
            answer = await self._fetcher.post(
                settings.url, json=_QUESTION, headers=_QUESTION_HEADERS, who=settings.server
            )
        except UpstreamFailed:
            return Challenge()  # its metadata may be at a well-known place all the same
        if answer.status != HTTPStatus.UNAUTHORIZED:
            return Challenge()
        return read_challenge(answer.headers.get("www-authenticate", ""))

    async def _protected_resource(
        self, settings: PersonalConnection, challenge: Challenge
    ) -> Mapping[str, Any] | None:
        """Return the upstream's metadata: where it says, else at the well-known places."""
        url = settings.url
        path = urlsplit(url).path.rstrip("/")
        places = [f"{origin(url)}{_PROTECTED}{path}", f"{origin(url)}{_PROTECTED}"]
        if challenge.resource_metadata:
            try:
                places.insert(0, usable(challenge.resource_metadata))
            except ValueError as error:
                raise _unknown(f"resource_metadata: {error}") from error
        return await self._first(places, settings.server)

    async def _authorization_server(self, issuer: str, who: str) -> AuthorizationServer:
        """Return the metadata of `issuer` (RFC 8414 section 3, OpenID Connect Discovery 1.0).

        The upstream `who` named it.
        """
        base, path = origin(issuer), urlsplit(issuer).path.rstrip("/")
        places = [f"{base}{_OAUTH}{path}", f"{base}{_OPENID}{path}"]
        if path:
            places.append(f"{base}{path}{_OPENID}")
        document = await self._first(places, who)
        if document is None:
            raise _unknown("no authorization server metadata")
        return read_authorization_server(document, issuer)

    async def _first(self, places: Iterable[str], who: str) -> Mapping[str, Any] | None:
        """Return the first of these documents that is there."""
        for place in dict.fromkeys(places):
            try:
                answer = await self._fetcher.get(
                    place, headers={"accept": "application/json"}, who=who
                )
                if answer.status == HTTPStatus.OK:
                    return answer.json()
            except UpstreamFailed:
                continue
        return None


def read_authorization_server(document: Mapping[str, Any], issuer: str) -> AuthorizationServer:
    """Return what `document` says, if it speaks for `issuer` and offers what we need.

    Raises:
        UpstreamFailed: Anything else.

    """
    if document.get("issuer") != issuer:
        # RFC 8414 section 3.3, byte for byte: another's document could lead us to another's
        # endpoints in the name of this one.
        raise _unknown("the authorization server metadata is another issuer's")
    if "S256" not in _listed(document.get("code_challenge_methods_supported")):
        raise _unknown("the authorization server does not offer PKCE with S256")
    registration = document.get("registration_endpoint")
    methods = _listed(document.get("token_endpoint_auth_methods_supported"))
    try:
        return AuthorizationServer(
            issuer=issuer,
            authorization_endpoint=usable(document.get("authorization_endpoint")),
            token_endpoint=usable(document.get("token_endpoint")),
            registration_endpoint="" if registration is None else usable(registration),
            # RFC 8414 section 2: what it is if nothing is said.
            auth_methods=frozenset(methods) or frozenset({"client_secret_basic"}),
            scopes=frozenset(scopes_in(_listed(document.get("scopes_supported")))),
            takes_documents=document.get("client_id_metadata_document_supported") is True,
            names_itself=document.get("authorization_response_iss_parameter_supported") is True,
        )
    except ValueError as error:
        raise _unknown(f"the authorization server metadata names {error}") from error


def _issuer(settings: PersonalConnection, protected: Mapping[str, Any]) -> str:
    """Return which of the upstream's authorization servers to use.

    Raises:
        UpstreamFailed: It names none, or not the one that the operator accepts.

    """
    named = _listed(protected.get("authorization_servers"))
    if settings.issuer:
        if settings.issuer not in named:
            raise _unknown(
                "the upstream names another authorization server than the configured one"
            )
        return settings.issuer
    if not named:
        raise _unknown("the upstream names no authorization server")
    try:
        return usable_issuer(named[0])
    except ValueError as error:
        raise _unknown(f"the upstream names {error} as its authorization server") from error


def _listed(said: object) -> list[str]:
    return [one for one in said if isinstance(one, str)] if isinstance(said, list) else []


def _unknown(detail: str) -> UpstreamFailed:
    return UpstreamFailed(
        "It cannot be found out where to sign in for the upstream server.", detail=detail
    )
