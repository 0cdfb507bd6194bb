"""What `tools/list` shows of all that is offered: which tools, and how much of each."""

import logging
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

from gateway.builtin.cursors import place_of
from gateway.builtin.offers import Offer
from gateway.domain._value import value
from gateway.domain.calls import Permit
from gateway.domain.identity import Principal
from gateway.domain.tokens import most_tokens_of

logger = logging.getLogger(__name__)

T = TypeVar("T")

Item: TypeAlias = tuple[str, str]
"""The name of what is listed, and its definition as JSON."""

_PERCENT: Final = 100


class Defer(StrEnum):
    """Whether a list holds the core alone."""

    OFF = "off"
    AUTO = "auto"
    """If all of it would cost too much."""
    ON = "on"


@value
class ClientShelving:
    """What is different for one client; `None` is not."""

    defer: Defer | None = None
    window: int | None = None


@value
class Shelving:
    """What is deferred, and for whom."""

    defer: Defer
    window: int
    """Tokens that a host's model reads at once."""
    share: float
    """Percent of the window that a whole list may cost before it is deferred."""
    core: tuple[str, ...] = ()
    """Public names of the tools that are listed always, in their order."""
    clients: Mapping[str, ClientShelving]
    """By a client's id, or its name."""


def of_client(clients: Mapping[str, T], principal: Principal) -> T | None:
    """Return what is said of the principal's client, by its id or else its name.

    A client may have named itself, so it is asked for what it is shown and never for what it may.
    """
    return clients.get(principal.client_id, clients.get(principal.client_name))


class Shelf:
    """Lists the core first, in the order of the configuration, and then the rest or nothing.

    What is decided follows from what the principal is offered and from nothing else: no call moves it,
    every process decides alike, and a whole list begins with the deferred one.
    """

    def __init__(self, shelving: Shelving, *, known: Callable[[str], bool]) -> None:
        """`known` says whether a tool of this name has been seen: of others the operator is told."""
        self._shelving = shelving
        self._core = tuple(dict.fromkeys(shelving.core))
        self._known = known
        self._looked_for: set[str] = set()

    def items(self, permit: Permit, offers: Sequence[Offer]) -> Sequence[Item]:
        """Return what the caller of `permit` is shown of `offers`: the core, then the others."""
        rest = {offer.name: offer for offer in offers}
        found = [rest.pop(name) for name in self._core if name in rest]
        if len(found) < len(self._core):
            self._tell_unknown({offer.name for offer in found})
        defer, _ = self._settings(permit.principal)
        listed = found if defer is Defer.ON else [*found, *rest.values()]
        if defer is Defer.AUTO and not self.fits(permit.principal, listed):
            listed = found
        if _goes_on(permit, rest):
            listed = [*found, *rest.values()]
        return [(offer.name, offer.text) for offer in listed]

    def fits(self, principal: Principal, offers: Sequence[Offer]) -> bool:
        """Whether a list of all of `offers` costs no more than its share of the client's window."""
        _, window = self._settings(principal)
        octets = sum(_octets(offer.text) for offer in offers) + max(0, len(offers) - 1)
        return most_tokens_of(octets) * _PERCENT <= self._shelving.share * window

    def _settings(self, principal: Principal) -> tuple[Defer, int]:
        own = of_client(self._shelving.clients, principal) or ClientShelving()
        return own.defer or self._shelving.defer, own.window or self._shelving.window

    def _tell_unknown(self, found: set[str]) -> None:
        """Tell the operator once of names in the core that no server has shown a tool of."""
        for name in self._core:
            if name not in found and name not in self._looked_for:
                self._looked_for.add(name)
                if not self._known(name):
                    logger.warning("discovery.core: no tool is called %s", name)


def _octets(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _goes_on(permit: Permit, rest: Mapping[str, Offer]) -> bool:
    """Whether the page that is asked for goes on from one that only a whole list has.

    A list that began whole ends whole, whatever has been approved or withdrawn meanwhile.
    """
    cursor = permit.call.message.params.get("cursor")
    try:
        return cursor is not None and place_of(cursor, str) in rest
    except ValueError:
        return False  # whoever reads the page says so
