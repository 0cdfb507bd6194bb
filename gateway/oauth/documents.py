"""Clients that name themselves by the https URL of a document (OAuth Client ID Metadata Document)."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import field, replace
from typing import Any
from urllib.parse import urlsplit

from gateway.domain._value import value
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.decisions import Verdict
from gateway.domain.identity import AuthMethod, Client, ClientKind
from gateway.domain.throttle import Throttles
from gateway.errors import AuditUnavailable, EgressRefused, IdentityUnavailable, UpstreamFailed
from gateway.oauth.client_metadata import described
from gateway.oauth.clients import SECRET_METHODS
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.oauth.looking_again import nothing_to_see
from gateway.oauth.redirects import is_plain_https
from gateway.ports import AuditLog, Clock
from gateway.ports.egress import Fetcher, Served
from gateway.ports.identity import ClientStore
from gateway.wire.jsontext import read_exact

LARGEST_DOCUMENT_BYTES = 5 * 1024
LONGEST_CLIENT_ID = 512

_SHORTEST_S = 5 * 60.0
_UNSAID_S = 60 * 60.0
_LONGEST_S = 24 * 60 * 60.0
_MAX_AGE = re.compile(r"(?:^|[,\s])max-age\s*=\s*\"?([0-9]{1,10})", re.ASCII | re.IGNORECASE)
_JSON = re.compile(r"application/(?:json|[a-z0-9.!#$&^_-]+\+json)", re.ASCII)
_JSON_DEPTH = 16


@value
class Copy:
    """A document as an administrator keeps it: in the place of what its URL answers."""

    body: bytes

    @property
    def status(self) -> int:
        return 200

    @property
    def headers(self) -> Mapping[str, str]:
        return {"content-type": "application/json"}


@value
class DocumentRules:
    """Whose documents are believed, and how many."""

    enabled: bool = True
    private_redirects: frozenset[str] = frozenset()
    """Exact redirect URIs with a private scheme that may be used."""
    most_clients: int = 10_000
    """Clients that no administrator registered, however they came."""
    fetches_per_source: int = 20
    """In a minute, on the word of one address; or again of one client that is known."""
    fetches: int = 120
    """In a minute, altogether, of clients that are not known."""
    copies: Mapping[str, Copy] = field(default_factory=dict)
    """By client id: what is read in the place of a document, which is not fetched at all."""


class ClientDirectory:
    """Every client there is: the stored ones, and those whose document can be read now.

    What a document says is stored like any client and believed until `Client.fresh_until`. Its
    `created_at` is when it last changed: a consent that is older was given to something else.
    """

    def __init__(
        self,
        *,
        find: Callable[[str], Client | None],
        clients: ClientStore,
        fetcher: Fetcher,
        audit: AuditLog,
        clock: Clock,
        new_id: Callable[[], str],
        rules: DocumentRules,
        look: Callable[[], Awaitable[None]] = nothing_to_see,
        throttles: Throttles | None = None,
    ) -> None:
        """`look` has `find` show what other gateways have registered by now."""
        self._find = find
        self._look = look
        self._clients = clients
        self._fetcher = fetcher
        self._audit = audit
        self._clock = clock
        self._new_id = new_id
        self._rules = rules
        found, each = throttles or Throttles(), rules.fetches_per_source
        self._by_source = found.of("documents of clients", allowed=each, window_s=60.0)
        self._altogether = found.of("all documents", allowed=rules.fetches, window_s=60.0)
        self._again = found.of("documents again", allowed=each, window_s=60.0)
        self._flights: dict[str, asyncio.Task[Client | None]] = {}

    async def resolve(self, client_id: str, source_ip: str = "") -> Client | None:
        """Return the client of that id; fetches its document if it has one that is not fresh.

        `source_ip` is on whose word; fetches on nobody's in particular are counted together.

        A document that cannot be read anew is not believed any longer. Callers that want the same
        one wait for one fetch; what fails is not remembered.

        Raises:
            IdentityUnavailable: Nobody of that id is in memory, which may be behind.

        """
        known = self._find(client_id)
        if known is None and not is_document_url(client_id):  # a document can be read here, too
            await self._look()
            known = self._find(client_id)
        if known is not None and known.kind is not ClientKind.DOCUMENT:
            return known
        copied = client_id in self._rules.copies
        if not (self._rules.enabled or copied) or not is_document_url(client_id):
            return None
        if known is not None and self._clock() < (known.fresh_until or 0):
            return known
        flight = self._flights.get(client_id)
        if flight is None:
            if not copied and not self._may_read(client_id, known, source_ip):
                return None
            flight = asyncio.create_task(self._read(client_id, known, source_ip))
            self._flights[client_id] = flight
            flight.add_done_callback(lambda _: self._flights.pop(client_id, None))
        # Whoever hangs up does not take the answer from the others.
        return await asyncio.shield(flight)

    def _may_read(self, client_id: str, known: Client | None, source_ip: str) -> bool:
        return self._may_fetch(source_ip) if known is None else self._may_renew(client_id)

    def _may_fetch(self, source_ip: str) -> bool:
        """Whether there is a fetch left for this address, and count it."""
        now = self._clock()
        if self._by_source.wait_s(source_ip, now) or self._altogether.wait_s("", now):
            return False
        self._by_source.note(source_ip, now)
        self._altogether.note("", now)
        return True

    def _may_renew(self, client_id: str) -> bool:
        """Whether a known client's document may be fetched again, and count it.

        By client, so that nobody else's requests make one unknown that people have let in.
        """
        now = self._clock()
        if self._again.wait_s(client_id, now):
            return False
        self._again.note(client_id, now)
        return True

    async def _read(self, url: str, known: Client | None, source_ip: str) -> Client | None:
        """Fetch, judge, record and store; nothing where one of them says no."""
        try:
            served: Served | None = self._rules.copies.get(url)
            if served is None:
                # What a stranger names is theirs to wait for; who is known waits for their own name.
                who = source_ip if known is None else ""
                headers = {"accept": "application/json"}
                served = await self._fetcher.get(url, headers=headers, who=who)
            client = client_of(
                url,
                served,
                private_redirects=self._rules.private_redirects,
                known=known,
                now=self._clock(),
            )
            self._check_room(known)
        except (EgressRefused, UpstreamFailed, OAuthError) as refusal:
            await self._record(url, source_ip, Verdict.DENY, refusal.detail or refusal.public)
            return None
        if known is None or known.created_at != client.created_at:
            recorded = await self._record(url, source_ip, Verdict.ALLOW, f"named {client.name}")
            if not recorded:
                return None
        try:
            return await asyncio.to_thread(self._stored, client, is_known=known is not None)
        except IdentityUnavailable:
            return None

    def _check_room(self, known: Client | None) -> None:
        if known is None and self_made(self._clients) >= self._rules.most_clients:
            raise OAuthError(ErrorCode.TEMPORARILY_UNAVAILABLE, "no further client can register")

    def _stored(self, client: Client, *, is_known: bool) -> Client | None:
        if self._clients.find(client.id) is None:
            if is_known:
                return None  # removed meanwhile: whoever names it next begins anew, on record
            try:
                self._clients.add(client)
            except ValueError:
                # Another process was faster; what it read is as good.
                self._clients.refresh(client)
        else:
            self._clients.refresh(client)
        return client

    async def _record(self, url: str, source_ip: str, verdict: Verdict, message: str) -> bool:
        fields = {
            "method": "oauth/client-metadata",
            "client": url,
            "source_ip": source_ip,
            "verdict": verdict.value,
            "reasons": [{"code": "client_document", "message": message}],
        }
        record = AuditRecord(
            kind=RecordKind.AUTH, time=self._clock(), id=self._new_id(), fields=fields
        )
        try:
            await self._audit.append(record)
        except AuditUnavailable:
            return False
        return True


def self_made(clients: ClientStore) -> int:
    """Return how many clients no administrator registered."""
    return sum(client.kind is not ClientKind.REGISTERED for client in clients.all())


def is_document_url(client_id: str) -> bool:
    """Whether `client_id` may be the URL of a document: https, with a path, and in plain sight."""
    return (
        len(client_id) <= LONGEST_CLIENT_ID
        and is_plain_https(client_id)
        and urlsplit(client_id).path not in {"", "/"}
    )


def client_of(
    url: str,
    fetched: Served,
    *,
    private_redirects: Collection[str],
    known: Client | None,
    now: float,
) -> Client:
    """Return the client that the document at `url` describes, in place of what is `known` of it.

    Raises:
        OAuthError: It is no document, not of this client, or says what such a client cannot be.

    """
    document = _document(fetched)
    if document.get("client_id") != url:
        raise _refusal("the document is another client's")
    if {"client_secret", "client_secret_expires_at"} & document.keys():
        # Everybody can read it, so there is no secret in it.
        raise _refusal("the document holds a secret")
    said = described(
        # Not the usual default: that is a secret, which nobody could have agreed on.
        {"token_endpoint_auth_method": AuthMethod.NONE.value, **document},
        private_redirects,
    )
    if not said.name or said.auth_method in SECRET_METHODS or not said.redirect_uris:
        raise _refusal("the document lacks a name or redirect URIs, or wants a shared secret")
    client = Client(
        id=url,
        name=said.name,
        kind=ClientKind.DOCUMENT,
        auth_methods=frozenset({said.auth_method}),
        jwks=said.jwks,
        redirect_uris=said.redirect_uris,
        homepage=said.homepage,
        grants=said.grants,
        holds_key=said.holds_key,
        created_at=now if known is None else known.created_at,
        created_by=url,
        fresh_until=now + _lifetime_s(fetched.headers.get("cache-control", "")),
    )
    unchanged = known is None or replace(known, fresh_until=client.fresh_until) == client
    return client if unchanged else replace(client, created_at=now)


def _document(fetched: Served) -> Mapping[str, Any]:
    if fetched.status != 200:  # noqa: PLR2004 - the one status that is a document
        raise _refusal("the document was not answered with 200")
    kind = fetched.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not _JSON.fullmatch(kind):
        raise _refusal("the document is not JSON")
    if len(fetched.body) > LARGEST_DOCUMENT_BYTES:
        raise _refusal("the document is too large")
    try:
        document = read_exact(fetched.body, _JSON_DEPTH)
    except ValueError as error:
        raise _refusal("the document cannot be read") from error
    if not isinstance(document, dict):
        raise _refusal("the document is no object")
    return document


def _lifetime_s(cache_control: str) -> float:
    found = _MAX_AGE.search(cache_control)
    said = _UNSAID_S if found is None else float(found[1])
    return min(max(said, _SHORTEST_S), _LONGEST_S)


def _refusal(detail: str) -> OAuthError:
    return OAuthError(
        ErrorCode.INVALID_CLIENT_METADATA, "the client metadata document is refused", detail=detail
    )
