"""What is pinned, sorted out once for as long as what counts of it stays as it is."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from gateway.builtin.names import public_name
from gateway.domain._value import value
from gateway.domain.tools import Kind, Manifest, Pin, PinStatus, Profile, Target, UpstreamId
from gateway.errors import GatewayError
from gateway.pins.verify import verify

_DESCRIPTION = 2_000
"""Characters of what a server says of itself; what follows is rarely about what its tools are for."""


@value
class Inventory:
    """What is approved of pins, by what is asked of it. Of nobody in particular."""

    approved: Sequence[Pin]
    """What was sorted."""
    served: Mapping[Kind, Sequence[Pin]]
    """What is approved and in force, in the order of servers and names."""
    tools: Mapping[str, tuple[Manifest, str]]
    """Each tool that is served, by its offer's id, and what was approved of its server's words."""

    @classmethod
    def of(
        cls,
        pins: Sequence[Pin],
        identities: Mapping[UpstreamId, str],
        before: "Inventory | None" = None,
    ) -> "Inventory":
        """Sort `pins`; `identities` are those of the servers that have the names now.

        It is the one from `before` where nothing else is approved: what nobody approves servers show as
        often as they like.
        """
        approved = [pin for pin in pins if pin.status is PinStatus.APPROVED]
        if before is not None and before.approved == approved:
            return before
        served = [pin for pin in approved if is_served(pin, identities)]
        by_kind = {kind: [pin for pin in served if pin.target.kind is kind] for kind in Kind}
        for group in by_kind.values():
            group.sort(key=lambda pin: (pin.target.server, pin.target.name))
        return cls(
            approved=approved,
            served=by_kind,
            tools=_tools(by_kind[Kind.TOOL], by_kind[Kind.SERVER]),
        )


class Shown:
    """What servers have shown, approved or not. Of that nothing is ever taken back, so it is looked at
    again only once there is more.
    """

    def __init__(self) -> None:
        self._families: Mapping[UpstreamId, Collection[Profile]] = {}
        self._names: dict[str, list[Target]] = {}
        self._named: set[tuple[UpstreamId, bool, str]] = set()
        self._counted = self._read = 0
        """How many pins there were when families were last told, and names."""

    def families(self, server: UpstreamId, pins: Sequence[Pin]) -> Collection[Profile]:
        """Return in which families of revisions something of `server` is among `pins`, which are all."""
        if self._counted != len(pins):
            self._counted = len(pins)
            found: defaultdict[UpstreamId, set[Profile]] = defaultdict(set)
            for pin in pins:
                found[pin.target.server].add(pin.profile)
            self._families = found
        return self._families.get(server, ())

    def named(self, name: str, pins: Sequence[Pin]) -> Sequence[Target]:
        """Return the tools and prompts among `pins`, which are all, that are called `name` at `/mcp`."""
        if self._read != len(pins):
            self._read = len(pins)
            for pin in pins:
                self._name(pin.target)
        return self._names.get(name, ())

    def _name(self, target: Target) -> None:
        is_tool = target.kind is Kind.TOOL
        place = target.server, is_tool, target.name
        if (is_tool or target.kind is Kind.PROMPT) and place not in self._named:
            self._named.add(place)
            self._names.setdefault(public_name(target), []).append(target)


def is_served(pin: Pin, identities: Mapping[UpstreamId, str]) -> bool:
    """Whether what `pin` approved is in force, and is of the server that has its name now."""
    identity = identities.get(pin.target.server)
    if identity is None:
        return False
    try:
        verify(pin.target, pin, identity=identity)
    except GatewayError:
        return False
    return True


def offer_id(target: Target, profile: Profile) -> str:
    """Return what a definition is called among all: a tool may have one in each family."""
    return f"{target}@{profile}"


def words_of_server(definition: Mapping[str, Any]) -> str:
    """Return what a server's definition says that it is for, at most 2,000 characters."""
    info = definition.get("serverInfo")
    said = [info.get(part) for part in ("title", "description")] if isinstance(info, dict) else []
    texts = (text for text in (*said, definition.get("instructions")) if isinstance(text, str))
    return " ".join(filter(None, texts))[:_DESCRIPTION]


def _tools(tools: Iterable[Pin], servers: Iterable[Pin]) -> dict[str, tuple[Manifest, str]]:
    described = {
        (pin.target.server, pin.profile): words_of_server(pin.approved.definition.content)
        for pin in servers
        if pin.approved is not None
    }
    return {
        offer_id(pin.target, pin.profile): (
            pin.approved,
            described.get((pin.target.server, pin.profile), ""),
        )
        for pin in tools
        if pin.approved is not None
    }
