"""What a principal is offered in front of all servers: approved definitions that policy lets them see."""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

from gateway.builtin.names import public_name, public_uri, resource_of, target_of
from gateway.domain._value import value
from gateway.domain.calls import Call
from gateway.domain.document import Document
from gateway.domain.identity import Principal
from gateway.domain.tools import Kind, Manifest, Pin, Profile, Target, UpstreamId
from gateway.errors import GatewayError
from gateway.pins.names import folded
from gateway.pins.verify import verify
from gateway.ports import PinStore
from gateway.wire import jsontext
from gateway.wire.eras import definition_for

logger = logging.getLogger(__name__)

_MOST_TOLD: Final = 1_000
"""Lookalikes that the operator is told of."""
_MOST_TEXTS: Final = 20_000
"""Definitions that are kept as they are listed."""


class Sight(Protocol):
    """Who may know of what."""

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

    target: Target
    profile: Profile
    """The family of revisions in which its server shows it so."""
    definition: Document
    """As it was approved."""
    name: str
    """What it is called here."""
    text: str
    """The definition as JSON, with nothing but its name changed."""
    looks: str
    """What is left of the name when what people overlook is left out."""


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
    ) -> None:
        """`spoken` says which families a server was last heard to speak; none, if it was not heard."""
        self._pins = pins
        self._identities = identities
        self._sight = sight
        self._spoken = spoken
        self._told: set[str] = set()

    @property
    def servers(self) -> Collection[UpstreamId]:
        return self._identities.keys()

    def era(self, server: UpstreamId, client: Profile) -> Profile:
        """Return in which family `server` is spoken to for a client: its own, or the only other."""
        spoken = self._spoken(server) or {pin.profile for pin in self._pins.all(server)}
        if client in spoken or not spoken:
            return client
        return next(iter(spoken))

    def find(self, kind: Kind, name: str) -> Target | None:
        """Return the tool or prompt that `name` names here, or nothing; it need not exist."""
        return target_of(name, kind, self.servers, self._known())

    def _known(self) -> Iterator[Target]:
        # Not before somebody asks: most names say by themselves what they name.
        for pin in self._pins.all():
            yield pin.target

    def find_resource(self, uri: str) -> Target | None:
        """Return the resource that `uri` names here, or nothing; it need not exist."""
        return resource_of(uri, self.servers)

    def definition(self, target: Target, profile: Profile) -> Document | None:
        """Return the approved definition of `target`, if it has one."""
        pin = self._pins.find(target, profile)
        return None if pin is None or pin.approved is None else pin.approved.definition

    def with_resources(self, client: Profile) -> list[tuple[UpstreamId, Profile]]:
        """Return the servers that were approved as ones that have resources, in order."""
        found = []
        for server in sorted(self.servers):
            era = self.era(server, client)
            pin = self._pins.find(Target(server=server, kind=Kind.SERVER, name=server), era)
            if pin is not None and pin.approved is not None and self._is_served(pin):
                capabilities = pin.approved.definition.content.get("capabilities")
                if isinstance(capabilities, dict) and "resources" in capabilities:
                    found.append((server, era))
        return found

    def approved_tools(self) -> dict[str, Manifest]:
        """Return every definition of a tool that is approved and in force, by its offer's id."""
        return {
            offer_id(pin.target, pin.profile): pin.approved
            for pin in self._pins.all()
            if pin.target.kind is Kind.TOOL and pin.approved is not None
            if pin.target.server in self._identities and self._is_served(pin)
        }

    async def of(self, call: Call, principal: Principal, kind: Kind) -> list[Offer]:
        """Return what `principal` is offered of `kind`, in the order of servers and names.

        What two targets would share a name for is not offered: nobody could say which was meant.

        Raises:
            PolicyUnavailable: There was no usable answer.

        """
        eras = {server: self.era(server, call.profile) for server in self.servers}
        served = [
            (pin.target, pin)
            for pin in self._pins.all()
            if pin.target.kind is kind
            and eras.get(pin.target.server) is pin.profile
            and self._is_served(pin)
        ]
        visible = await self._sight.of(call, principal, served)
        seen = [pin for (_, pin), yes in zip(served, visible, strict=True) if yes]
        seen.sort(key=lambda pin: (pin.target.server, pin.target.name))
        offers: dict[str, list[Offer]] = {}
        for pin in seen:
            if pin.approved is not None:
                offer = _offer(pin.target, pin.approved.definition, call.profile, pin.profile)
                offers.setdefault(offer.name, []).append(offer)
        self._warn_of_lookalikes(offers)
        return [found[0] for found in offers.values() if len(found) == 1]

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
                logger.warning("these names look alike at /mcp: %s", ", ".join(names))

    def _is_served(self, pin: Pin) -> bool:
        """Whether what `pin` approved is in force, and is of the server that has its name now."""
        try:
            verify(pin.target, pin, identity=self._identities[pin.target.server])
        except GatewayError:
            return False
        return True


def offer_id(target: Target, profile: Profile) -> str:
    """Return what a definition is called among all: a tool may have one in each family."""
    return f"{target}@{profile}"


@lru_cache(maxsize=_MOST_TEXTS)
def _offer(target: Target, definition: Document, client: Profile, upstream: Profile) -> Offer:
    content: Mapping[str, Any] = definition.content
    if target.kind is Kind.TEMPLATE:
        name, member = public_uri(target.server, target.name), "uriTemplate"
    else:
        name, member = public_name(target), "name"
    if target.kind is Kind.TOOL:
        content = definition_for(client, content, upstream)
    text = jsontext.write({**content, member: name})
    return Offer(
        target=target,
        profile=upstream,
        definition=definition,
        name=name,
        text=text,
        looks=folded(name),
    )
