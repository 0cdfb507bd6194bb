"""What a plane can be told yes to: nothing that it cannot do as the gateway itself would."""

from typing import Final

from gateway.domain.calls import Permit
from gateway.domain.decisions import Duty
from gateway.domain.planes import Plane
from gateway.domain.tools import Kind, PinStatus
from gateway.pipeline.plane_answers import cannot, replaces, unmet
from gateway.pipeline.visibility import Visibility
from gateway.ports import Catalogs, PinStore
from gateway.wire.operations import Sender, find

_REWRITES: Final = frozenset(
    {Duty.REDACT, Duty.MASK, Duty.TOKENIZE, Duty.DROP, Duty.TRUNCATE, Duty.DROP_STRUCTURED}
)
"""Duties that change a result, which a plane cannot meet before it has one."""
_GREETINGS: Final = frozenset({"initialize", "server/discover"})


class PlaneLimits:
    def __init__(self, *, visibility: Visibility, pins: PinStore, catalogs: Catalogs) -> None:
        self._visibility = visibility
        self._pins = pins
        self._catalogs = catalogs

    async def require_possible(self, plane: Plane, permit: Permit) -> None:
        """Return if a plane can do what a yes would mean: all that the gateway itself would do.

        Raises:
            Denied: It cannot.

        """
        if permit.call.restored:
            raise cannot("tokens_stand_for_values", "only the gateway puts values in their place")
        owed = {one.duty for one in permit.decision.obligations} & _REWRITES
        if owed and not replaces(plane):
            raise unmet(sorted(owed))
        if permit.access is None and not plane.gives_ours:
            await self._require_whole(permit)

    async def _require_whole(self, permit: Permit) -> None:
        """Return if what comes back may be shown as it is: such a plane leaves nothing out of a list.

        Of resources nobody has approved each, so their lists never may.

        Raises:
            Denied: Something in it was not approved, or is not for this principal.
            GatewayError: What the server shows cannot be read now.

        """
        call = permit.call
        row = find(Sender.CLIENT, call.message.method)
        kind = None if row is None else row.lists
        if call.message.method in _GREETINGS:
            kind = Kind.SERVER
        if kind is None:
            return
        await self._catalogs.refresh(call.server, call.profile, kind, permit.principal)
        pins = [
            pin
            for pin in self._pins.all(call.server)
            if pin.target.kind is kind and pin.profile is call.profile
        ]
        shown = all(pin.status is PinStatus.APPROVED for pin in pins)
        if kind is Kind.SERVER:
            shown = shown and bool(pins)
        elif shown:
            asked = [(pin.target, pin) for pin in pins]
            shown = all(await self._visibility.of(call, permit.principal, asked))
        if not shown or kind is Kind.RESOURCE:
            raise cannot("list_not_whole", "it has what is not for this principal; search instead")
