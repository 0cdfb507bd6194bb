"""What the gateway shows to upstreams in people's names: never a token that a client showed to us."""

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

from gateway.broker.challenge import Challenge, read_challenge
from gateway.broker.connect import Connecting
from gateway.broker.discovery import Discovery
from gateway.broker.exchange import Exchanges, Signer
from gateway.broker.held import Held, HeldTokens, NotConnected
from gateway.broker.possession import PROOF, WANTED, Keys, Proofs
from gateway.broker.records import Records
from gateway.broker.registration import Registrations
from gateway.broker.settings import Credential, PersonalConnection, TokenExchange
from gateway.errors import CredentialRequired
from gateway.ports import AuditLog, Clock
from gateway.ports.egress import Fetcher
from gateway.ports.grants import BrowserStore
from gateway.ports.identity import UserStore
from gateway.ports.sealed import ConnectionStore
from gateway.ports.secrets import Sealer

CONNECT_PATH: Final = "/connect/"

_YOUNG_S: Final = 10.0
"""A token this new was refused for what it is, not for its age: another one would be, too."""

_Fields = Sequence[tuple[str, str]]


class Broker:
    """Implements `ports.secrets.UpstreamCredentials` for the servers that want a person's token."""

    def __init__(
        self,
        servers: Mapping[str, Credential],
        *,
        connections: ConnectionStore,
        transactions: BrowserStore,
        users: UserStore,
        sealer: Sealer,
        fetcher: Fetcher,
        signer: Signer,
        audit: AuditLog,
        clock: Clock,
        random: Callable[[int], bytes],
        new_id: Callable[[], str],
        public_url: str,
        keys: Keys,
    ) -> None:
        self._servers = dict(servers)
        self._clock = clock
        self._public_url = public_url
        personal = {
            name: one for name, one in self._servers.items() if isinstance(one, PersonalConnection)
        }
        self._proofs = proofs = Proofs(keys, clock=clock, new_id=new_id)
        records = Records(audit, users, clock=clock, new_id=new_id, issuer=public_url)
        registrations = Registrations(
            connections=connections,
            sealer=sealer,
            fetcher=fetcher,
            clock=clock,
            public_url=public_url,
        )
        self._held = HeldTokens(
            personal,
            connections=connections,
            sealer=sealer,
            fetcher=fetcher,
            registrations=registrations,
            records=records,
            proofs=proofs,
            clock=clock,
            new_id=new_id,
        )
        self._exchanges = Exchanges(
            users=users,
            fetcher=fetcher,
            signer=signer,
            clock=clock,
            new_id=new_id,
            issuer=public_url,
        )
        self.connecting = Connecting(
            personal,
            connections=connections,
            transactions=transactions,
            registrations=registrations,
            discovery=Discovery(fetcher),
            sealer=sealer,
            fetcher=fetcher,
            records=records,
            proofs=proofs,
            clock=clock,
            random=random,
            public_url=public_url,
        )

    async def headers(
        self,
        server: str,
        user_id: str,
        principal_key: str,  # noqa: ARG002 - the port's
        *,
        verb: str = "POST",
    ) -> _Fields:
        """Return the header fields to send to `server` for this person; empty where none is wanted.

        Raises:
            CredentialRequired: The person has to connect first; `url` is where.
            UpstreamFailed: Their authorization server gave no usable answer.

        """
        match self._servers.get(server):
            case None:
                return ()
            case TokenExchange() as settings:
                return _bearer(await self._exchanges.token(settings, _person(user_id)))
            case PersonalConnection():
                try:
                    held = await self._held.current((_person(user_id), server))
                except NotConnected as error:
                    raise self._required(server, detail=str(error)) from error
                return self._shown(held, verb)

    async def rejected(
        self,
        server: str,
        user_id: str,
        *,
        shown: _Fields,
        status: int,
        challenge: str,
        nonce: str = "",
        verb: str = "POST",
    ) -> _Fields:
        """Return other header fields than `shown`, which the upstream has just refused.

        Raises:
            CredentialRequired: There are none; `url` is where the person can get better ones.
            UpstreamFailed: Their authorization server gave no usable answer.

        """
        match self._servers.get(server):
            case PersonalConnection() as settings:
                said = read_challenge(challenge, "dpop" if settings.is_bound else "bearer")
                wants = self._proofs.noted(settings.url, nonce) and said.error == WANTED
                if settings.is_bound and not wants and said == Challenge():
                    said = read_challenge(challenge)
                held = await self._renewed(settings, user_id, shown, status, said, wants=wants)
                return self._shown(held, verb)
            case TokenExchange() as settings if status == HTTPStatus.UNAUTHORIZED:
                old = _token(shown)
                return _bearer(await self._exchanges.renewed(settings, user_id, shown=old))
            case _:
                raise CredentialRequired(
                    "The upstream server does not accept the gateway's credential.",
                    detail=f"status {status}",
                )

    async def aclose(self) -> None:
        """Wait for what is under way with authorization servers."""
        await self._held.aclose()
        await self._exchanges.aclose()

    async def _renewed(
        self,
        settings: PersonalConnection,
        user_id: str,
        shown: _Fields,
        status: int,
        said: Challenge,
        *,
        wants: bool,
    ) -> Held:
        """Return what to show in place of what was refused: the same, if only a nonce was missing."""
        key = (user_id, settings.server)
        try:
            held = await self._held.read(key)
            if status == HTTPStatus.FORBIDDEN or said.error == "insufficient_scope":
                raise self._wider(settings, held, said)
            if held.secrets.access_token == _token(shown) and not wants:
                self._require_age(held)
                held = await self._held.renewed(key, held)
        except NotConnected as error:
            raise self._required(settings.server, detail=str(error)) from error
        return held

    def _shown(self, held: Held, verb: str) -> _Fields:
        """Return what shows a token: with a proof for this one request, if it is bound to a key."""
        secrets = held.secrets
        if not secrets.key:
            return _bearer(secrets.access_token)
        proof = self._proofs.of(secrets.key, verb, secrets.url, token=secrets.access_token)
        return (("authorization", f"DPoP {secrets.access_token}"), (PROOF, proof))

    def _require_age(self, held: Held) -> None:
        got_at = held.stored.refreshed_at or held.stored.connected_at
        if self._clock() - got_at < _YOUNG_S:
            raise NotConnected("the upstream refuses a new token")

    def _wider(
        self, settings: PersonalConnection, held: Held, said: Challenge
    ) -> CredentialRequired:
        """Return the fault that leads to a connection with the scopes that are missing."""
        missing = tuple(scope for scope in said.scopes if scope not in held.stored.scopes)
        if settings.scopes and not set(missing) <= set(settings.scopes):
            return CredentialRequired(
                "The upstream server wants more than the gateway is configured to ask for.",
                detail=f"scope {' '.join(missing)}",
            )
        return self._required(
            settings.server,
            scopes=missing or said.scopes,
            detail=f"insufficient scope: {' '.join(said.scopes)}",
        )

    def _required(
        self, server: str, *, scopes: tuple[str, ...] = (), detail: str
    ) -> CredentialRequired:
        query = f"?{urlencode({'scope': ' '.join(scopes)})}" if scopes else ""
        return CredentialRequired(
            "The user has no account connected at this server.",
            url=f"{self._public_url}{CONNECT_PATH}{server}{query}",
            detail=detail,
        )


def _person(user_id: str) -> str:
    """Return the id of the person behind a call.

    Raises:
        CredentialRequired: There is none: a client acts for itself.

    """
    if not user_id:
        raise CredentialRequired(
            "This server is for people; a client that acts for itself has no account there.",
            detail="no person",
        )
    return user_id


def _bearer(token: str) -> _Fields:
    return (("authorization", f"Bearer {token}"),)


def _token(shown: _Fields) -> str:
    return next((text.partition(" ")[2] for name, text in shown if name == "authorization"), "")
