"""How large the patterns of a schema are, once their repetitions are written out (pure)."""

import re
from collections.abc import Iterator
from typing import Any

from gateway.domain.nodes import objects_in

LIGHT = 256
"""States that the engine remembers as it goes along: of such a pattern a character is one step."""

_TOKEN = re.compile(
    r"(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<open>\()|(?P<close>\))"
    r"|\{(?P<least>\d{1,9})(?P<comma>,(?P<most>\d{0,9}))?\}|(?P<one>\\.|.)",
    re.DOTALL,
)
_MOST_STATES = 1_000_000_000
_CLASS = re.compile(r"\\[sSwWdDc]")
_MOST_CLASSES = 150**2
"""The squares of how many each pattern has, together."""

_PROPERTY = re.compile(r"\\[pP]")
_WIDE = re.compile(r"[^\x00-\x7f]|\\[SDWsbBux]|\.|\[\^|:\^|\(\?[^:]")
"""Signs beyond ASCII, classes that hold such, and flags that may make one of any."""
_PROPERTY_COST, _WIDE_COST = 2_500, 10
"""Of a state, where a plain one costs 1: a sign is written as bytes, and a property has hundreds of
ranges of them."""
_MOST_MADE = 50_000
"""Of all patterns of a schema: some tens of milliseconds, and some megabytes."""


def heavy_states(schema: Any) -> int:
    """Return the states of all patterns in `schema` that are not light."""
    return sum(size for size in map(states, _patterns(schema)) if size > LIGHT)


def takes_long_to_make(schema: Any) -> bool:
    """Whether the patterns in `schema` have very many classes of signs, or states of wide ones.

    Each class is written out anew before a pattern is compiled, in time quadratic in their number,
    and then each state. Nothing else runs meanwhile.
    """
    classes = sum(len(_CLASS.findall(pattern)) ** 2 for pattern in _patterns(schema))
    return classes > _MOST_CLASSES or sum(map(_making, _patterns(schema))) > _MOST_MADE


def states(pattern: str) -> int:
    """Return about how many states an automaton for `pattern` has, its repetitions written out."""
    open_groups, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        if token["open"]:
            open_groups.append(0)
            last = 0
        elif token["close"] and len(open_groups) > 1:
            last = open_groups.pop()
            open_groups[-1] += last
        elif token["least"]:
            times = max(1, int(token["most"] or token["least"]))
            open_groups[-1] += last * (times - 1)
            last *= times
        else:
            last = 1
            open_groups[-1] += 1
        open_groups[-1], last = min(open_groups[-1], _MOST_STATES), min(last, _MOST_STATES)
    return min(sum(open_groups), _MOST_STATES)


def _making(pattern: str) -> int:
    """Return what it costs to compile `pattern`, in plain states: as if its widest sign were each."""
    plain = pattern.replace(r"\\", "")
    if _PROPERTY.search(plain):
        return states(pattern) * _PROPERTY_COST
    wide = len(_WIDE.findall(plain))
    return states(pattern) * (_WIDE_COST + wide // 5 if wide else 1)


def _patterns(schema: Any) -> Iterator[str]:
    for node in objects_in(schema):
        if isinstance(found := node.get("pattern"), str):
            yield found
        if isinstance(named := node.get("patternProperties"), dict):
            yield from named
