"""What the patterns of a schema cost: to be made ready, and by the text they are tried on (pure).

The engine remembers the sets of states that it has been in, as many as have room. Where there are
more, it goes through all states that are open at once, for each octet again. How many can be open
is a question of how the pattern is written: after `^abc[0-9]{4}` there is one, after `.*` or at the
start of a pattern that may begin anywhere all that follow.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

from gateway.domain._value import value
from gateway.domain.nodes import objects_in

_TOKEN = re.compile(
    r"(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<open>\()|(?P<close>\))|(?P<or>\|)"
    r"|(?P<some>[*+?])|\{(?P<least>\d{1,9})(?P<comma>,(?P<most>\d{0,9}))?\}|(?P<one>\\.|.)",
    re.DOTALL,
)
_FEW = 11
"""States of which all sets have room with the engine."""
_OCTETS_A_UNIT, _STATES_A_UNIT = 64, 8
"""A unit is what a value costs that meets a schema: a tenth of a microsecond. In that time the engine
takes as many octets, where it remembers, or one octet through as many states, where it does not."""
_MOST_STATES = 1_000_000_000
_CLASS = re.compile(r"\\[sSwWdDc]")
_MOST_CLASSES = 150**2
"""The squares of how many each pattern has, together."""

_VERBOSE = re.compile(r"\(\?[a-zA-Z]*x")
"""A flag that makes comments of what looks like signs: no pattern of JSON Schema's own kind has it."""

_PROPERTY = re.compile(r"\\[pP]")
_WIDE = re.compile(r"[^\x00-\x7f]|\\[SDWsbBux]|\.|\[\^|:\^|\(\?[^:]")
"""Signs beyond ASCII, classes that hold such, and flags that may make one of any."""
_PROPERTY_COST, _WIDE_COST = 2_500, 10
"""Of a state, where a plain one costs 1: a sign is written as bytes, and a property has hundreds of
ranges of them."""
_MOST_MADE = 50_000
"""Of all patterns of a schema: some tens of milliseconds, and some megabytes."""


def patterns(node: Mapping[str, Any]) -> Iterator[str]:
    """Yield the patterns that an object in a schema tries, those of its parts not among them."""
    if isinstance(found := node.get("pattern"), str):
        yield found
    if isinstance(named := node.get("patternProperties"), dict):
        yield from named


def matching(open_at_once: int, octets: int) -> int:
    """Return what a pattern costs with so many open states, in units of a schema met.

    `octets` are those of all texts that it is tried on.
    """
    if open_at_once <= _FEW:
        return octets // _OCTETS_A_UNIT
    return octets * open_at_once // _STATES_A_UNIT


def takes_long_to_make(schema: Any) -> bool:
    """Whether the patterns in `schema` have very many classes of signs, or states of wide ones.

    Or whether that cannot be told, for one is written with comments.

    Each class is written out anew before a pattern is compiled, in time quadratic in their number,
    and then each state. Nothing else runs meanwhile.
    """
    if any(_VERBOSE.search(pattern) for pattern in _all(schema)):
        return True
    classes = sum(len(_CLASS.findall(pattern)) ** 2 for pattern in _all(schema))
    return classes > _MOST_CLASSES or sum(map(_making, _all(schema))) > _MOST_MADE


def states(pattern: str) -> int:
    """Return about how many states an automaton for `pattern` has, its repetitions written out."""
    return _taken_apart(pattern).states


def open_states(pattern: str) -> int:
    """Return about how many states of an automaton for `pattern` can be open at once."""
    whole = _taken_apart(pattern)
    return whole.open if pattern.startswith("^") and not whole.branches else whole.states


@value
class _Part:
    """What has been read of a group, or its last item."""

    states: int = 0
    open: int = 0
    """Those that can be open at once, if it begins at one place: of what has one length alone, none."""
    branches: bool = False

    def and_then(self, part: "_Part") -> "_Part":
        # What follows something of several lengths may begin at several places.
        more = part.states if self.open else part.open
        return _part(self.states + part.states, self.open + more, branches=self.branches)

    def closed(self) -> "_Part":
        return _part(self.states, self.states if self.branches else self.open)

    def repeated(self, least: int, most: int, *, endless: bool) -> "_Part":
        """Return this item as often: of one sign, one is open wherever its end is."""
        times = max(1, most)
        same = least == most and not self.open and not endless
        once = 0 if same else 1 if self.states == 1 else self.states * times
        return _part(self.states * times + int(endless or least == 0), once)


def _part(states: int, open_at_once: int, *, branches: bool = False) -> _Part:
    most = _MOST_STATES
    return _Part(states=min(states, most), open=min(open_at_once, most), branches=branches)


_SIGN = _part(1, 0)


def _taken_apart(pattern: str) -> _Part:
    groups, last = [_Part()], _Part()
    for token in _TOKEN.finditer(pattern):
        if token["some"]:
            last = last.repeated(0, 1, endless=token["some"] != "?")
        elif token["least"]:
            least = int(token["least"])
            most = int(token["most"] or least)
            last = last.repeated(least, most, endless=token["comma"] == ",")
        else:
            groups[-1] = groups[-1].and_then(last)
            last = _next(token, groups)
    groups[-1] = groups[-1].and_then(last)
    return reduce(_Part.and_then, groups)


def _next(token: re.Match[str], groups: list[_Part]) -> _Part:
    """Return what begins at `token`, and open, close or branch a group there."""
    if token["open"]:
        groups.append(_Part())
    elif token["close"] and len(groups) > 1:
        return groups.pop().closed()
    elif token["or"]:
        groups[-1] = replace(groups[-1], branches=True)
    else:
        return _SIGN
    return _Part()


def _making(pattern: str) -> int:
    """Return what it costs to compile `pattern`, in plain states: as if its widest sign were each."""
    plain = pattern.replace(r"\\", "")
    if _PROPERTY.search(plain):
        return states(pattern) * _PROPERTY_COST
    wide = len(_WIDE.findall(plain))
    return states(pattern) * (_WIDE_COST + wide // 5 if wide else 1)


def _all(schema: Any) -> Iterator[str]:
    for node in objects_in(schema):
        yield from patterns(node)
