"""What policy was asked, built again from what a record keeps of it."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gateway.audit.question import LACKS, are_alike, said_by, with_sources
from gateway.audit.redaction import unquoted_source
from gateway.domain._value import value

Path = tuple[str, ...]
"""Member names; `*` stands for every element of a list."""

NEVER: frozenset[Path] = frozenset({
    ("flow", "destinations", "*", "value"),
    ("flow", "links", "*", "value"),
    ("result",),
})  # fmt: skip
"""What no record says; `arguments` only where redaction left them in clear."""

_ASIDE = frozenset({LACKS, "answer"})
"""Members of what is kept that are no part of the question."""

_HASHED = re.compile(r"[hb]\d+:.*", re.DOTALL)
"""What stands for a value that was not written down, and whatever looks like it."""
_TAKEN_OUT = re.compile(r"\[redacted\]|\['(?:[hb]\d+:|\.\.\.'\])")
"""What stands where a secret, or a name that is data, was taken out of a text."""
_CUT = "\u2026"
"""What begins the name or the item in whose place others were left out."""
_GONE = object()


@value
class Rebuilt:
    """A question as far as a record tells it."""

    question: Mapping[str, Any]
    unknown: frozenset[Path]
    """Which of its members were there, or may have been, and are missing from it."""


def rebuilt(record: Mapping[str, Any]) -> Rebuilt | None:
    """Return the question of phase `call` that a record is about; `None` where it keeps none.

    What it does not say is missing, and named.
    """
    question = record.get("question")
    if not isinstance(question, dict):
        return None
    differing = {name: inner for name, inner in question.items() if name not in _ASIDE}
    found = _merged(said_by(record), differing)
    unknown = {tuple(name.split(".")) for name in question.get(LACKS, ())}
    for section, name in unknown:
        found[section].pop(name, None)
    # Names of tools, prompts and resources may hold what no record keeps: then they are not known.
    found = _shown(found, (), unknown, _is_cut_up)
    found["flow"] = with_sources(found["flow"], unquoted_source)
    arguments = record.get("arguments")
    shown = _GONE
    if isinstance(arguments, dict):
        shown = _shown(arguments, ("arguments",), unknown, _is_stand_in)
    if shown is _GONE:
        unknown.add(("arguments",))
    else:
        found["arguments"] = shown
    _take_values(found["flow"].get("destinations", ()), record.get("destinations", ()))
    unknown.update(_unknown_places(found["flow"]))
    return Rebuilt(question=found, unknown=frozenset(unknown))


def _take_values(places: list[dict[str, Any]], recorded: list[dict[str, Any]]) -> None:
    """Put in what the level of redaction left to be read."""
    if len(places) == len(recorded):
        for place, known in zip(places, recorded, strict=True):
            if "value" in known:
                place["value"] = known["value"]


def _unknown_places(flow: Mapping[str, Any]) -> Iterator[Path]:
    for name in ("destinations", "links"):
        if any("value" not in one for one in flow.get(name, ())):
            yield "flow", name, "*", "value"


def _merged(said: Any, differing: Any) -> Any:
    if isinstance(said, dict) and isinstance(differing, dict):
        both = {
            name: _merged(said[name], differing[name]) for name in said.keys() & differing.keys()
        }
        return {**said, **differing, **both}
    if are_alike(said, differing):
        return [_merged(one, other) for one, other in zip(said, differing, strict=True)]
    return differing


def _shown(content: Any, path: Path, unknown: set[Path], is_hidden: Callable[[str], bool]) -> Any:
    """Return `content` as far as it is in clear; `_GONE`, and its path in `unknown`, if it is not."""
    if isinstance(content, dict):
        if any(map(is_hidden, content)):
            unknown.add(path)
            return _GONE
        members = {
            name: _shown(inner, (*path, name), unknown, is_hidden)
            for name, inner in content.items()
        }
        return {name: inner for name, inner in members.items() if inner is not _GONE}
    if isinstance(content, list):
        if any(isinstance(inner, str) and inner.startswith(_CUT) for inner in content):
            unknown.add(path)
            return _GONE
        items = [_shown(inner, (*path, "*"), unknown, is_hidden) for inner in content]
        return [None if inner is _GONE else inner for inner in items]
    if isinstance(content, str) and is_hidden(content):
        unknown.add(path)
        return _GONE
    return content


def _is_stand_in(text: str) -> bool:
    return text.startswith(_CUT) or _HASHED.fullmatch(text) is not None


def _is_cut_up(text: str) -> bool:
    return _TAKEN_OUT.search(text) is not None
