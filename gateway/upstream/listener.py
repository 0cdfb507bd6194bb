"""Hears an upstream say that its lists have changed, also while no client listens."""

from collections.abc import Callable

from gateway.domain.calls import ServerEvent
from gateway.domain.tools import Kind, Profile, UpstreamId
from gateway.upstream.client import converse
from gateway.upstream.exchange import Exchange
from gateway.upstream.faults import unusable
from gateway.upstream.replies import discard, read_in_turn
from gateway.upstream.stream import EventStream
from gateway.wire.jsontext import WireLimits
from gateway.wire.operations import Sender, find


async def listen(
    server: UpstreamId,
    exchange: Exchange,
    profile: Profile,
    limits: WireLimits,
    heard: Callable[[Kind], None],
) -> None:
    """Call `heard` for every list that is said to have changed, until the stream ends.

    Declares no capabilities: what a server asks of clients is not for this conversation.

    Raises:
        NotSpoken: The upstream does not speak this family.
        UpstreamFailed: It offers no such stream, or the stream broke.
        CredentialRequired, LimitExceeded: As `Exchange.send`.

    """
    async with converse(server, exchange, profile, limits, capabilities={}) as (conversation, _):
        answer = await conversation.listen()
        try:
            if not isinstance(answer.body, EventStream):
                raise unusable(f"it offers no stream to listen to: status {answer.status}")
            async for event in answer.body:
                for kind in await _changed(server, event, limits):
                    heard(kind)
        finally:
            await discard(answer)


async def _changed(server: UpstreamId, event: ServerEvent, limits: WireLimits) -> tuple[Kind, ...]:
    if event.data is None:
        return ()
    row = find(Sender.SERVER, (await read_in_turn(server, event.data, limits)).method)
    return () if row is None else row.announces
