"""What we are to an upstream's authorization server: configured, described or registered.

In the order of MCP 2026-07-28, client registration approaches. A registration belongs to one
upstream and one issuer and is shown to no other, also where two upstreams share an issuer.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from gateway.broker.discovery import AuthorizationServer
from gateway.broker.sealing import OurClient, seal, unseal
from gateway.broker.settings import PersonalConnection
from gateway.errors import Unsealable, UpstreamFailed
from gateway.ports import Clock
from gateway.ports.egress import Fetcher
from gateway.ports.sealed import ConnectionStore
from gateway.ports.secrets import Sealer

CALLBACK_PATH: Final = "/connect/callback"
DOCUMENT_PATH: Final = "/oauth/client-metadata.json"

_METHODS: Final = ("client_secret_basic", "client_secret_post", "none")
"""The ways in which we prove ourselves, the preferred one first."""
_NEVER: Final = 2**53
"""No time that a server names is later; JSON has integers beyond a double."""
_UNUSED_S: Final = 3600.0
"""How long a registration with which nobody has connected is relied on: many servers forget such."""


def client_metadata(public_url: str) -> dict[str, Any]:
    """Return the document at `DOCUMENT_PATH` (Client ID Metadata Documents)."""
    metadata = _metadata(public_url, public_url + CALLBACK_PATH, "none")
    return {"client_id": public_url + DOCUMENT_PATH, **metadata}


def callback_path(name: str, server: AuthorizationServer) -> str:
    """Return where the answer of `server` about the upstream `name` comes to.

    Answers that say whose they are share a place. Of one that does not, its place says it: no other
    authorization server knows a client of that redirect URI, so what one lures a browser to another
    for comes elsewhere than to its own (RFC 9700 section 4.4.2).
    """
    return CALLBACK_PATH if server.names_itself else f"{CALLBACK_PATH}/{name}"


class Registrations:
    """Blocks while it reads what is stored: to be called from a worker thread where it says so."""

    def __init__(
        self,
        *,
        connections: ConnectionStore,
        sealer: Sealer,
        fetcher: Fetcher,
        clock: Clock,
        public_url: str,
    ) -> None:
        self._connections = connections
        self._sealer = sealer
        self._fetcher = fetcher
        self._clock = clock
        self._public_url = public_url

    def known(self, settings: PersonalConnection, server: AuthorizationServer) -> OurClient | None:
        """Return what we are to `server` already. Blocks."""
        if settings.client_id:
            return configured(settings, server.auth_methods)
        # Everybody knows our document, so there only `iss` tells whose an answer is.
        by_document = server.takes_documents and server.names_itself
        if by_document and self._public_url.startswith("https:"):
            return OurClient(id=self._public_url + DOCUMENT_PATH)
        return self._stored(settings.server, server)

    def redirect_uri(self, name: str, server: AuthorizationServer) -> str:
        """Return the redirect URI with which `server` is asked about the upstream `name`."""
        return self._public_url + callback_path(name, server)

    async def register(self, server: AuthorizationServer, who: str) -> tuple[OurClient, float]:
        """Register (RFC 7591); return what we are now, and until when. The upstream `who` named `server`.

        Raises:
            UpstreamFailed: The server takes no registrations, or not this one.
            EgressRefused: It takes them where the gateway must not go.

        """
        if not server.registration_endpoint:
            raise _refused("it lets nobody register; configure a `client_id`")
        method = _method(server.auth_methods, has_secret=True)
        answer = await self._fetcher.post(
            server.registration_endpoint,
            json=_metadata(self._public_url, self.redirect_uri(who, server), method),
            headers={"accept": "application/json"},
            who=who,
        )
        if answer.status not in {HTTPStatus.OK, HTTPStatus.CREATED}:
            raise _refused(f"status {answer.status}")
        said = answer.json()
        until = said.get("client_secret_expires_at")
        lasts = isinstance(until, int) and until > 0 and bool(said.get("client_secret"))
        return _registered(said, method), float(min(until, _NEVER)) if lasts and until else 0.0

    def keep(self, name: str, server: AuthorizationServer, client: OurClient, until: float) -> None:
        """Keep a registration for the upstream `name` at `server`. Blocks."""
        content = {
            "client": client.content,
            "until": until,
            "made_at": self._clock(),
            "redirect_uri": self.redirect_uri(name, server),
        }
        row = _row(name, server.issuer)
        self._connections.register(name, server.issuer, seal(self._sealer, content, row))

    def forget(self, server: str, issuer: str) -> None:
        """Forget a registration that the issuer no longer knows. Blocks."""
        self._connections.register(server, issuer, "")

    def _stored(self, name: str, server: AuthorizationServer) -> OurClient | None:
        issuer = server.issuer
        sealed = self._connections.registration(name, issuer)
        if not sealed:
            return None
        try:
            kept = unseal(self._sealer, sealed, _row(name, issuer))
        except Unsealable:
            return None  # a new one takes its place
        # What was registered before a server said no more whose its answers are.
        shared = self._public_url + CALLBACK_PATH
        if kept.get("redirect_uri", shared) != self.redirect_uri(name, server):
            return None
        now = self._clock()
        if kept["until"] and kept["until"] <= now:
            return None
        if kept["made_at"] + _UNUSED_S <= now and not self._is_used(name, issuer):
            return None
        return OurClient(**kept["client"])

    def _is_used(self, server: str, issuer: str) -> bool:
        return any(
            one.server == server and one.issuer == issuer for one in self._connections.connections()
        )


def configured(settings: PersonalConnection, methods: frozenset[str]) -> OurClient:
    """Return the client that the operator registered, proven in one of `methods`."""
    return OurClient(
        id=settings.client_id,
        secret=settings.client_secret,
        method=_method(methods, has_secret=bool(settings.client_secret)),
    )


def _metadata(public_url: str, redirect_uri: str, method: str) -> dict[str, Any]:
    # Servers refuse a home page that is not https, and one on this machine says nothing to others.
    homepage = {"client_uri": public_url} if public_url.startswith("https:") else {}
    return {
        "client_name": "Douane",
        **homepage,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        # OpenID Connect Registration 1.0 section 2: http redirects are for native clients only.
        "application_type": "web" if public_url.startswith("https:") else "native",
    }


def _method(offered: frozenset[str], *, has_secret: bool) -> str:
    """Return how we prove ourselves to a server that offers these ways.

    Raises:
        UpstreamFailed: It offers none that we have.

    """
    for method in _METHODS if has_secret else ("none",):
        if method in offered:
            return method
    if not has_secret:
        return "none"  # a public client proves nothing, whatever is offered to others
    raise _refused("it offers no way in which the gateway can prove itself")


def _registered(said: Mapping[str, Any], asked: str) -> OurClient:
    """Return what a server made of our registration (RFC 7591 section 3.2.1).

    Raises:
        UpstreamFailed: It is nothing that we can use.

    """
    client_id, secret = said.get("client_id"), said.get("client_secret", "")
    method = said.get("token_endpoint_auth_method", asked)
    if not isinstance(client_id, str) or not client_id or not isinstance(secret, str):
        raise _refused("its answer names no client")
    if method not in _METHODS or (method != "none" and not secret):
        raise _refused("it wants a proof that the gateway cannot give")
    return OurClient(id=client_id, secret="" if method == "none" else secret, method=method)


def _refused(detail: str) -> UpstreamFailed:
    return UpstreamFailed(
        "The upstream's authorization server does not accept the gateway as a client.",
        detail=detail,
    )


def _row(server: str, issuer: str) -> str:
    return f"registrations:{server}:{issuer}"
