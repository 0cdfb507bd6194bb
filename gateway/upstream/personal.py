"""What is sent to an upstream in a person's name, and the lists that it shows them."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from gateway.domain.calls import RawAnswer
from gateway.domain.identity import Principal
from gateway.domain.tools import UpstreamId
from gateway.errors import CredentialRequired, GatewayError
from gateway.ports.secrets import UpstreamCredentials
from gateway.upstream.client import Transport
from gateway.upstream.faults import Challenged
from gateway.upstream.headers import Headers
from gateway.upstream.watched import Place, Read, Watched

_MOST_PEOPLE: Final = 2_000
"""Whose lists are known of; whoever is forgotten has theirs read before their next call."""


async def sent_in_name_of(
    principal: Principal,
    server: UpstreamId,
    credentials: UpstreamCredentials,
    headers: Headers,
    send: Callable[..., Awaitable[RawAnswer]],
    *,
    verb: str = "POST",
) -> RawAnswer:
    """Send with the principal's credential; one that was refused is exchanged once.

    An upstream that refuses a credential says that it has done nothing else with the message.

    Raises:
        CredentialRequired: They have none, or none that the upstream takes.
        UpstreamFailed, LimitExceeded: There is no answer that can be used.

    """
    user = principal.user_id
    shown = await credentials.headers(server, user, principal.key, verb=verb)
    try:
        return await send(headers=[*headers, *shown])
    except Challenged as refused:
        shown = await _better(server, user, credentials, shown, refused, verb=verb)
    try:
        return await send(headers=[*headers, *shown])
    except Challenged as refused:
        await _better(server, user, credentials, shown, refused, verb=verb)
        raise
    except GatewayError as error:
        raise error.of_one(has_left=True) from error


async def _better(
    server: UpstreamId,
    user: str,
    credentials: UpstreamCredentials,
    shown: Sequence[tuple[str, str]],
    refused: Challenged,
    *,
    verb: str,
) -> Sequence[tuple[str, str]]:
    """Return what to show in place of what was `refused`."""
    try:
        return await credentials.rejected(
            server,
            user,
            shown=shown,
            status=refused.status,
            challenge=refused.challenge,
            nonce=refused.nonce,
            verb=verb,
        )
    except CredentialRequired as error:
        raise error.of_one(has_left=True) from error


class InTheirName:
    """Carries messages of the gateway's own over another's connections, in a person's name."""

    def __init__(
        self,
        carrier: Transport,
        credentials: UpstreamCredentials,
        server: UpstreamId,
        principal: Principal,
    ) -> None:
        self._carrier = carrier
        self._credentials = credentials
        self._server = server
        self._principal = principal
        self.required: CredentialRequired | None = None
        """Why the last message was not taken, if it was for want of a credential."""

    async def send(
        self, verb: str, headers: Headers, body: bytes, *, listens: bool = False
    ) -> RawAnswer:
        """Send one message, once, and return the answer."""
        send = partial(self._carrier.send, verb, body=body, listens=listens)
        self.required = None
        try:
            return await sent_in_name_of(
                self._principal, self._server, self._credentials, headers, send, verb=verb
            )
        except CredentialRequired as error:
            self.required = error
            raise

    async def aclose(self) -> None:
        """Leave the connections to those whose they are."""


class TheirLists(Watched):
    """What is known of the lists that one upstream shows one person."""

    def __init__(self, everybodys: Watched, transport: InTheirName) -> None:
        super().__init__(everybodys.settings)
        self.exchange = transport
        self.listening = None
        self.keeps = False
        # Where their own credential is refused, nothing was seen: it is no list for others alone.
        self.per_person = False
        self._transport = transport

    def note(self, place: Place, read: Read) -> None:
        """Take note of when it was read, and of nothing that the upstream can make large."""
        super().note(place, replace(read, pages=(), compared_with=None))

    @property
    def is_refused(self) -> bool:
        """Whether the upstream does not take their credential."""
        return self._transport.required is not None

    def require_credential(self) -> None:
        """Return if the upstream has taken their credential.

        Raises:
            CredentialRequired: It has not; `url` is where they can get another.

        """
        refused = self._transport.required
        if refused is not None:
            raise CredentialRequired(refused.public, url=refused.url, detail=refused.detail)


class People:
    """Knows of each person what they are shown by the upstreams that show it to nobody else."""

    def __init__(self, credentials: UpstreamCredentials) -> None:
        self._credentials = credentials
        self._known: OrderedDict[tuple[UpstreamId, str], TheirLists] = OrderedDict()

    async def lists_of(self, principal: Principal, everybodys: Watched) -> TheirLists:
        """Return what is known of the lists they are shown.

        Raises:
            CredentialRequired: They have no credential, so nothing can be sent in their name.
            UpstreamFailed: Their authorization server gave no usable answer.

        """
        server = everybodys.server
        await self._credentials.headers(server, principal.user_id, principal.key)
        key = server, principal.user_id
        found = self._known.get(key)
        if found is None:
            transport = InTheirName(everybodys.exchange, self._credentials, server, principal)
            found = self._known[key] = TheirLists(everybodys, transport)
        self._known.move_to_end(key)
        while len(self._known) > _MOST_PEOPLE:
            self._known.popitem(last=False)
        return found
