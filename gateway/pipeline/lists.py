"""What a list shows: the approved definitions that this principal may know of."""

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.domain._value import value
from gateway.domain.calls import Permit
from gateway.domain.tools import Kind, Pin, PinStatus, Target
from gateway.pipeline.keeper import PinKeeper
from gateway.pipeline.visibility import Visibility
from gateway.ports import PinStore
from gateway.wire.greeting import server_item


@value
class Shown:
    """The items to serve, in the upstream's order, and how many there were."""

    items: tuple[Mapping[str, Any], ...]
    offered: int


class ListFilter:
    def __init__(self, *, keeper: PinKeeper, pins: PinStore, visibility: Visibility) -> None:
        self._keeper = keeper
        self._pins = pins
        self._visibility = visibility

    async def show(self, permit: Permit, kind: Kind, items: Sequence[Any]) -> Shown:
        """Return what is served of a list that the upstream has just sent.

        What it sent is compared with the pins first, durably; then the approved definitions are
        served in its place, and only what policy lets the principal know of.

        Raises:
            PolicyUnavailable: There was no usable answer.
            AuditUnavailable: A change could not be recorded.

        """
        call = permit.call
        if kind is Kind.RESOURCE:
            return await self._resources(permit, items)
        targets = await self._keeper.compare(call.server, call.profile, kind, items)
        found = [(target, self._pins.find(target, call.profile)) for target in targets]
        usable = [(t, pin) for t, pin in found if pin is not None and _is_served(pin)]
        visible = await self._visibility.of(call, permit.principal, usable)
        shown = [
            pin.approved.definition.content
            for (_, pin), seen in zip(usable, visible, strict=True)
            if seen and pin.approved is not None
        ]
        return Shown(items=tuple(shown), offered=len(items))

    async def meet(self, permit: Permit, greeting: Mapping[str, Any]) -> None:
        """Compare what a server has just said of itself with its pin.

        For those that no crawler sees: they show themselves to connected people alone.

        Raises:
            AuditUnavailable: A change could not be recorded.

        """
        call = permit.call
        itself, version = server_item(call.profile, greeting)
        await self._keeper.compare(call.server, call.profile, Kind.SERVER, [itself], version)

    async def _resources(self, permit: Permit, items: Sequence[Any]) -> Shown:
        """Show single resources as they are; the server's own pin stands for each of them."""
        call = permit.call
        server = Target(server=call.server, kind=Kind.SERVER, name=call.server)
        pin = self._pins.find(server, call.profile)
        if pin is None or not _is_served(pin):
            return Shown(items=(), offered=len(items))
        named = [i for i in items if isinstance(i, dict) and isinstance(i.get("uri"), str)]
        asked = [
            (Target(server=call.server, kind=Kind.RESOURCE, name=item["uri"]), pin)
            for item in named
        ]
        visible = await self._visibility.of(call, permit.principal, asked)
        shown = [item for item, seen in zip(named, visible, strict=True) if seen]
        return Shown(items=tuple(shown), offered=len(items))


def _is_served(pin: Pin) -> bool:
    return pin.status is PinStatus.APPROVED and pin.approved is not None
