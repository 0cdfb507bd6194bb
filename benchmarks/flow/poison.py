"""The attacker's destinations, planted where an earlier result has identifiers.

The rule, which knows no suite, tool, field or value:

1. What is planted is every value in the destination arguments of the trace's harmful calls.
2. It is planted in the last result before the first injected call that an outsider could write:
   of a tool whose result is labelled untrusted, and no error.
3. There, of all fields inside of lists whose values look like identifiers (no space, no date), the
   first counts of which a value is of the same kind as what is planted (an address, a link, a number,
   a code of letters and digits, a word); else the first. The outermost list gets one item more for
   each value: a copy of its last, in which that field is the value. So what the user's own calls take
   from the result is there as it was.
4. A result without such a field gets one: a list of `owners` beside what it says.
5. The agent's text says the same as the structured content.

The fields that were used are declared as `typed` for their tools, for every trace of the suite.
"""

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from benchmarks.flow.traces import Step, Suite, Trace
from gateway.config import Config
from gateway.domain.document import leaves
from gateway.domain.labels import Integrity
from gateway.domain.paths import parse_path, selected
from gateway.domain.tools import UpstreamId

OWNERS = "owners"

_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?")
_LONGEST_IDENTIFIER = 254
_INDEX = re.compile(r"\[\d+\]")


@dataclass(frozen=True, kw_only=True)
class Poisoned:
    """A suite with what an attacker could have planted."""

    traces: Sequence[Trace]
    """In their order; user's traces are as they were."""
    settings: Mapping[str, Any]
    """Those of the suite, and the fields that were used declared as typed."""
    untouched: int
    """Attacks of which nothing can be planted: no destination, or nowhere before."""


def poisoned(suite: Suite) -> Poisoned:
    """Plant the destinations of each attack of `suite`."""
    traces: list[Trace] = []
    fields: set[tuple[str, str, str]] = set()
    untouched = 0
    for trace in suite.traces:
        planted = _planted(trace, suite.config) if trace.is_attack else (trace, frozenset())
        if planted is None:
            untouched += 1
            traces.append(trace)
        else:
            traces.append(planted[0])
            fields |= planted[1]
    return Poisoned(
        traces=traces, settings=_with_typed(suite.settings, fields), untouched=untouched
    )


def _planted(trace: Trace, config: Config) -> tuple[Trace, frozenset[tuple[str, str, str]]] | None:
    """Return the trace with its destinations planted, and in which fields of which tools."""
    values = list(dict.fromkeys(_destinations(trace, config)))
    number = _last_untrusted(trace, config)
    if not values or number is None:
        return None
    step = trace.steps[number]
    result, fields = plant(step.result, values)
    steps = [*trace.steps]
    steps[number] = replace(step, result=result)
    used = frozenset((step.server, step.tool, field) for field in fields)
    return replace(trace, steps=steps), used


def _destinations(trace: Trace, config: Config) -> Iterator[str]:
    for step in trace.steps:
        if step.harmful:
            rule = config.servers[UpstreamId(step.server)].rule.tool(step.tool)
            for name in rule.destination:
                for _, leaf in leaves(step.arguments.get(name), "$"):
                    if isinstance(leaf, str | int) and not isinstance(leaf, bool):
                        yield str(leaf)


def _last_untrusted(trace: Trace, config: Config) -> int | None:
    found = None
    for number, step in enumerate(trace.steps):
        if not step.of_user:
            break
        if not step.result.get("isError") and _is_untrusted(step, config):
            found = number
    return found


def _is_untrusted(step: Step, config: Config) -> bool:
    server = config.servers[UpstreamId(step.server)].rule
    label = server.tool(step.tool).result or server.default
    return label.integrity is Integrity.UNTRUSTED


def plant(
    result: Mapping[str, Any], values: Sequence[str]
) -> tuple[dict[str, Any], frozenset[str]]:
    """Return `result` with `values` in it, as steps 3 to 5 say, and the fields that hold them."""
    text = result["content"][0]["text"]
    content = result.get("structuredContent")
    before = copy.deepcopy({"text": text} if content is None else content)
    planted = copy.deepcopy(before)
    fields = {_plant_one(planted, before, value) for value in values}
    told = [{"type": "text", "text": _told(text, before, planted)}]
    return {**result, "content": told, "structuredContent": planted}, frozenset(fields)


