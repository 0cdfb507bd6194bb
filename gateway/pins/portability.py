"""What becomes of a server's tools in hosts, found by the table of `hosts` alone."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from gateway.domain._value import value
from gateway.pins.hosts import Count, Host, Keyword, Level, Names, Source, Wanted
from gateway.pins.nested import matters, schemas_in


@value
class Trouble:
    """One thing that a host does not take as it is."""

    level: Level
    tool: str
    """Empty for what is about the whole list."""
    text: str
    source: Source


def troubles(host: Host, server: str, tools: Mapping[str, Any]) -> Iterator[Trouble]:
    """Yield what `host` makes worse of `tools`, definitions by their names, under `server`."""
    if host.count is not None and len(tools) > host.count.most:
        yield _too_many(host.count, len(tools))
    if host.names is not None:
        yield from _of_names(host.names, server, tools)
    for tool, definition in tools.items():
        for keyword in host.keywords:
            yield from _of_keyword(keyword, tool, definition)
        if host.wanted is not None:
            yield from _of_wanted(host.wanted, tool, definition)


def _too_many(count: Count, tools: int) -> Trouble:
    text = f"{tools} tools, and {count.most} are the most: {count.becomes}; approve fewer"
    return Trouble(level=count.level, tool="", text=text, source=count.source)


def _of_names(rule: Names, server: str, tools: Mapping[str, Any]) -> Iterator[Trouble]:
    met: dict[str, list[str]] = defaultdict(list)
    for tool in tools:
        name = rule.prefix.format(server=server) + tool
        shown = _shown(rule, name)
        met[shown].append(tool)
        if others := sorted(set(name) - set(rule.letters)):
            text = f"its name there, {name}, has characters that are none: {' '.join(others)}"
            yield Trouble(level="error", tool=tool, text=text, source=rule.source)
        if len(name) > rule.longest:
            cut = f"it is cut to {shown}" if rule.keeps else "it is refused or dropped"
            text = f"its name there, {name}, has {len(name)} characters of {rule.longest}: {cut}"
            level: Level = "warning" if rule.keeps else "error"
            yield Trouble(level=level, tool=tool, text=text, source=rule.source)
    for shown, alike in met.items():
        if len(alike) > 1:
            yield _one_name(rule, shown, alike, tools)


def _shown(rule: Names, name: str) -> str:
    if not rule.keeps or len(name) <= rule.longest:
        return name
    return f"{name[: rule.keeps]}...{name[-rule.keeps :]}"


def _one_name(rule: Names, shown: str, alike: list[str], tools: Mapping[str, Any]) -> Trouble:
    """Return the error that several tools are one there: a call meant for one reaches another."""
    reading = {tool for tool in alike if _hints(tools[tool]).get("readOnlyHint") is True}
    hides = "; one that writes may hide one that reads" if 0 < len(reading) < len(alike) else ""
    text = f"{', '.join(alike)} are one name there, {shown}{hides}; rename one at the server"
    return Trouble(level="error", tool=alike[0], text=text, source=rule.source)


def _of_keyword(rule: Keyword, tool: str, definition: Mapping[str, Any]) -> Iterator[Trouble]:
    for member in rule.schemas:
        schema = definition.get(member)
        places = [(member, schema)] if rule.root else schemas_in(schema, member)
        for path, inner in places:
            if not isinstance(inner, Mapping):
                continue
            for name in rule.names:
                if name in inner and matters(rule, inner[name]):
                    text = f"`{name}` in {path}: {rule.becomes}"
                    yield Trouble(level=rule.level, tool=tool, text=text, source=rule.source)


def _of_wanted(rule: Wanted, tool: str, definition: Mapping[str, Any]) -> Iterator[Trouble]:
    hints = _hints(definition)
    missing = [hint for hint in rule.hints if not isinstance(hints.get(hint), bool)]
    if rule.title and not (definition.get("title") or hints.get("title")):
        missing.append("title")
    if missing:
        text = f"it does not say: {', '.join(missing)}"
        yield Trouble(level="warning", tool=tool, text=text, source=rule.source)
    length = len(str(definition.get("description") or ""))
    if 0 < rule.longest_description < length:
        text = f"its description has {length} characters of {rule.longest_description}"
        yield Trouble(level="warning", tool=tool, text=text, source=rule.source)


def _hints(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    hints = definition.get("annotations")
    return hints if isinstance(hints, Mapping) else {}
