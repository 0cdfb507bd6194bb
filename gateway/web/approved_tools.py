"""Which tools were approved, by name: the pins, for what is counted of calls."""

from gateway.domain.tools import Kind, UpstreamId
from gateway.ports import PinStore


class ApprovedTools:
    """Looks at the pins again only when they have changed."""

    def __init__(self, pins: PinStore) -> None:
        self._pins = pins
        self._version: int | None = None
        self._names: frozenset[tuple[UpstreamId, str]] = frozenset()

    def knows(self, server: UpstreamId, name: str) -> bool:
        """Whether a person has approved a tool of this name, be it in force now or not."""
        version = self._pins.version
        if version != self._version:
            self._version = version
            self._names = frozenset(
                (pin.target.server, pin.target.name)
                for pin in self._pins.all()
                if pin.target.kind is Kind.TOOL and pin.approved is not None
            )
        return (server, name) in self._names
