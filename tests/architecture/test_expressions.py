"""No text that others choose is worth much work to a regular expression: none of ours goes back and forth.

Each is tried on texts made of its own parts, repeated, with and without an end that does not fit. What
grows faster than the text takes seconds there, and what does not some milliseconds.
"""

import ast
import gc
import importlib
import pkgutil
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any

import pytest

import gateway
from gateway.pins.findings import PHRASES_AT_ONCE

LENGTH = 12_000
"""Characters. As long as the longest name, and some lines of a head."""
MOST = 200
"""How much more one may take than a plain look at the same text: a quadratic one takes 700 times as much."""
BEGINNINGS = frozenset({"match", "fullmatch"})
"""Where an expression is tried once, and not at every character."""
THROUGHOUT = frozenset({"sub", "subn", "findall", "finditer", "split"})
"""Where it is tried again behind all that it has found: what goes far and finds little does so each time."""
METHODS = frozenset({*BEGINNINGS, *THROUGHOUT, "search"})
STEPS = {
    "found_in": {"finditer"},
    "first_in": {"search"},
    "pieces_of": {"search"},
    "run_end": {"match"},
}
"""Functions that are given an expression, and what they ask of it."""
REPEATS = frozenset({sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT})
SOME = [
    *'a0 -._A/=+\n"\\xf,\t',
    *map(chr, range(32, 127)),
    "\r",
    "\0",
    "\u00e9",
    "\u2028",
    "\u200b",
]
ENDS = ("", "\0", "!", "\\")

PHRASES = (
    "gateway.pins.findings.HARD",
    "gateway.pins.findings.SOFT",
    "gateway.pins.findings._PHRASES",
)
"""Long tables of words, which are given little at once."""
OPERATORS = {"gateway.config.nodes", "gateway.config.values"}
"""Modules that read what operators write, in files of theirs."""


NARROW = 2
"""Characters that one find takes at most; a long text has as many finds as it is long."""
SHORT = {
    "gateway.audit.cef": "a field of a record",
    "gateway.audit.redaction": "a name on the way to a value",
    "gateway.broker.challenge": "a value in one header",
    "gateway.cli.tokens": "an issuer",
    "gateway.dlp.accounts": "an account's number",
    "gateway.domain.alike": "a name",
    "gateway.flow.naming": "a word",
    "gateway.flow.personal": "an account's number",
    "gateway.flow.words": "a name",
    "gateway.pins.tiers": "a title in a definition",
    "gateway.planes.envoy_checks": "a field's name",
    "gateway.policy.builtins": "a number's width",
    "gateway.sandbox.screen": "what a program said, which has a bound",
    "gateway.sandbox.stubs": "a name",
    "gateway.search.words": "a name",
}
"""Where so narrow a find takes something out, and of what, which is short."""


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(gateway.__path__, "gateway."):
        if not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


@cache
def source(module: ModuleType) -> str:
    return Path(str(module.__file__)).read_text()


@cache
def parsed(module: ModuleType) -> ast.Module:
    return ast.parse(source(module))


@cache
def expressions() -> dict[tuple[Any, int], tuple[set[str], list[str]]]:
    """Return how each expression of the tree is used, and where it stands."""
    found: dict[Any, Any] = defaultdict(lambda: (set(), []))
    for module in modules():
        if module.__name__ in OPERATORS:
            continue
        here = {name: each for name, one in vars(module).items() if (each := [*patterns_in(one)])}
        used = used_in(module) if here else {}
        for name, patterns in here.items():
            for pattern in patterns:
                one = getattr(module, name)
                ways, places = found[pattern.pattern, pattern.flags & ~re.UNICODE]
                # One that stands in a table is used somewhere else.
                ways |= used.get(name, set()) & METHODS if pattern is one else {"search"}
                places.append(f"{module.__name__}.{name}")
    for place, pattern, way in written():
        if pattern is not None and way in METHODS:
            compiled = re.compile(pattern)
            ways, places = found[compiled.pattern, compiled.flags & ~re.UNICODE]
            ways.add(way)
            places.append(place)
    return found


def used_in(module: ModuleType) -> dict[str, set[str]]:
    """Return of each name there what is asked of it."""
    used: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(parsed(module)):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=way):
                used[name].add(way)
            case ast.Call(func=ast.Name(id=way), args=args) if way in STEPS:
                used |= {
                    arg.id: used[arg.id] | STEPS[way] for arg in args if isinstance(arg, ast.Name)
                }
    return used


@cache
def written() -> Sequence[tuple[str, Any, str]]:
    """Return each call of `re`: where it stands, its expression as far as that is one, and its method."""
    return list(calls())


def calls() -> Iterator[tuple[str, Any, str]]:
    for module in modules():
        if module.__name__ in OPERATORS or "import re\n" not in source(module):
            continue
        for node in ast.walk(parsed(module)):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=way)) if way in {
                    *METHODS,
                    "compile",
                }:
                    try:
                        pattern = eval(ast.unparse(node.args[0]), dict(vars(module)))
                    except NameError:
                        pattern = None
                    yield f"{module.__name__}:re.{way}", pattern, way


def patterns_in(node: Any, depth: int = 4) -> Iterator[re.Pattern[Any]]:
    """Yield the compiled expressions in a constant: in its items, and in the fields of its values."""
    if isinstance(node, re.Pattern):
        yield node
    elif depth and isinstance(node, dict):
        for inner in node.values():
            yield from patterns_in(inner, depth - 1)
    elif depth and isinstance(node, list | tuple | frozenset):
        for inner in node:
            yield from patterns_in(inner, depth - 1)
    elif depth and isinstance(fields := getattr(type(node), "__struct_fields__", None), tuple):
        for field in fields:
            yield from patterns_in(getattr(node, field), depth - 1)


