"""What the patterns of a schema cost: to be made ready, and by the text they are tried on (pure).

The engine remembers the sets of states that it has been in, as many as have room. Where there are
more, it goes through all states that are open at once, for each octet again. How many can be open
is a question of how the pattern is written: after `^abc[0-9]{4}` there is one, after `.*` or at the
start of a pattern that may begin anywhere all that follow.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gateway.domain._value import value
from gateway.domain.nodes import objects_in

_TOKEN = re.compile(
    r"(?P<class>\[\^?\]?(?:\\.?|[^\]\\])*+\]?)|(?P<open>\((?:\?(?:P?<\w{0,64}+>|[a-zA-Z-]*:))?)"
    r"|(?P<close>\))|(?P<or>\|)|(?P<some>[*+?])|(?P<place>[$^]|\\[AbBz])"
    r"|\{(?P<least>\d{1,9})(?P<comma>,(?P<most>\d{0,9}))?\}|(?P<one>\\.|.)",
    re.DOTALL,
)
"""None of its parts goes far and then gives up: whoever writes a pattern would have that at each sign."""
_FEW = 11
"""States of which all sets have room with the engine."""
_OCTETS_A_UNIT, _STATES_A_UNIT = 64, 12
"""A unit is what a value costs that meets a schema: a tenth of a microsecond. In that time the engine
takes as many octets, where it remembers, or one octet through as many states, where it does not."""
_MOST_STATES = 1_000_000_000
_CLASS = re.compile(r"\\[sSwWdDc]")
_MOST_CLASSES = 150**2
"""The squares of how many each pattern has, together."""

_VERBOSE = re.compile(r"\(\?[a-zA-Z]*x")
"""A flag that makes comments of what looks like signs: no pattern of JSON Schema's own kind has it."""

_PROPERTY = re.compile(r"\\[pP]")
_WIDE = re.compile(r"[^\x00-\x7f]|\\[SDWsbBux]|\[\^|:\^|\(\?[^:]")
"""Signs beyond ASCII, classes that hold such, and flags that may make one of any."""
_DOT = re.compile(r"\\.?|\[\^?\]?(?:\\.?|[^\]\\])*+\]?|(?P<any>\.)", re.DOTALL)
"""One that stands for any sign: neither escaped nor in a class."""
_PROPERTY_COST, _WIDE_COST = 500, 10
"""Of a state, where a plain one costs 1: a sign is written as bytes, and a property has hundreds of
ranges of them. A class of many properties counts as one state for each, which takes less."""
_MOST_SIGNS = 64 * 1024
"""Of all patterns of a schema, to be read at all: four times the largest known real definition."""
_MOST_MADE = 50_000
"""Of all patterns of a schema: some tens of milliseconds, and some megabytes."""
MOST_OF_A_LIST = 20 * _MOST_MADE
"""Of all tools that a server shows at once: a second. A thousand with as many patterns as any has take half."""
_SIGNS_A_STATE = 5
"""To read so many takes as long as to make one."""


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
    """Whether the patterns in `schema` are very long, or have very many classes or states of wide signs.

    Or whether that cannot be told, for one is written with comments.

    Each class is written out anew before a pattern is compiled, in time quadratic in their number,
    and then each state. Nothing else runs meanwhile.
    """
    if sum(map(len, _all(schema))) > _MOST_SIGNS:
        return True
    if any(_VERBOSE.search(pattern) for pattern in _all(schema)):
        return True
    classes = sum(len(_CLASS.findall(pattern)) ** 2 for pattern in _all(schema))
    return classes > _MOST_CLASSES or sum(map(_making, _all(schema))) > _MOST_MADE


def has_patterns(schema: Any) -> bool:
    """Whether anything in `schema` is tried on texts."""
    return next(_all(schema), None) is not None


def making(schema: Any) -> int:
    """Return what it costs to make the patterns in `schema` ready, or to see that this would take long."""
    reading = min(sum(map(len, _all(schema))), _MOST_SIGNS) // _SIGNS_A_STATE
    return reading if takes_long_to_make(schema) else reading + sum(map(_making, _all(schema)))


def states(pattern: str) -> int:
    """Return about how many states an automaton for `pattern` has, its repetitions written out."""
    return _read(pattern).states


def open_states(pattern: str) -> int:
    """Return about how many states of an automaton for `pattern` can be open at once."""
    return min(sum(_open_in(row, _places(row)) for row in _read(pattern).branches), _MOST_STATES)


