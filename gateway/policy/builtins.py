"""The built-in functions of Rego that OPA leaves to whoever runs a compiled policy.

Each takes and gives JSON values, as OPA's own does. `ValueError` makes the call undefined, which
is what OPA does with a built-in's error; `Unsupported` ends the whole evaluation, because a rule
that silently holds no more could be the one that says no.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import orjson

from gateway.domain._value import value

_NANOSECONDS = 1_000_000_000
_LARGEST_NS = 2**63 - 1
_WIDEST = 1_000
"""Characters that one verb of a format may ask for."""


class Unsupported(Exception):
    """The built-in is known, but not in this way of using it."""


@value
class Moment:
    """What stays the same during one evaluation."""

    now_ns: int


Builtin = Callable[..., Any]

_VERB = re.compile(r"%(?P<width>[-+0 #]*\d*)(?:\.(?P<precision>\d+))?(?P<verb>.)", re.DOTALL)
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|z|[+-]\d\d:\d\d)\Z",
)
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": _NANOSECONDS,
    "m": 60 * _NANOSECONDS,
    "h": 3600 * _NANOSECONDS,
}
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _now_ns(moment: Moment) -> int:
    return moment.now_ns


def _parse_rfc3339_ns(_: Moment, text: Any) -> int:
    found = _RFC3339.match(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError("not a time of RFC 3339")
    day, time, fraction, zone = found.groups()
    whole = datetime.fromisoformat(f"{day}T{time}{zone.upper().replace('Z', '+00:00')}")
    nanoseconds = int((fraction or "").ljust(9, "0"))
    return _bounded(int(whole.timestamp()) * _NANOSECONDS + nanoseconds)


def _parse_duration_ns(_: Moment, text: Any) -> int:
    if not isinstance(text, str):
        raise ValueError("not a duration")  # noqa: TRY004 - what a built-in's error is called
    body = text.lstrip("+-") if text[:1] in {"+", "-"} else text
    if body == "0":
        return 0
    total = sum(_scaled(number, _UNITS[unit]) for number, unit in _parts(body))
    return _bounded(-total if text.startswith("-") else total)


def _parts(body: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(body) or not body:
        found = _PART.match(body, at)
        if found is None:
            raise ValueError("not a duration")
        yield found[1], found[2]
        at = found.end()


def _scaled(number: str, unit: int) -> int:
    whole, _, fraction = number.partition(".")
    part = int(fraction or "0") * unit // 10 ** len(fraction) if fraction else 0
    return int(whole or "0") * unit + part


def _bounded(nanoseconds: int) -> int:
    if abs(nanoseconds) > _LARGEST_NS:
        raise ValueError("beyond 64 bits of nanoseconds")
    return nanoseconds


def _local(argument: Any) -> datetime:
    nanoseconds, zone = argument if isinstance(argument, list) else (argument, "UTC")
    if type(nanoseconds) is not int or not isinstance(zone, str):
        raise ValueError("not nanoseconds and the name of a zone")
    try:
        where = ZoneInfo(zone or "UTC")
        return datetime.fromtimestamp(nanoseconds // _NANOSECONDS, UTC).astimezone(where)
    except (ZoneInfoNotFoundError, OverflowError, OSError) as error:
        raise ValueError("no such zone or time") from error


def _clock(_: Moment, argument: Any) -> list[int]:
    local = _local(argument)
    return [local.hour, local.minute, local.second]


def _weekday(_: Moment, argument: Any) -> str:
    return _DAYS[_local(argument).weekday()]


def _sprintf(_: Moment, form: Any, arguments: Any) -> str:
    if not isinstance(form, str) or not isinstance(arguments, list):
        raise ValueError("not a format and a list")  # noqa: TRY004 - as above
    left = iter(arguments)
    text = _VERB.sub(lambda verb: _formatted(verb, left), form)
    if next(left, left) is not left:
        raise Unsupported("sprintf with more values than its format names")
    return text


def _formatted(verb: re.Match[str], left: Any) -> str:
    if verb["verb"] == "%":
        return "%"
    width = re.sub(r"\D", "", verb["width"]) or "0"
    if int(width) > _WIDEST or int(verb["precision"] or 0) > _WIDEST:
        raise Unsupported("sprintf with a very wide format")
    content = next(left, left)
    flags = verb["width"]
    match verb["verb"], content:
        case "v", _ if content is not left and not flags and verb["precision"] is None:
            return _shown(content)
        case "s", str() if not flags and verb["precision"] is None:
            return str(content)
        case "q", str() if not flags and verb["precision"] is None:
            return orjson.dumps(content).decode()
        case (("d" | "x"), int()) if type(content) is int and verb["precision"] is None:
            return f"%{flags}{verb['verb']}" % content
        case "f", (int() | float()) if type(content) is not bool:
            return f"%{flags}.{verb['precision'] or 6}f" % content
    raise Unsupported(f"sprintf with {verb[0]} for this value")


def _shown(content: Any) -> str:
    """Spell a value as OPA does: a string bare, everything inside another value quoted."""
    return content if isinstance(content, str) else _quoted(content)


def _quoted(content: Any) -> str:
    if isinstance(content, list):
        return f"[{', '.join(map(_quoted, content))}]"
    if isinstance(content, dict):
        members = (f"{_quoted(key)}: {_quoted(inner)}" for key, inner in sorted(content.items()))
        return f"{{{', '.join(members)}}}"
    return orjson.dumps(content).decode()


BUILTINS: Mapping[str, Builtin] = {
    "sprintf": _sprintf,
    "time.clock": _clock,
    "time.now_ns": _now_ns,
    "time.parse_duration_ns": _parse_duration_ns,
    "time.parse_rfc3339_ns": _parse_rfc3339_ns,
    "time.weekday": _weekday,
}
"""By the name that policies call it by. Everything else that OPA compiles to WebAssembly itself
needs no entry here."""

VARYING = frozenset({"time.now_ns"})
"""Those that answer differently another time; the others depend on their arguments alone."""
