"""What a principal is offered in front of all servers: approved definitions that policy lets them see."""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

from gateway.builtin.inventory import Inventory, Shown, is_served, offer_id
from gateway.builtin.names import public_name, public_uri, resource_of, target_of
from gateway.domain._value import value
from gateway.domain.bounded import Bounded, remembered
from gateway.domain.calls import Call
from gateway.domain.document import Document
from gateway.domain.identity import Principal
from gateway.domain.tools import Kind, Manifest, Pin, Profile, Target, UpstreamId
from gateway.errors import BadCommand
from gateway.pins.names import folded
from gateway.pins.portable import shown_to
from gateway.ports import PinStore
from gateway.turns import Pace
from gateway.wire import jsontext
from gateway.wire.eras import definition_for
from gateway.wire.extensions import without_tasks

Alarm: TypeAlias = Callable[[Sequence[str]], None]
"""Takes note of names that look alike, once for each way they look."""

MOST_WHOLE: Final = 1024**2
"""Characters of whole definitions in one answer. One of them has some hundreds or thousands."""
_MOST_TOLD: Final = 1_000
"""Lookalikes that the operator is told of."""
_MOST_TEXTS: Final = 20_000
"""Definitions that are kept as they are listed."""
_OCTETS: Final = 32 * 1024**2
_PLACE: Final = 16
"""Bytes of a place in a list; what stands there is kept once for all lists."""
_MOST_LISTS: Final = 64
"""Lists of principals that are kept; what a list needs that is not, takes milliseconds."""


class Sight(Protocol):
    """Who may know of what."""

    def standing(self, call: Call, principal: Principal) -> Hashable:
        """Return what answers depend on beside the pins: equal ones get equal answers."""
        ...

    async def of(
        self, call: Call, principal: Principal, pins: Sequence[tuple[Target, Pin]]
    ) -> list[bool]:
        """Say for each target, in order, whether `principal` may know of it.

        Raises:
            PolicyUnavailable: There was no usable answer.

        """
        ...


@value
class Offer:
    """One approved definition, as it is listed."""

    id: str
    """What it is called among all definitions."""
    target: Target
    profile: Profile
    """The family of revisions in which its server shows it so."""
    definition: Document
    """As it was approved."""
    name: str
    """What it is called here."""
    text: str
    """The definition as JSON: under its name here, and as hosts can take it."""
    looks: str
    """What is left of the name when what people overlook is left out."""


def require_room(offers: Sequence[Offer]) -> None:
    """Return if the whole definitions of `offers` are few or short enough for one answer.

    Raises:
        BadCommand: They are not.

    """
    if len(offers) > 1 and sum(len(offer.text) for offer in offers) > MOST_WHOLE:
        raise BadCommand(
            f"whole definitions have at most {MOST_WHOLE // 1024} KiB together; ask for fewer at once"
        )


