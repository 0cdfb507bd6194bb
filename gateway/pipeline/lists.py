"""What a list shows: the approved definitions that this principal may know of."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from gateway.dlp.masking import DUTIES, Masker
from gateway.domain._value import value
from gateway.domain.calls import Call, Permit
from gateway.domain.decisions import Decision, Duty, Obligation
from gateway.domain.icons import icons_are_safe
from gateway.domain.nodes import amount
from gateway.domain.tools import Kind, Pin, PinStatus, Profile, Target, UpstreamId
from gateway.domain.vocabulary import confusing
from gateway.errors import PinDrift, PinPending, UnknownTool
from gateway.pins.portable import shown_to
from gateway.pins.ui import interface_item, named_interfaces
from gateway.pins.verify import verify
from gateway.pipeline.filter import meet
from gateway.pipeline.keeper import PinKeeper
from gateway.pipeline.sensitive import MASKING
from gateway.pipeline.visibility import Visibility
from gateway.ports import PinStore
from gateway.turns import QUICK_NODES, finished, in_steps
from gateway.wire.extensions import without_tasks
from gateway.wire.greeting import server_item

MaskerFor: TypeAlias = Callable[[Iterable[Obligation]], Masker | None]
_Told: TypeAlias = tuple[list[Obligation], Any]
_CHANGES: Final = frozenset({Duty.REDACT, *DUTIES})


@value
class Shown:
    """The items to serve, in the upstream's order, and how many there were."""

    items: tuple[Mapping[str, Any], ...]
    offered: int


class ListFilter:
    def __init__(
        self,
        *,
        keeper: PinKeeper,
        pins: PinStore,
        visibility: Visibility,
        identities: Mapping[UpstreamId, str],
        portable: Mapping[UpstreamId, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        """`identities` say of each server where it is: nothing else's definitions are shown.

        `portable` names the hosts by which the schemas of a server's tools are to be taken.
        """
        self._keeper = keeper
        self._pins = pins
        self._visibility = visibility
        self._identities = identities
        self._portable = portable

    async def show(
        self, permit: Permit, kind: Kind, items: Sequence[Any], masker_for: MaskerFor
    ) -> Shown:
        """Return what is served of a list that the upstream has just sent.

        What it sent is compared with the pins first, durably; then the approved definitions are
        served in its place, and only what policy lets the principal know of. What masks where nobody
        approved anything is of `masker_for`.

        Raises:
            Denied: Policy wants something masked of a class that there is not.
            PolicyUnavailable: There was no usable answer.
            AuditUnavailable: A change could not be recorded.

        """
        call = permit.call
        if kind is Kind.RESOURCE:
            return await self._resources(permit, items, masker_for)
        compared = await self._keeper.compare(call.server, call.profile, kind, items)
        usable = [
            (one.target, pin)
            async for some in in_steps(compared)
            for one in some
            if (pin := self._pins.find(one.target, call.profile)) and self.is_served(pin)
        ]
        visible = await self._visibility.of(call, permit.principal, usable)
        hosts = self._portable.get(call.server, ()) if kind is Kind.TOOL else ()
        shown: list[Mapping[str, Any]] = [
            shown_to(pin.approved.definition, hosts)
            for (_, pin), seen in zip(usable, visible, strict=True)
            if seen and pin.approved is not None
        ]
        if kind is Kind.TOOL and call.profile is Profile.LEGACY:
            shown = [one for one in map(without_tasks, shown) if one is not None]
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

    async def require_interface(self, permit: Permit, uri: str, result: Mapping[str, Any]) -> None:
        """Return if what was read of the `ui://` resource `uri` is what a person approved.

        The first time it is seen it is filed, to be approved, if a pinned tool names it.

        Raises:
            PinMismatch: It is not, or not any more.
            UnknownTool: No tool names it.
            AuditUnavailable: A change could not be recorded.

        """
        call = permit.call
        target = Target(server=call.server, kind=Kind.RESOURCE, name=uri)
        if self._pins.find(target, call.profile) is None and uri not in self._named(call):
            raise UnknownTool("no tool names this interface", detail=str(target))
        item = interface_item(uri, result)
        compared = await self._keeper.compare(call.server, call.profile, Kind.RESOURCE, [item])
        if not compared:
            raise PinPending("this interface cannot be pinned", detail=str(target))
        pin = self._pins.find(target, call.profile)
        pinned = verify(target, pin, identity=self._identities[call.server])
        # What is in force need not be what was read: there is no approved text to give out in its place.
        if not pinned.manifest.is_same(compared[0]):
            raise PinDrift("this interface is another one than was approved", detail=str(target))

    def _named(self, call: Call) -> list[str]:
        return named_interfaces(
            pin.observed.definition.content
            for pin in self._pins.all(call.server)
            if pin.target.kind is Kind.TOOL and pin.profile is call.profile
        )

    async def _resources(
        self, permit: Permit, items: Sequence[Any], masker_for: MaskerFor
    ) -> Shown:
        """Show single resources as they are; the server's own pin stands for each of them."""
        call = permit.call
        server = Target(server=call.server, kind=Kind.SERVER, name=call.server)
        pin = self._pins.find(server, call.profile)
        if pin is None or not self.is_served(pin):
            return Shown(items=(), offered=len(items))
        who = permit.principal.person
        named = [
            item
            async for some in in_steps(items)
            for item in await finished(who, amount(some, QUICK_NODES), _named, some)
        ]
        asked = [
            (Target(server=call.server, kind=Kind.RESOURCE, name=item["uri"]), pin)
            for item in named
        ]
        visible = await self._visibility.of(call, permit.principal, asked)
        # Nobody has approved what is said of them: duties are met on it, as on a result.
        told = await self._visibility.asked(call, permit.principal, asked)
        duties = [
            (_changing(decision), item)
            for item, seen, (decision, _) in zip(named, visible, told, strict=True)
            if seen
        ]
        shown = [
            item
            async for some in in_steps(duties)
            for item in await finished(who, _work(some), _met, masker_for, some)
        ]
        return Shown(items=tuple(shown), offered=len(items))

    def is_served(self, pin: Pin) -> bool:
        """Whether what `pin` approved may be served: it is in force, and is this server's."""
        identity = self._identities[pin.target.server]
        approved = pin.approved if pin.status is PinStatus.APPROVED else None
        return approved is not None and approved.identity == identity


def _named(items: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the resources among `items` that have a URI, and no member that could be taken for one.

    Nor an icon that no client may load: a definition with such a one is not pinned.
    """
    return [
        item
        for item in items
        if isinstance(item, dict) and isinstance(item.get("uri"), str)
        if confusing(item, "resource") is None and icons_are_safe(item)
    ]


def _changing(decision: Decision) -> list[Obligation]:
    """Return what `decision` wants changed in what is listed of a resource."""
    return [duty for duty in decision.obligations if duty.duty in _CHANGES]


def _work(told: Sequence[_Told]) -> int:
    if any(one.duty in DUTIES for duties, _ in told for one in duties):
        return MASKING
    return amount([item for duties, item in told if duties], QUICK_NODES)


def _met(masker_for: MaskerFor, told: Sequence[_Told]) -> list[Mapping[str, Any]]:
    return [
        meet(duties, item, masker=masker_for(duties)) if duties else item for duties, item in told
    ]
