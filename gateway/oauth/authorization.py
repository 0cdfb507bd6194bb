"""The authorization endpoint: what a client asks a person for, and what it gets (RFC 6749 section 4.1).

Of Authlib this uses the server's view of stores and secrets, not its judgement of the request: that
passes a request without PKCE, takes `plain`, knows no resource and no `iss`, and repeats pieces of
the request in its errors.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import NoReturn
from urllib.parse import parse_qsl, urlencode

from gateway.domain._value import value
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.decisions import Verdict
from gateway.domain.grants import AuthorizationCode, AuthorizationRequest, Grant
from gateway.domain.identity import Client, User, named_in_records
from gateway.errors import AuditUnavailable, IdentityUnavailable
from gateway.oauth.builtin import AUTHORIZATION_CODE
from gateway.oauth.documents import ClientDirectory
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.protocol import ProtocolServer, read_parameters, token_hash
from gateway.oauth.redirects import is_on_the_device, matches
from gateway.oauth.tokens import THUMBPRINT
from gateway.ports import AuditLog, Clock

LARGEST_QUERY_BYTES = 8192

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
"""A SHA-256 in base64url (RFC 7636 section 4.2)."""

_PROMPTS = frozenset({"none", "login", "consent", "select_account"})


class RedirectedError(OAuthError):
    """A refusal that the client is told at its redirect URI (RFC 6749 section 4.1.2.1).

    `location` is where to send the browser; not before a person has signed in there, else anybody
    could make this server send a browser elsewhere (RFC 9700 section 4.11.2).
    """

    def __init__(self, refusal: OAuthError, *, location: str, redirect_uri: str) -> None:
        super().__init__(
            refusal.error, refusal.public, detail=refusal.detail, client_id=refusal.client_id
        )
        self.location = location
        self.redirect_uri = redirect_uri


@value
class Begun:
    """A request that a person may be asked about."""

    client: Client
    request: AuthorizationRequest
    prompts: frozenset[str] = frozenset()
    """What the client wants to happen though it need not: `login`, `consent`, `select_account`."""


def must_ask(client: Client, redirect_uri: str) -> bool:
    """Whether a person is asked every time, whatever they said before.

    So they are about a public client on their own machine: any program there can pretend to be it
    (RFC 8252 section 8.6).
    """
    return client.is_public and is_on_the_device(redirect_uri)


class AuthorizationEndpoint:
    """Judges what clients ask for, and gives out codes for what people grant."""

    def __init__(
        self,
        *,
        server: ProtocolServer,
        directory: ClientDirectory,
        audit: AuditLog,
        clock: Clock,
    ) -> None:
        self._server = server
        self._resources = server.resources
        self._directory = directory
        self._audit = audit
        self._clock = clock

    async def begin(self, query: bytes, source_ip: str, *, signed_in: bool = False) -> Begun:
        """Return what a client asks for, so that a person can be asked.

        `signed_in` is whether the browser's person is known; it only chooses the answer to a client
        that wants nobody to be asked, as nothing is granted without a page.

        Raises:
            RedirectedError: The client is known and so is its redirect URI, but it cannot have this.
            OAuthError: Whoever sends this is not known, or not where to send them back to.

        """
        try:
            parameters, resources = _parameters(query)
            client = await self._client(parameters.get("client_id"), source_ip)
            redirect_uri = _redirect_uri(client, parameters)
        except OAuthError as refusal:
            await self._refuse(refusal, source_ip)
        try:
            prompts = _prompts(parameters, signed_in=signed_in)
            request = self._request(client, redirect_uri, parameters, resources)
        except OAuthError as refusal:
            refusal.client_id = client.id
            await self._refuse(
                self._redirected(refusal, redirect_uri, parameters.get("state")), source_ip
            )
        return Begun(client=client, request=request, prompts=prompts)

    async def approve(
        self,
        request: AuthorizationRequest,
        user: User,
        source_ip: str,
        *,
        proven_at: float = 0.0,
    ) -> str:
        """Return where to send the browser with a new code: `user` said yes to `request`.

        `proven_at` is when they last showed who they are, 0 if nobody knows. What was true when the person was asked is looked at again. The code is stored after its
        record: there is none that is not on record.

        Raises:
            RedirectedError: The client or the person may not have it any longer.
            OAuthError: The client or its redirect URI is gone, or nothing can be recorded now.

        """
        now = self._clock()
        client = await self._still_valid(request, user, source_ip)
        code = self._server.new_secret()
        grant = Grant(
            id=self._server.new_id(),
            user_id=user.id,
            client_id=client.id,
            endpoint=request.endpoint,
            scopes=request.scopes,
            created_at=now,
            expires_at=now + self._server.lifetimes.grant_s,
        )
        issued = AuthorizationCode(
            code_hash=token_hash(code),
            grant_id=grant.id,
            client_id=client.id,
            redirect_uri=request.redirect_uri,
            code_challenge=request.code_challenge,
            bound_to=request.bound_to,
            proven_at=proven_at,
            expires_at=now + self._server.lifetimes.code_s,
        )
        message = f"scope {' '.join(sorted(request.scopes))}, grant {grant.id}"
        told = {"principal": self._named(user), "client": client.id, "endpoint": request.endpoint}
        await self._record(source_ip, Verdict.ALLOW, "code_issued", message, told)
        try:
            await asyncio.to_thread(self._server.stores.grants.issue_code, grant, issued)
        except IdentityUnavailable as error:
            raise _try_again() from error
        return self._location(request.redirect_uri, {"code": code}, request.state)

    async def deny(self, request: AuthorizationRequest, user: User | None, source_ip: str) -> str:
        """Return where to send the browser: the person said no, and that is on record."""
        refusal = OAuthError(ErrorCode.ACCESS_DENIED, "the person said no")
        told = {"client": request.client_id, "endpoint": request.endpoint}
        if user is not None:
            told["principal"] = self._named(user)
        await self._record(source_ip, Verdict.DENY, refusal.error.value, refusal.public, told)
        return self._redirected(refusal, request.redirect_uri, request.state).location

    def _named(self, user: User) -> str:
        return named_in_records(user.issuer, user.subject, own=self._resources.public_url)

    async def _client(self, client_id: str | None, source_ip: str) -> Client:
        try:
            client = (
                None if client_id is None else await self._directory.resolve(client_id, source_ip)
            )
        except IdentityUnavailable as error:
            raise _try_again() from error
        if client is None:
            raise OAuthError(ErrorCode.INVALID_CLIENT, "no such client is known here")
        return client

    def _request(
        self,
        client: Client,
        redirect_uri: str,
        parameters: Mapping[str, str],
        resources: Sequence[str],
    ) -> AuthorizationRequest:
        """Return what is asked for, if it is something that this client can get."""
        if AUTHORIZATION_CODE not in client.grants:
            raise OAuthError(ErrorCode.UNAUTHORIZED_CLIENT, "the client may not use this grant")
        if parameters.get("response_type") != "code":
            raise OAuthError(ErrorCode.UNSUPPORTED_RESPONSE_TYPE, "the only response type is code")
        if parameters.get("response_mode", "query") != "query":
            raise OAuthError(ErrorCode.INVALID_REQUEST, "the only response mode is query")
        challenge = parameters.get("code_challenge", "")
        if parameters.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(challenge):
            raise OAuthError(
                ErrorCode.INVALID_REQUEST, "a code challenge by the method S256 is required"
            )
        endpoint = self._resources.requested(resources, client)
        return AuthorizationRequest(
            client_id=client.id,
            redirect_uri=redirect_uri,
            endpoint=endpoint,
            scopes=self._resources.granted(parameters.get("scope"), client, endpoint),
            state=parameters.get("state"),
            code_challenge=challenge,
            bound_to=self._bound_to(parameters, endpoint),
        )

    def _bound_to(self, parameters: Mapping[str, str], endpoint: str) -> str:
        """Return the key that the code will be bound to (RFC 9449 section 10)."""
        key = parameters.get("dpop_jkt", "")
        if not key or endpoint not in self._server.possession.rules.taken:
            return ""
        if not THUMBPRINT.fullmatch(key):
            raise OAuthError(ErrorCode.INVALID_REQUEST, "dpop_jkt is not the thumbprint of a key")
        return key

    async def _still_valid(
        self, request: AuthorizationRequest, user: User, source_ip: str
    ) -> Client:
        """Return the client, if it and the person may still do what the person was asked."""
        try:
            client = await self._client(request.client_id, source_ip)
            _redirect_uri(client, {"redirect_uri": request.redirect_uri})
        except OAuthError as refusal:
            await self._refuse(refusal, source_ip)
        known = self._server.stores.users.find(user.id)
        allowed = (
            known is not None
            and not known.disabled
            and client.ceiling(request.scopes) == request.scopes
            and self._resources.open_to(client, request.endpoint)
        )
        if not allowed:
            gone = OAuthError(
                ErrorCode.ACCESS_DENIED, "this can no longer be granted", client_id=client.id
            )
            await self._refuse(
                self._redirected(gone, request.redirect_uri, request.state), source_ip
            )
        return client

    async def _refuse(self, refusal: OAuthError, source_ip: str) -> NoReturn:
        """Raise `refusal` once it is on record."""
        told = {"client": refusal.client_id} if refusal.client_id else {}
        detail = refusal.detail or refusal.public
        await self._record(source_ip, Verdict.DENY, refusal.error.value, detail, told)
        refusal.recorded = True
        raise refusal

    async def _record(
        self, source_ip: str, verdict: Verdict, code: str, message: str, told: Mapping[str, str]
    ) -> None:
        fields = {
            **told,
            "method": "oauth/authorize",
            "source_ip": source_ip,
            "verdict": verdict.value,
            "code": code,
            "reasons": [{"code": code, "message": message}],
        }
        record = AuditRecord(
            kind=RecordKind.TOKEN if told else RecordKind.AUTH,
            time=self._clock(),
            id=self._server.new_id(),
            fields=fields,
        )
        try:
            await self._audit.append(record)
        except AuditUnavailable as error:
            raise _try_again() from error

    def _redirected(
        self, refusal: OAuthError, redirect_uri: str, state: str | None
    ) -> RedirectedError:
        told = {"error": refusal.error.value, "error_description": refusal.public}
        return RedirectedError(
            refusal,
            location=self._location(redirect_uri, told, state),
            redirect_uri=redirect_uri,
        )

    def _location(self, redirect_uri: str, told: Mapping[str, str], state: str | None) -> str:
        """Return the redirect URI, unchanged, with the answer behind it (RFC 9207 section 2)."""
        answer = {**told, **({} if state is None else {"state": state})}
        answer["iss"] = self._resources.public_url
        joint = "&" if "?" in redirect_uri else "?"
        return f"{redirect_uri}{joint}{urlencode(answer)}"


def _parameters(query: bytes) -> tuple[dict[str, str], Sequence[str]]:
    """Return the parameters, each once, and every `resource` there is.

    Several resources are well-formed (RFC 8707 section 2), though never granted: the client is told
    so at its redirect URI, as of any other target.
    """
    if len(query) > LARGEST_QUERY_BYTES:
        raise OAuthError(ErrorCode.INVALID_REQUEST, "the request is too long")
    try:
        parameters = read_parameters(query)
    except OAuthError as refusal:
        if refusal.error is not ErrorCode.INVALID_TARGET:
            raise
    else:
        return parameters, [parameters["resource"]] if "resource" in parameters else []
    pairs = parse_qsl(query.decode("ascii"))
    others = urlencode([pair for pair in pairs if pair[0] != "resource"])
    return read_parameters(others.encode()), [uri for name, uri in pairs if name == "resource"]


def _redirect_uri(client: Client, parameters: Mapping[str, str]) -> str:
    """Return the redirect URI, which is one of the client's own.

    It has to be named: of several, none is the obvious one (OAuth 2.1 section 4.1.1).
    """
    asked = parameters.get("redirect_uri", "")
    if not matches(client.redirect_uris, asked):
        raise OAuthError(
            ErrorCode.INVALID_REQUEST, "the client has no such redirect URI", client_id=client.id
        )
    return asked


def _prompts(parameters: Mapping[str, str], *, signed_in: bool) -> frozenset[str]:
    """Return how the person is to be asked (OpenID Connect Core section 3.1.2.1)."""
    prompts = frozenset(parameters.get("prompt", "").split()) & _PROMPTS
    if "none" not in prompts:
        return prompts
    raise OAuthError(
        ErrorCode.CONSENT_REQUIRED if signed_in else ErrorCode.LOGIN_REQUIRED,
        "nothing is granted here without asking a person",
    )


def _try_again() -> OAuthError:
    return OAuthError(ErrorCode.TEMPORARILY_UNAVAILABLE, "try again later")
