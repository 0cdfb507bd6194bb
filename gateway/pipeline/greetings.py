"""What a server says of itself when a client begins with it: what a person approved of it."""

from typing import Any

from gateway.domain.calls import Call, Permit
from gateway.domain.tools import Kind, Target
from gateway.pipeline.lists import ListFilter
from gateway.pipeline.rules import Rules
from gateway.ports import PinStore
from gateway.wire.bare_results import bare_greeting
from gateway.wire.extensions import approved_only
from gateway.wire.server_message import ServerMessage, with_member


class Greetings:
    """Serves handshakes and discoveries."""

    def __init__(self, *, pins: PinStore, rules: Rules, lists: ListFilter) -> None:
        self._pins = pins
        self._rules = rules
        self._lists = lists

    async def served(self, permit: Permit, message: ServerMessage) -> bytes:
        """Return a handshake or a discovery with what is approved of instructions and extensions.

        Raises:
            AuditUnavailable: The server says something else of itself, and that is not on record.

        """
        call = permit.call
        if call.server in self._rules.per_person:
            await self._lists.meet(permit, message.result or {})
        served = dict(bare_greeting(message.result or {}))
        if "capabilities" in served:
            extensions = self._rules.extensions.get(call.server, frozenset())
            served["capabilities"] = approved_only(served["capabilities"], extensions)
        if "instructions" in served:
            approved = self._instructions(call)
            if approved is None:
                del served["instructions"]
            else:
                served["instructions"] = approved
        return message.data if served == message.result else with_member(message, "result", served)

    def _instructions(self, call: Call) -> Any:
        target = Target(server=call.server, kind=Kind.SERVER, name=call.server)
        pin = self._pins.find(target, call.profile)
        if pin is None or pin.approved is None or not self._lists.is_served(pin):
            return None
        return pin.approved.definition.content.get("instructions")
