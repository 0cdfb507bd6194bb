"""What a server says of itself when a client begins with it: what a person approved of it."""

from collections.abc import Mapping
from typing import Any

from gateway.domain.calls import Call, Permit
from gateway.domain.tools import Kind, Profile, Target
from gateway.pipeline.lists import ListFilter
from gateway.pipeline.rules import Rules
from gateway.ports import PinStore
from gateway.wire.bare_results import Said, bare_result, renamed
from gateway.wire.extensions import TASKS, approved_only
from gateway.wire.server_message import ServerMessage, with_member


class Greetings:
    """Serves handshakes and discoveries."""

    def __init__(self, *, pins: PinStore, rules: Rules, lists: ListFilter) -> None:
        self._pins = pins
        self._rules = rules
        self._lists = lists

    async def served(self, permit: Permit, message: ServerMessage, bare: Said) -> bytes:
        """Return a handshake or a discovery with what is approved of instructions, extensions and names.

        `bare` is what the protocol has a place for in it.

        Raises:
            AuditUnavailable: The server says something else of itself, and that is not on record.

        """
        call = permit.call
        if call.server in self._rules.per_person:
            await self._lists.meet(permit, message.result or {})
        known = self._approved(call)
        served = dict(renamed(bare, _identity(call, known)))
        if "capabilities" in served:
            extensions = self._rules.extensions.get(call.server, frozenset())
            if call.profile is Profile.LEGACY:
                extensions -= {TASKS}
            served["capabilities"] = approved_only(served["capabilities"], extensions)
        if "instructions" in served:
            if known.get("instructions") is None:
                del served["instructions"]
            else:
                served["instructions"] = known["instructions"]
        return message.data if served == message.result else with_member(message, "result", served)

    def framed(self, call: Call, said: ServerMessage, member: str = "") -> Mapping[str, Any]:
        """Return a result that nobody judges without what the protocol has no place for, named as a greeting is."""
        bare = bare_result(said.result or {}, member, said.id)
        return renamed(bare, _identity(call, self._approved(call)))

    def _approved(self, call: Call) -> Mapping[str, Any]:
        """Return what a person approved of what the server says of itself; nothing, if that is not served."""
        target = Target(server=call.server, kind=Kind.SERVER, name=call.server)
        pin = self._pins.find(target, call.profile)
        if pin is None or pin.approved is None or not self._lists.is_served(pin):
            return {}
        return pin.approved.definition.content


def _identity(call: Call, known: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"name": call.server, **known.get("serverInfo", {})}