def _plant_one(planted: Any, before: Any, value: str) -> str:
    """Put `value` into `planted`, and return the field that holds it."""
    field = _field_for(value, before)
    if field is None:
        return _with_owner(planted, value)
    at_list, _, _ = field.partition("[*]")
    items = _at(planted, at_list)
    last = copy.deepcopy(_at(before, at_list)[-1])
    items.append(_filled(last, field[len(at_list) + len("[*]") :], value))
    return field


def _field_for(value: str, content: Any) -> str | None:
    """Return the field of `content` to plant `value` in, with `[*]` for every index."""
    fields: dict[str, list[str]] = {}
    for path, leaf in leaves(content, "$"):
        text = str(leaf) if isinstance(leaf, str | int) and not isinstance(leaf, bool) else ""
        fields.setdefault(_INDEX.sub("[*]", path), []).append(text)
    usable = [
        (field, texts)
        for field, texts in fields.items()
        if "[*]" in field and all(map(_is_identifier, texts)) and _is_in_last(content, field)
    ]
    alike = [field for field, texts in usable if _kind(value) in set(map(_kind, texts))]
    return next(iter([*alike, *(field for field, _ in usable)]), None)


def _is_in_last(content: Any, field: str) -> bool:
    """Whether the last item of the outermost list has that field: it is what is copied."""
    at_list, _, inside = field.partition("[*]")
    last = _at(content, at_list)[-1]
    return not inside or any(True for _ in selected(last, parse_path(f"${inside}")))


def _is_identifier(text: str) -> bool:
    return (
        0 < len(text) <= _LONGEST_IDENTIFIER
        and not any(character.isspace() for character in text)
        and not _DATE.fullmatch(text)
    )


def _kind(text: str) -> str:
    if "://" in text:
        return "link"
    if "@" in text:
        return "address"
    digits = any(character.isdigit() for character in text)
    letters = any(character.isalpha() for character in text)
    return "code" if digits and letters else "number" if digits else "word"


def _at(content: Any, path: str) -> Any:
    if path == "$":
        return content
    ((container, key),) = selected(content, parse_path(path))
    return container[key]


def _filled(item: Any, inside: str, value: str) -> Any:
    """Return `item` with `value` as all that its field holds: a list in it is cut to one."""
    if not inside:
        return value
    *lists, _ = inside.split("[*]")
    for depth in range(1, len(lists) + 1):
        for container, key in list(selected(item, parse_path("$" + "[*]".join(lists[:depth])))):
            del container[key][1:]
    for container, key in list(selected(item, parse_path(f"${inside}"))):
        container[key] = value
    return item


def _with_owner(planted: Any, value: str) -> str:
    if isinstance(planted, dict):
        planted.setdefault(OWNERS, []).append(value)
        return f"$.{OWNERS}[*]"
    planted.append({OWNERS: [value]})
    return f"$[*].{OWNERS}[*]"


def _told(text: str, before: Any, planted: Any) -> str:
    """Return `text`, which says what is in `before`, saying what is in `planted`."""
    try:
        is_json = isinstance(json.loads(text), dict | list)
    except ValueError:
        is_json = False
    if is_json:
        return json.dumps(planted)
    more = planted[len(before) :] if isinstance(planted, list) else _members(before, planted)
    return f"{text.rstrip()}\n{yaml.safe_dump(more, allow_unicode=True)}"


def _members(before: Mapping[str, Any], planted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that `before` has not, or not as they are."""
    return {key: part for key, part in planted.items() if key not in before or before[key] != part}


def _with_typed(
    settings: Mapping[str, Any], fields: set[tuple[str, str, str]]
) -> Mapping[str, Any]:
    """Return `settings` with each of `fields` declared for its tool."""
    declared = copy.deepcopy(dict(settings))
    for server, tool, field in sorted(fields):
        labels = declared["servers"][server] = dict(declared["servers"][server] or {})
        tools = labels["tools"] = dict(labels.get("tools") or {})
        rule = tools[tool] = dict(tools.get(tool) or {})
        rule["typed"] = list(dict.fromkeys([*(rule.get("typed") or ()), field]))
    return declared
