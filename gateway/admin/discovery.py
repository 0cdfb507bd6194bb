"""What lists at `/mcp` cost a model, and which tools are worth listing always."""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence

from gateway.admin.person import EVERY_ROLE, Person, Role, beside
from gateway.admin.rows import Row, Rows
from gateway.domain._value import value
from gateway.domain.tokens import tokens_of
from gateway.domain.tools import Kind, Pin, PinStatus, Target
from gateway.errors import BadCommand
from gateway.ports import PinStore
from gateway.wire import jsontext

_PERCENT = 100
_MOST = 1_000
"""Tools of one suggestion."""

CallCounts = Callable[[str], Awaitable[Mapping[tuple[str, str], int]]]
"""How many calls of each tool, by server and tool, were let through since a time."""


@value
class _Tool:
    """A tool as the pins know it, in one family of revisions or in both."""

    target: Target
    status: PinStatus
    octets: int
    """Of the larger of its two definitions, as it is listed."""


class DiscoveryDesk:
    def __init__(
        self,
        pins: PinStore,
        calls_since: CallCounts,
        *,
        core: Callable[[], Sequence[str]],
        servers: Callable[[], Collection[str]],
        name_of: Callable[[Target], str],
    ) -> None:
        """`core` is the configured one; `name_of` says what a tool is called at `/mcp`."""
        self._pins = pins
        self._calls_since = calls_since
        self._core = core
        self._servers = servers
        self._name_of = name_of

    async def core(self, person: Person) -> Rows:
        """Return one row a name in the configured core, in its order, with what it costs.

        `status` is the pin's; `unknown` where no server has shown a tool of that name. Tokens are an
        estimate, of the approved definition if there is one.
        """
        person.need(*EVERY_ROLE)
        tools = await beside(person, self._tools)
        return [_core_row(name, tools.get(name)) for name in dict.fromkeys(self._core())]

    async def tokens(self, person: Person) -> Rows:
        """Return one row a configured server: its approved tools, and what a list of them costs."""
        person.need(*EVERY_ROLE)
        tools = await beside(person, self._tools)
        approved = [tool for tool in tools.values() if _is_approved(tool)]
        return [
            _cost(server, [tool.octets for tool in approved if tool.target.server == server])
            for server in sorted(self._servers())
        ]

    async def suggest(
        self, person: Person, *, since: str = "30d", cover: float = 90.0, most: int = 30
    ) -> Rows:
        """Return the fewest tools that had `cover` percent of all calls, but at most `most`.

        Counted are calls of tools that are approved now. What is in the core already comes first, in
        its order, so that lists go on beginning as they do; then whatever was called most often.

        Raises:
            Forbidden: The person is neither auditor nor admin.
            BadCommand: The time cannot be read, or a number is out of range.

        """
        person.need(Role.AUDITOR, Role.ADMIN)
        if not 0 < cover <= _PERCENT or not 0 < most <= _MOST:
            raise BadCommand(f"cover is above 0 and at most {_PERCENT}, most is 1 to {_MOST}")
        found = await self._calls_since(since)
        known = await beside(person, self._tools)
        tools = {name: tool for name, tool in known.items() if _is_approved(tool)}
        counts = {name: found.get(_key(tool.target), 0) for name, tool in tools.items()}
        total = sum(counts.values())
        chosen = list(_fewest(counts, total * cover / _PERCENT, most))
        core = [name for name in dict.fromkeys(self._core()) if name in chosen]
        rest = [name for name in chosen if name not in core]
        return [
            {
                "name": name,
                "server": tools[name].target.server,
                "tool": tools[name].target.name,
                "calls": counts[name],
                "share": round(_PERCENT * counts[name] / total, 1),
                "tokens": tokens_of(tools[name].octets),
                "core": name in core,
            }
            for name in (*core, *rest)
        ]

    def _tools(self) -> dict[str, _Tool]:
        """Return the tools of the configured servers by their names at `/mcp`."""
        found: dict[str, list[Pin]] = {}
        servers = self._servers()
        for pin in self._pins.all():
            if pin.target.kind is Kind.TOOL and pin.target.server in servers:
                found.setdefault(self._name_of(pin.target), []).append(pin)
        return {name: _tool(name, pins) for name, pins in found.items()}


def _tool(name: str, pins: Sequence[Pin]) -> _Tool:
    in_force = [pin for pin in pins if pin.status is PinStatus.APPROVED]
    shown = in_force or pins
    return _Tool(
        target=shown[0].target,
        status=shown[0].status,
        octets=max(_octets(name, pin) for pin in shown),
    )


def _octets(name: str, pin: Pin) -> int:
    content = (pin.approved or pin.observed).definition.content
    return len(jsontext.write({**content, "name": name}).encode())


def _is_approved(tool: _Tool) -> bool:
    return tool.status is PinStatus.APPROVED


def _key(target: Target) -> tuple[str, str]:
    return (target.server, target.name)


def _fewest(counts: Mapping[str, int], wanted: float, most: int) -> Iterator[str]:
    """Yield the names with the highest counts until these come to `wanted`, or are `most`."""
    covered = 0
    for name in sorted(counts, key=lambda name: (-counts[name], name))[:most]:
        if covered >= wanted or not counts[name]:
            return
        covered += counts[name]
        yield name


def _core_row(name: str, tool: _Tool | None) -> Row:
    return {
        "name": name,
        "status": "unknown" if tool is None else tool.status.value,
        "tokens": None if tool is None else tokens_of(tool.octets),
    }


def _cost(server: str, sizes: Sequence[int]) -> Row:
    return {"server": server, "tools": len(sizes), "tokens": tokens_of(sum(sizes))}
