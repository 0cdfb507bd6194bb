"""What approved tools would cost a model to read, and how pins stand: for the metrics."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Final

from gateway.domain._value import value
from gateway.domain.tokens import tokens_of
from gateway.domain.tools import Kind, PinStatus
from gateway.ports import PinStore
from gateway.web.approved_tools import ApprovedTools
from gateway.wire import jsontext


@value
class Size:
    """What was approved of one server's tools."""

    tools: int
    cost: int
    """In tokens, as `tokens_of` estimates them."""


_NOTHING: Final = Size(tools=0, cost=0)


class Registry(ApprovedTools):
    """Looks at the pins again only when they have changed."""

    def __init__(self, pins: PinStore, servers: Callable[[], Collection[str]]) -> None:
        """`servers` are those of the configuration; pins of others are left over."""
        super().__init__(pins)
        self._servers = servers
        self._weighed: tuple[int, Mapping[str, Size]] | None = None
        self._counted: tuple[int, Counter[tuple[str, PinStatus]]] | None = None

    def sizes(self) -> Mapping[str, Size]:
        """Return what is approved, by server; of a tool's two definitions the larger one counts."""
        version = self._pins.version
        if self._weighed is None or self._weighed[0] != version:
            self._weighed = version, self._weigh()
        found = self._weighed[1]
        return {server: found.get(server, _NOTHING) for server in self._servers()}

    def states(self) -> Mapping[tuple[str, PinStatus], int]:
        """Return how many definitions there are of each server in each state, also none."""
        version = self._pins.version
        if self._counted is None or self._counted[0] != version:
            found = Counter((str(pin.target.server), pin.status) for pin in self._pins.all())
            self._counted = version, found
        counted = self._counted[1]
        return {(s, state): counted[s, state] for s in self._servers() for state in PinStatus}

    def _weigh(self) -> Mapping[str, Size]:
        octets: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for pin in self._pins.all():
            target = pin.target
            if target.kind is not Kind.TOOL or pin.status is not PinStatus.APPROVED:
                continue
            if pin.approved is None:
                continue
            text = jsontext.write(pin.approved.definition.content)
            sizes = octets[target.server]
            sizes[target.name] = max(sizes.get(target.name, 0), len(text.encode()))
        return {
            server: Size(tools=len(sizes), cost=tokens_of(sum(sizes.values())))
            for server, sizes in octets.items()
        }