def is_in(content: Sequence[Any], character: str) -> bool:
    negated = found = False
    for kind, told in content:
        if kind is sre.NEGATE:
            negated = True
        elif kind is sre.LITERAL:
            found |= ord(character) == told
        elif kind is sre.RANGE:
            found |= told[0] <= ord(character) <= told[1]
        else:
            word = {"digit": "d", "space": "s", "word": "w"}[str(told).rsplit("_", 1)[1].lower()]
            word = word.upper() if "_NOT_" in str(told) else word
            found |= re.fullmatch(f"\\{word}", character) is not None
    return found != negated


def characters(kind: Any, told: Any) -> list[str]:
    """Return some of those that this part of an expression takes."""
    if kind is sre.LITERAL:
        return [chr(told)]
    if kind is sre.NOT_LITERAL:
        return [one for one in "a0 " if ord(one) != told]
    if kind is sre.ANY:
        return ["a", " ", "."]
    return [one for one in SOME if is_in(told, one)][:4]


def sample(parts: Any, which: int = 0) -> str:
    """Return a text that fits, or nearly."""
    text = ""
    for kind, told in parts:
        if kind in REPEATS:
            text += sample(told[2], which) * told[0]
        elif kind is sre.SUBPATTERN:
            text += sample(told[3], which)
        elif kind is sre.ATOMIC_GROUP:
            text += sample(told, which)
        elif kind is sre.BRANCH:
            text += sample(told[1][which % len(told[1])], which)
        elif kind in {sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN}:
            text += (characters(kind, told) or ["a"])[which % max(1, len(characters(kind, told)))]
    return text


def repeated(parts: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """Yield what leads to each part that is repeated at will, and what it repeats."""
    for kind, told in parts:
        inner: list[Any] = []
        if kind in REPEATS:
            inner = [told[2]]
            if told[1] is sre.MAXREPEAT or told[1] > 50:
                yield from ((before, text) for n in range(5) if (text := sample(told[2], n)))
        elif kind is sre.SUBPATTERN:
            inner = [told[3]]
        elif kind is sre.ATOMIC_GROUP:
            inner = [told]
        elif kind is sre.BRANCH:
            inner = told[1]
        elif kind in {sre.ASSERT, sre.ASSERT_NOT}:
            inner = [told[1]]
        for one in inner:
            yield from repeated(one, before)
        before += sample([(kind, told)])


def texts(pattern: Any, flags: int, longest: int) -> Iterator[str]:
    """Yield what might cost an expression much, the short ones first: some grow beyond all measure."""
    found = dict.fromkeys(repeated(parser.parse(pattern, flags)))
    for length in (30, 600, longest):
        for before, again in found:
            for end in ENDS:
                yield before + again * (length // len(again)) + end
                yield (before + again) * (length // len(before + again)) + end


@pytest.fixture
def no_search_for_garbage() -> Iterator[None]:
    """One among what all modules hold takes longer than any expression."""
    gc.disable()
    yield
    gc.enable()


def took(work: Any, text: Any) -> float:
    began = time.process_time()
    work(text)
    return time.process_time() - began


@pytest.mark.usefixtures("no_search_for_garbage")
def test_no_expression_takes_longer_than_its_text_does() -> None:
    plain = re.compile(r"(?:[^q]|q)*+\Z").fullmatch
    look = min(took(plain, "a" * LENGTH) for _ in range(9))
    slow = {}
    for (pattern, flags), (ways, places) in expressions().items():
        longest = 2 * PHRASES_AT_ONCE if places[0].startswith(PHRASES) else LENGTH
        compiled = re.compile(pattern, flags)
        tried = {"fullmatch"} | ({"search"} if ways - BEGINNINGS else set())
        tried |= {"findall"} if ways & THROUGHOUT else set()
        for text in texts(pattern, flags, longest):
            told = text.encode("latin-1", "replace") if isinstance(pattern, bytes) else text
            if any(took(getattr(compiled, way), told) > MOST * look for way in tried):
                slow[places[0]] = (pattern, text[:40], len(text))
                break
    assert slow == {}


def test_every_expression_can_be_tried() -> None:
    """Made of what a function is given, nobody would find it here: what is, is escaped or our own."""
    assert {place for place, pattern, _ in written() if pattern is None} == {
        "gateway.flow.asking:re.compile",  # of constants, which are tried
        "gateway.flow.credentials:re.search",
        "gateway.pins.phrases:re.compile",
        "gateway.upstream.replies:re.match",  # of an id that is escaped, in a few bytes
        "gateway.upstream.replies:re.search",
    }


def test_nothing_long_is_changed_letter_by_letter() -> None:
    """It is one step, in which no other thread has its turn: `bytes.translate` takes a hundredth of it."""
    found = set()
    for module in modules():
        if module.__name__ in OPERATORS or ".sub" not in source(module):
            continue
        for node in ast.walk(parsed(module)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner, way, args = node.func.value, node.func.attr, list(node.args)
                if way not in {"sub", "subn"} or not isinstance(owner, ast.Name):
                    continue
                pattern = vars(module).get(owner.id)
                if pattern is re:
                    pattern = re.compile(eval(ast.unparse(args.pop(0)), dict(vars(module))))
                # What is called for each find lets others have their turn between.
                if isinstance(pattern, re.Pattern) and isinstance(args[0], ast.Constant):
                    _, most = parser.parse(pattern.pattern, pattern.flags).getwidth()
                    found |= {module.__name__} if most <= NARROW else set()
    assert found == SHORT.keys()