class Offers:
    """No server is asked for a list: what is pinned is what is offered.

    Of a server of both families of revisions a client gets what it shows to clients of its own.
    """

    def __init__(
        self,
        *,
        pins: PinStore,
        identities: Mapping[UpstreamId, str],
        sight: Sight,
        spoken: Callable[[UpstreamId], Collection[Profile]],
        alarm: Alarm,
        portable: Mapping[UpstreamId, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        """`spoken` says which families a server was last heard to speak; none, if it was not heard.

        `alarm` is told of names that look alike. `portable` names the hosts by which the schemas of
        a server's tools are to be taken.
        """
        self._pins = pins
        self._identities = identities
        self._sight = sight
        self._spoken = spoken
        self._alarm = alarm
        self._portable = portable
        self._told: set[str] = set()
        self._all: tuple[int, Sequence[Pin]] | None = None
        self._sorted: tuple[int, Inventory] | None = None
        self._shown = Shown()
        self._lists: Bounded[Hashable, Sequence[Offer]] = Bounded(most=_MOST_LISTS, octets=_OCTETS)
        """What callers of some standing are offered, while the pins stay as they are."""

    @property
    def servers(self) -> Collection[UpstreamId]:
        return self._identities.keys()

    def era(self, server: UpstreamId, client: Profile) -> Profile:
        """Return in which family `server` is spoken to for a client: its own, or the only other."""
        spoken = self._spoken(server) or self._shown.families(server, self._pinned())
        if client in spoken or not spoken:
            return client
        return next(iter(spoken))

    def find(self, kind: Kind, name: str) -> Target | None:
        """Return the tool or prompt that `name` names here, or nothing; it need not exist."""
        return target_of(name, kind, self.servers, self._known(name))

    def knows(self, name: str) -> bool:
        """Whether a server has shown a tool of this name, be it approved or not."""
        target = self.find(Kind.TOOL, name)
        return target is not None and any(self._pins.find(target, each) for each in Profile)

    def _known(self, name: str) -> Iterator[Target]:
        # Not before somebody asks: most names say by themselves what they name.
        yield from self._shown.named(name, self._pinned())

    def find_resource(self, uri: str) -> Target | None:
        """Return the resource that `uri` names here, or nothing; it need not exist."""
        return resource_of(uri, self.servers)

    def definition(self, target: Target, profile: Profile) -> Document | None:
        """Return the approved definition of `target`, if it has one."""
        pin = self._pins.find(target, profile)
        return None if pin is None or pin.approved is None else pin.approved.definition

    def itself(self, server: UpstreamId, client: Profile) -> Document | None:
        """Return what was approved of `server` itself, if that is in force."""
        pin = self._own_pin(server, client)
        if pin is None or pin.approved is None or not is_served(pin, self._identities):
            return None
        return pin.approved.definition

    def with_resources(self, client: Profile) -> list[tuple[UpstreamId, Profile]]:
        """Return the servers that were approved as ones that have resources, in order."""
        found = []
        for server in sorted(self.servers):
            itself = self.itself(server, client)
            capabilities = {} if itself is None else itself.content.get("capabilities")
            if isinstance(capabilities, dict) and "resources" in capabilities:
                found.append((server, self.era(server, client)))
        return found

    async def readable(self, call: Call, principal: Principal) -> set[UpstreamId]:
        """Return the servers with resources of which `principal` may know, whichever those are.

        Raises:
            PolicyUnavailable: There was no usable answer.

        """
        asked = []
        for server, _ in self.with_resources(call.profile):
            pin = self._own_pin(server, call.profile)
            if pin is not None:
                asked.append((Target(server=server, kind=Kind.RESOURCE, name=""), pin))
        visible = await self._sight.of(call, principal, asked)
        return {target.server for (target, _), yes in zip(asked, visible, strict=True) if yes}

    def _own_pin(self, server: UpstreamId, client: Profile) -> Pin | None:
        target = Target(server=server, kind=Kind.SERVER, name=server)
        return self._pins.find(target, self.era(server, client))

    def approved_tools(self) -> Mapping[str, tuple[Manifest, str]]:
        """Return every definition of a tool that is approved and in force, by its offer's id.

        Beside each stands what was approved of what its server says of itself. It is the same
        mapping for as long as the pins stay as they are.
        """
        return self._inventory().tools

    async def of(self, call: Call, principal: Principal, kind: Kind) -> Sequence[Offer]:
        """Return what `principal` is offered of `kind`, in the order of servers and names.

        What two targets would share a name for is not offered: nobody could say which was meant.

        Raises:
            PolicyUnavailable: There was no usable answer.

        """
        inventory = self._inventory()
        eras = {server: self.era(server, call.profile) for server in self.servers}
        standing = self._sight.standing(call, principal)
        key = (standing, kind, call.profile, tuple(eras.values()))
        kept = self._lists.get(key)
        if kept is not None:
            return kept
        served = [
            (pin.target, pin)
            for pin in inventory.served[kind]
            if eras[pin.target.server] is pin.profile
        ]
        visible = await self._sight.of(call, principal, served)
        seen = [pin for (_, pin), yes in zip(served, visible, strict=True) if yes]
        found = await self._named_alone(seen, call.profile)
        # While policy was asked and all was worded, it or the pins may have become others.
        if self._inventory() is inventory and self._sight.standing(call, principal) == standing:
            self._lists.put(key, found, _PLACE * len(found))
        return found

    def _pinned(self) -> Sequence[Pin]:
        """Return all pins as they are now."""
        version = self._pins.version
        if self._all is None or self._all[0] != version:
            self._all = version, self._pins.all()
        return self._all[1]

    def _inventory(self) -> Inventory:
        """Return what is approved of the pins as they are now, sorted out."""
        version = self._pins.version
        if self._sorted is None or self._sorted[0] != version:
            before = self._sorted[1] if self._sorted else None
            found = Inventory.of(self._pinned(), self._identities, before)
            if found is not before:
                self._lists.clear()
            self._sorted = version, found
        return self._sorted[1]

    async def _named_alone(self, seen: Sequence[Pin], client: Profile) -> Sequence[Offer]:
        """Return what is offered of `seen`: whatever has a name to itself."""
        offers: dict[str, list[Offer]] = {}
        pace = Pace()
        for pin in seen:
            if pin.approved is None:
                continue
            if pace.is_due:
                await pace.turn()
            pace.hand(len(pin.approved.definition.text))
            if _is_for_all(pin.target, pin.approved.definition):
                hosts = tuple(self._portable.get(pin.target.server, ()))
                offer = _offer(pin.target, pin.approved.definition, client, pin.profile, hosts)
                offers.setdefault(offer.name, []).append(offer)
        self._warn_of_lookalikes(offers)
        return tuple(found[0] for found in offers.values() if len(found) == 1)

    def _warn_of_lookalikes(self, offers: Mapping[str, Sequence[Offer]]) -> None:
        """Tell the operator once of names that a person or a model may take for each other.

        Of one server's no two are alike; of two servers' each was approved under its own, and which
        one would be the imitation nobody can say here.
        """
        alike: dict[str, list[str]] = {}
        for found in offers.values():
            for offer in found:
                alike.setdefault(offer.looks, []).append(offer.name)
        for looks, names in alike.items():
            if len(names) > 1 and looks not in self._told and len(self._told) < _MOST_TOLD:
                self._told.add(looks)
                self._alarm(names)


def _is_for_all(target: Target, definition: Document) -> bool:
    """Whether it can be called without asking for a task, which nobody can (2025-11-25, tasks)."""
    return target.kind is not Kind.TOOL or without_tasks(definition.content) is not None


def _by_digests(
    target: Target,
    definition: Document,
    client: Profile,
    upstream: Profile,
    hosts: tuple[str, ...],
) -> Hashable:
    return target, definition.digest, client, upstream, hosts


def _weight(offer: Offer) -> int:
    return len(offer.text) + len(offer.definition.text)


@remembered(most=_MOST_TEXTS, octets=_OCTETS, key=_by_digests, weigh=_weight)
def _offer(
    target: Target,
    definition: Document,
    client: Profile,
    upstream: Profile,
    hosts: tuple[str, ...],
) -> Offer:
    content: Mapping[str, Any] = definition.content
    if target.kind is Kind.TEMPLATE:
        name, member = public_uri(target.server, target.name), "uriTemplate"
    else:
        name, member = public_name(target), "name"
    if target.kind is Kind.TOOL:
        content = shown_to(definition, hosts)
        content = definition_for(client, without_tasks(content) or content, upstream)
    text = jsontext.write({**content, member: name})
    return Offer(
        id=offer_id(target, upstream),
        target=target,
        profile=upstream,
        definition=definition,
        name=name,
        text=text,
        looks=folded(name),
    )
