"""What is pinned, sorted out once for as long as the pins stay as they are (pure)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from gateway.builtin.names import public_name
from gateway.domain._value import value
from gateway.domain.tools import Kind, Manifest, Pin, Profile, Target, UpstreamId
from gateway.errors import GatewayError
from gateway.pins.verify import verify

_DESCRIPTION = 2_000
"""Characters of what a server says of itself; what follows is rarely about what its tools are for."""


@value
class Inventory:
    """Pins by what is asked of them. Of nobody in particular."""

    version: int
    """That of the pins that were sorted."""
    served: Mapping[Kind, Sequence[Pin]]
    """What is approved and in force, in the order of servers and names."""
    families: Mapping[UpstreamId, frozenset[Profile]]
    """In which families of revisions something of a server is pinned."""
    tools: Mapping[str, tuple[Manifest, str]]
    """Each tool that is served, by its offer's id, and what was approved of its server's words."""
    named: Mapping[str, Sequence[Target]]
    """Tools and prompts by what they are called at `/mcp`, approved or not."""

    @classmethod
    def of(cls, version: int, pins: Sequence[Pin], identities: Mapping[UpstreamId, str]) -> Self:
        """Sort `pins`; `identities` are those of the servers that have the names now."""
        served = [pin for pin in pins if is_served(pin, identities)]
        by_kind = {kind: [pin for pin in served if pin.target.kind is kind] for kind in Kind}
        for group in by_kind.values():
            group.sort(key=lambda pin: (pin.target.server, pin.target.name))
        families: defaultdict[UpstreamId, set[Profile]] = defaultdict(set)
        for pin in pins:
            families[pin.target.server].add(pin.profile)
        return cls(
            version=version,
            served=by_kind,
            families={server: frozenset(found) for server, found in families.items()},
            tools=_tools(by_kind[Kind.TOOL], by_kind[Kind.SERVER]),
            named=_named(pin.target for pin in pins),
        )


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


def _named(targets: Iterable[Target]) -> dict[str, list[Target]]:
    named: defaultdict[str, list[Target]] = defaultdict(list)
    for target in dict.fromkeys(targets):
        if target.kind in {Kind.TOOL, Kind.PROMPT}:
            named[public_name(target)].append(target)
    return dict(named)
