"""What a plane can be told yes to: nothing that it cannot do as the gateway itself would."""

from collections.abc import Mapping, Sequence
from typing import Final

from gateway.domain._value import value
from gateway.domain.calls import AccessRequest, Call, Permit
from gateway.domain.decisions import Duty
from gateway.domain.identity import Principal
from gateway.domain.planes import Plane, Reports
from gateway.domain.tools import Kind, UpstreamId
from gateway.errors import PinDrift
from gateway.pins.ui import is_ui
from gateway.pins.verify import shows_approved, verify
from gateway.pipeline.plane_answers import cannot, replaces, unmet
from gateway.pipeline.visibility import Visibility
from gateway.ports import Catalogs, PinStore
from gateway.wire.operations import Sender, find

_REWRITES: Final = frozenset(
    {Duty.REDACT, Duty.MASK, Duty.TOKENIZE, Duty.DROP, Duty.TRUNCATE, Duty.DROP_STRUCTURED}
)
"""Duties that change a result, which a plane cannot meet before it has one."""
_GREETINGS: Final = frozenset({"initialize", "server/discover"})


@value
class Listed:
    """What of a list may be shown as its server shows it."""

    names: Sequence[str]
    """In their order."""
    known: int
    """How many definitions of its kind there are."""
    is_whole: bool
    """Whether that is all of it."""


class PlaneLimits:
    def __init__(
        self,
        *,
        visibility: Visibility,
        pins: PinStore,
        catalogs: Catalogs,
        identities: Mapping[UpstreamId, str],
    ) -> None:
        """`identities` say of each server where it is: nothing else's definitions are shown."""
        self._visibility = visibility
        self._pins = pins
        self._catalogs = catalogs
        self._identities = identities

    async def require_possible(self, plane: Plane, permit: Permit) -> None:
        """Return if a plane can do what a yes would mean: all that the gateway itself would do.

        Raises:
            Denied: It cannot.
            PinMismatch: What it would read is not what was approved, and nobody would see it here.
            GatewayError: What the server shows cannot be read now.

        """
        if permit.call.restored:
            raise cannot("tokens_stand_for_values", "only the gateway puts values in their place")
        owed = {one.duty for one in permit.decision.obligations} & _REWRITES
        if owed and not replaces(plane):
            raise unmet(sorted(owed))
        if permit.access is not None and plane.reports is Reports.NONE:
            await self._require_interface(permit, permit.access)
        if permit.access is None and not plane.gives_ours:
            await self._require_whole(permit)

    async def listed(self, call: Call, kind: Kind, principal: Principal) -> Listed:
        """Return what of a list is as it was approved, and may be known of by this principal.

        What the gateway itself would give out in its place, a plane has not.

        Raises:
            GatewayError: What the server shows cannot be read now.

        """
        server = call.server
        apart = await self._catalogs.refresh(server, call.profile, kind, principal)
        pins = [
            pin
            for pin in self._pins.all(server)
            if pin.target.kind is kind and pin.profile is call.profile
        ]
        fit = [
            (pin.target, pin)
            for pin in pins
            if pin.target.name not in apart
            and shows_approved(pin, identity=self._identities[server])
        ]
        if kind is not Kind.SERVER:
            seen = await self._visibility.of(call, principal, fit)
            fit = [one for one, is_seen in zip(fit, seen, strict=True) if is_seen]
        names = sorted(target.name for target, _ in fit)
        return Listed(names=names, known=len(pins), is_whole=not apart and len(names) == len(pins))

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
        if kind is not Kind.RESOURCE:
            listed = await self.listed(call, kind, permit.principal)
            if listed.is_whole and (listed.names or kind is not Kind.SERVER):
                return
        raise cannot("list_not_whole", "it has what is not for this principal; search instead")

    async def _require_interface(self, permit: Permit, access: AccessRequest) -> None:
        """Return unless an interface is to be read that is not, or not any more, what was approved.

        Raises:
            UnknownTool, PinMismatch: It is not.
            GatewayError: What the server shows cannot be read now.

        """
        call, target = permit.call, access.target
        if target.kind is not Kind.RESOURCE or not is_ui(target.name):
            return
        apart = await self._catalogs.refresh(
            call.server, call.profile, Kind.RESOURCE, permit.principal
        )
        identity = self._identities[call.server]
        pin = self._pins.find(target, call.profile)
        verify(target, pin, identity=identity)
        if apart or pin is None or not shows_approved(pin, identity=identity):
            raise PinDrift("this interface is another one than was approved", detail=str(target))
