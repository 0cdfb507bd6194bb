"""One exchange with a server about a task of its own, with a record of its own."""

from dataclasses import replace

from gateway.domain._value import value
from gateway.domain.calls import Form, Permit, RawAnswer
from gateway.domain.late import LateCall
from gateway.errors import UpstreamFailed
from gateway.pipeline.admission import Admission
from gateway.pipeline.asides import heard
from gateway.pipeline.recording import recorded
from gateway.pipeline.release import require_answer
from gateway.pipeline.streams import close
from gateway.pipeline.trail import Trail
from gateway.ports import Ledger, UpstreamDirectory
from gateway.wire.jsontext import WireLimits
from gateway.wire.server_message import ServerMessage
from gateway.wire.tasks import towards


@value
class Prepared:
    """A request about a task whose intent is durable, and which has not been sent."""

    late: LateCall
    permit: Permit
    """As it was decided on."""
    going: Permit
    """As it goes to the server, under the server's own id."""


class LateExchange:
    """Sends requests about tasks, and returns what the server answers."""

    def __init__(
        self,
        *,
        admission: Admission,
        upstreams: UpstreamDirectory,
        ledger: Ledger,
        limits: WireLimits,
    ) -> None:
        self._admission = admission
        self._upstreams = upstreams
        self._ledger = ledger
        self._limits = limits

    async def asked(self, late: LateCall, permit: Permit, trail: Trail) -> ServerMessage:
        """Return what the server of `late` answers to what `permit` permits.

        Raises:
            GatewayError: It was not asked, or gives no answer.

        """
        return await self.sent(await self.prepared(late, permit, trail), trail)

    async def prepared(self, late: LateCall, permit: Permit, trail: Trail) -> Prepared:
        """Return a request that may go out: its intent is durable.

        Raises:
            AuditUnavailable: It is not.
            Changed: What it was decided on does not hold any more.
            Denied: It brings back what was not given out.

        """
        call = permit.call
        message, headers = towards(call.message, call.headers, late.upstream_id)
        going = replace(permit, call=replace(call, message=message, headers=headers))
        await recorded(self._ledger, self._admission, permit, trail)
        going = await self._admission.asides.going(going)
        return Prepared(late=late, permit=permit, going=going)

    async def sent(self, prepared: Prepared, trail: Trail) -> ServerMessage:
        """Send it, and return the answer.

        Raises:
            GatewayError: It was not sent (`trail.sent`), or there is no answer.

        """
        permit = prepared.permit
        self._admission.require_unchanged(permit)
        trail.sent = True
        answer = await self._upstreams.of(prepared.late.server).forward(prepared.going)
        trail.answer(answer.status, None)
        found = await self._response(prepared, answer)
        require_answer(permit, found)
        return found

    async def _response(self, prepared: Prepared, answer: RawAnswer) -> ServerMessage:
        """Return the response in an answer; what else comes on a stream has no place there.

        Raises:
            UpstreamFailed: There is none.

        """
        permit, went = prepared.permit, prepared.going.call.message
        if isinstance(answer.body, bytes):
            message = await heard(permit, answer.body, self._limits)
            return await self._admission.asides.home(permit, went, message)
        try:
            async for event in answer.body:
                if event.data is None:
                    continue
                message = await heard(permit, event.data, self._limits)
                if message.form is Form.RESPONSE:
                    return await self._admission.asides.home(permit, went, message)
        finally:
            await close(answer.body)
        raise UpstreamFailed("the upstream server gave no answer")
