"""An upstream that is left alone for a while after it has failed too often.

What counts is how requests end. What listens for news is neither counted nor kept off, and what belongs
to a request that is under way (an answer to a question, a cancellation) goes through at any time.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from http import HTTPStatus
from typing import Final, Self

from gateway.domain.calls import Form, Permit, RawAnswer, ServerEvent
from gateway.errors import GatewayError, UpstreamFailed, UpstreamResting
from gateway.ports import Upstream
from gateway.upstream.breaker import Breaker, Trial
from gateway.upstream.replies import read_in_turn
from gateway.wire.jsontext import WireLimits

_LISTENS: Final = "subscriptions/listen"
_RESUMES: Final = "last-event-id"
_OWN: Final = frozenset(
    {
        "initialize",
        "server/discover",
        "ping",
        "logging/setLevel",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
    }
)
"""What a server can still answer though whatever its tools need is down."""


class GuardedUpstream:
    """Another upstream, behind a breaker. It is closed by whoever opened it."""

    def __init__(self, upstream: Upstream, breaker: Breaker, limits: WireLimits) -> None:
        self._upstream = upstream
        self._breaker = breaker
        self._limits = limits

    async def forward(self, permit: Permit) -> RawAnswer:
        """Send the permit's message and return the answer, its body whole or streamed.

        Raises:
            UpstreamResting: Nothing was sent; the upstream has failed too often, or is too busy.
            UpstreamFailed, CredentialRequired, LimitExceeded: As the upstream's own.

        """
        message = permit.call.message
        if message.form is not Form.REQUEST or message.method == _LISTENS:
            return self._heard(permit, await self._upstream.forward(permit))
        who = permit.principal
        trial = self._breaker.admit(who)
        concluded = False
        try:
            answer = await self._upstream.forward(permit)
            concluded = True
            if not isinstance(answer.body, bytes):
                return self._watched(answer, permit, trial)
            if problem := _problem(answer.status, answer.body):
                self._breaker.failed(who, trial, problem)
            elif message.method in _OWN:
                self._breaker.answered(trial)
            else:
                self._breaker.succeeded()
        except UpstreamResting:
            raise  # it was not even asked
        except UpstreamFailed as error:
            concluded = True
            self._breaker.failed(who, trial, error.detail)
            raise
        finally:
            if not concluded:
                # The caller went away, or something stood in the way that says nothing of it.
                self._breaker.left(trial)
        return answer

    async def reject(self, permit: Permit, body: bytes) -> None:
        """Answer a request of the server's in the client's place, with a JSON-RPC error `body`.

        Raises:
            UpstreamFailed: It could not be delivered.

        """
        await self._upstream.reject(permit, body)

    def _heard(self, permit: Permit, answer: RawAnswer) -> RawAnswer:
        """Watch a stream that is taken up again: the response that is missing may come on it."""
        if all(name != _RESUMES for name, _ in permit.call.headers):
            return answer
        return self._watched(answer, permit, None, blames=False)

    def _watched(
        self, answer: RawAnswer, permit: Permit, trial: Trial | None, *, blames: bool = True
    ) -> RawAnswer:
        if isinstance(answer.body, bytes):
            return answer
        events = WatchedEvents(
            answer.body, self._breaker, permit, trial, limits=self._limits, blames=blames
        )
        return replace(answer, body=events)


class WatchedEvents:
    """The events of one answer, and what they say of the upstream. Whoever holds it closes it."""

    def __init__(
        self,
        events: AsyncIterator[ServerEvent],
        breaker: Breaker,
        permit: Permit,
        trial: Trial | None,
        *,
        limits: WireLimits,
        blames: bool,
    ) -> None:
        """`blames` is whether it counts if they break off."""
        self._events = events
        self._breaker = breaker
        self._permit = permit
        self._trial = trial
        self._limits = limits
        self._blames = blames
        self._last: bytes | None = None
        self._concluded = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ServerEvent:
        """Return the next event.

        Raises:
            UpstreamFailed, LimitExceeded: As the events' own.

        """
        try:
            event = await anext(self._events)
        except StopAsyncIteration:
            await self._conclude()
            raise
        except UpstreamFailed as error:
            if self._blames and not self._concluded:
                self._concluded = True
                self._breaker.failed(self._permit.principal, self._trial, error.detail)
            raise
        if event.data is not None:
            self._last = event.data
            # It may go on for long: others may try while it does, one by one.
            self._breaker.left(self._trial)
        return event

    async def aclose(self) -> None:
        """Stop reading."""
        try:
            await self._conclude()
        finally:
            close = getattr(self._events, "aclose", None)
            if close is not None:
                await close()

    async def _conclude(self) -> None:
        if self._concluded:
            return
        self._concluded = True
        if not self._breaker.count() or not await self._answered():
            self._breaker.left(self._trial)
        elif self._permit.call.message.method in _OWN:
            self._breaker.answered(self._trial)
        else:
            self._breaker.succeeded()

    async def _answered(self) -> bool:
        """Whether the response was the last that was read: behind it comes nothing."""
        if self._last is None:
            return False
        try:
            message = await read_in_turn(self._permit.principal.person, self._last, self._limits)
        except GatewayError:
            return False
        return message.form is Form.RESPONSE


def _problem(status: int, body: bytes) -> str:
    """Return what is wrong with an answer that came whole; empty if nothing is."""
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return f"status {status}"
    return "" if body or status >= HTTPStatus.BAD_REQUEST else f"status {status} and no answer"