@value
class _Item:
    """A sign, a place between signs, or branches of items in a row; once, or more often."""

    states: int
    """Written out, as are the lengths of what it takes of a text."""
    shortest: int
    longest: int
    branches: tuple[tuple["_Item", ...], ...] = ()
    """None of a sign. A place has one, which is empty."""
    once: "_Item | None" = None
    """What is repeated."""

    @property
    def is_of_one_length(self) -> bool:
        return self.shortest == self.longest


_SIGN = _Item(states=1, shortest=1, longest=1)
_PLACE = _Item(states=0, shortest=0, longest=0, branches=((),))


def _group(branches: list[list[_Item]]) -> _Item:
    return _Item(
        states=_at_most(sum(item.states for row in branches for item in row)),
        shortest=_at_most(min(sum(item.shortest for item in row) for row in branches)),
        longest=_at_most(max(sum(item.longest for item in row) for row in branches)),
        branches=tuple(map(tuple, branches)),
    )


def _repeated(item: _Item, least: int, most: int) -> _Item:
    times = max(1, least if most == _MOST_STATES else most)
    return _Item(
        states=_at_most(item.states * times + int(least != most)),
        shortest=_at_most(item.shortest * least),
        longest=_at_most(item.longest * most),
        once=item,
    )


def _at_most(count: int) -> int:
    return min(count, _MOST_STATES)


def _read(pattern: str) -> _Item:
    groups: list[list[list[_Item]]] = [[[]]]
    for token in _TOKEN.finditer(pattern):
        row = groups[-1][-1]
        if token["open"]:
            groups.append([[]])
        elif token["close"] and len(groups) > 1:
            inner = _group(groups.pop())
            groups[-1][-1].append(inner)
        elif token["or"]:
            groups[-1].append([])
        elif token["some"] or token["least"]:
            if row:
                row[-1] = _repeated(row[-1], *_times(token))
        else:
            row.append(_PLACE if token["place"] else _SIGN)
    return _group([row for group in groups for row in group])


def _times(token: re.Match[str]) -> tuple[int, int]:
    if some := token["some"]:
        return int(some == "+"), 1 if some == "?" else _MOST_STATES
    least = int(token["least"])
    return least, int(token["most"] or (_MOST_STATES if token["comma"] else least))


def _places(row: tuple[_Item, ...]) -> int:
    """Return at how many places of a text a pattern of `row` may begin: at one, if it says so."""
    return 1 if row[:1] == (_PLACE,) else _MOST_STATES


def _open_in(row: tuple[_Item, ...], places: int) -> int:
    """Return how many states of `row` can be open at once, if it begins at so many places in a row."""
    total, run = 0, [0, 0]
    for item in (*row, None):
        if item is not None and item.is_of_one_length:
            run = [run[0] + item.states, max(run[1], _open(item, 1))]
            continue
        alike, run = min(run[0], places * run[1]), [0, 0]
        # Whatever began at one place stands at one place as long as all of it is of one length.
        total = max(total, alike) if places == 1 else total + alike
        if item is not None:
            here = _open(item, places)
            total = max(total, here) if places == 1 else total + here
            places = _at_most(places + item.longest - item.shortest)
    return _at_most(total)


def _open(item: _Item, places: int) -> int:
    """Return how many states of `item` can be open at once, if it begins at so many places."""
    if (once := item.once) is None:
        return sum(_open_in(row, places) for row in item.branches) if item.branches else 1
    if item.states <= once.states + 1 and item.longest == once.longest:  # once, or not at all
        return _open(once, places)
    if once is _SIGN or (once.is_of_one_length and places == 1):
        return min(item.states, places * _open(once, 1))
    return item.states


def _making(pattern: str) -> int:
    """Return what it costs to compile `pattern`, in plain states: as if its widest sign were each."""
    plain = pattern.replace(r"\\", "")
    if properties := _PROPERTY.findall(plain):
        return max(states(pattern), len(properties)) * _PROPERTY_COST
    wide = len(_WIDE.findall(plain)) + sum(map(bool, _DOT.findall(pattern)))
    return states(pattern) * (_WIDE_COST + wide // 5 if wide else 1)


def _all(schema: Any) -> Iterator[str]:
    for node in objects_in(schema):
        yield from patterns(node)
