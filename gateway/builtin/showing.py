"""What a principal is shown in front of all servers, as text that is another one when that changes."""

from collections.abc import Sequence

from gateway.builtin.descriptions import Descriptions
from gateway.builtin.offers import Offers, Sight
from gateway.builtin.shelf import Shelf
from gateway.domain.calls import Permit
from gateway.domain.tools import Kind, Target, UpstreamId
from gateway.ports import PinStore


class Showing:
    """Asks no server, and nothing of it depends on what has been called."""

    def __init__(
        self,
        *,
        offers: Offers,
        shelf: Shelf,
        descriptions: Descriptions,
        pins: PinStore,
        sight: Sight,
    ) -> None:
        self._offers = offers
        self._shelf = shelf
        self._descriptions = descriptions
        self._pins = pins
        self._sight = sight

    async def of(self, permit: Permit, kind: Kind) -> Sequence[str]:
        """Return what is listed of `kind` to the caller of `permit`.

        Of resources these are the templates, and which servers are asked for theirs.

        Raises:
            PolicyUnavailable: There was no usable answer.

        """
        listed = Kind.TEMPLATE if kind is Kind.RESOURCE else kind
        offers = await self._offers.of(permit.call, permit.principal, listed)
        if kind is Kind.TOOL:
            offers = await self._descriptions.worded(permit, offers)
            return [text for _, text in self._shelf.items(permit, offers)]
        texts = [offer.text for offer in offers]
        return texts if kind is not Kind.RESOURCE else [*texts, *self._servers(permit)]

    async def sees(self, permit: Permit, server: UpstreamId, uri: str) -> bool:
        """Whether the caller of `permit` may know of the resource `uri` of `server`.

        Raises:
            PolicyUnavailable: There was no usable answer.

        """
        if server not in self._servers(permit):
            return False
        era = self._offers.era(server, permit.call.profile)
        pin = self._pins.find(Target(server=server, kind=Kind.SERVER, name=server), era)
        if pin is None:
            return False
        target = Target(server=server, kind=Kind.RESOURCE, name=uri)
        (seen,) = await self._sight.of(permit.call, permit.principal, [(target, pin)])
        return seen

    def _servers(self, permit: Permit) -> Sequence[UpstreamId]:
        shows = permit.principal.servers.shows
        return [s for s, _ in self._offers.with_resources(permit.call.profile) if shows(s)]
