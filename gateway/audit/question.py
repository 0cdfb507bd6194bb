"""What policy was asked, as a record keeps it, and the question built again from the record.

A record says most of a question already, so what is kept of it is the difference. Never kept:
arguments, the values of destinations and links, results, the words of a task, the note of an
approval, the grants of a program.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.question import NOTHING_FOUND, Question
from gateway.domain.quotas import UNCOUNTED

Path = tuple[str, ...]
"""Member names; `*` stands for every element of a list."""

NEVER: frozenset[Path] = frozenset({
    ("flow", "destinations", "*", "value"),
    ("flow", "links", "*", "value"),
    ("result",),
})  # fmt: skip
"""What no record says; `arguments` only where redaction left them in clear."""

_LACKS = "lacks"
_ASIDE = frozenset({_LACKS, "answer"})
"""Members of what is kept that are no part of the question."""

_HASHED = re.compile(r"[hb]\d+:.*", re.DOTALL)
"""What stands for a value that was not written down, and whatever looks like it."""
_TAKEN_OUT = re.compile(r"\[redacted\]|\['(?:[hb]\d+:|\.\.\.'\])")
"""What stands where a secret, or a name that is data, was taken out of a text."""
_QUOTED = "['"
_CUT = "\u2026"
"""What begins the name or the item in whose place others were left out."""
_GONE = object()


@value
class Rebuilt:
    """A question as far as a record tells it."""

    question: Mapping[str, Any]
    unknown: frozenset[Path]
    """Which of its members were there, or may have been, and are missing from it."""


def kept(asked: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a record with `fields` has to keep for `asked` to be built again from it."""
    if not isinstance(asked, Question):
        return _kept(asked, fields)
    # All but the time follows from what is the same in many questions and records.
    told = [fields.get(name) for name in _SUGGESTING]
    found = asked.circumstances.once("kept", told, lambda: _kept(_uncounted(asked), fields))
    usage = {} if asked["usage"] == UNCOUNTED else {"usage": asked["usage"]}
    dlp = {} if asked["dlp"] == NOTHING_FOUND else {"dlp": asked["dlp"]}
    return {
        **found,
        **usage,
        **dlp,
        "context": {**found["context"], "time": asked["context"]["time"]},
    }


def _uncounted(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {name: inner for name, inner in asked.items() if name not in {"usage", "dlp"}}


def _kept(asked: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    lacks: list[str] = []
    said = _said(fields)
    if str(fields.get("target", "")).startswith(_QUOTED):
        # A name of the caller's own making is kept as their arguments are.
        asked = {**asked, "target": {n: m for n, m in asked["target"].items() if n != "name"}}
        lacks.append("target.name")
    for name, content in asked.items():
        if name in {"arguments", "result"}:
            continue
        told = _WITHOUT[name](content, lacks) if name in _WITHOUT else content
        suggested = said.get(name)
        if told != suggested:
            found[name] = _difference(told, suggested)
    if lacks:
        found[_LACKS] = lacks
    return found


def rebuilt(record: Mapping[str, Any]) -> Rebuilt | None:
    """Return the question of phase `call` that a record is about; `None` where it keeps none.

    What it does not say is missing, and named.
    """
    question = record.get("question")
    if not isinstance(question, dict):
        return None
    differing = {name: inner for name, inner in question.items() if name not in _ASIDE}
    found = _merged(_said(record), differing)
    unknown = {tuple(name.split(".")) for name in question.get(_LACKS, ())}
    for section, name in unknown:
        found[section].pop(name, None)
    # Names of tools, prompts and resources may hold what no record keeps: then they are not known.
    found = _shown(found, (), unknown, _is_cut_up)
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


_SUGGESTING: Final = (
    "method", "principal", "client", "origin", "run", "parent", "seq", "script_sha256", "server",
    "target", "effect", "pin_digest", "label_before", "sources", "destinations", "source_ip",
    "revision", "endpoint",
)  # fmt: skip
"""What `_said` looks at."""


def _said(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the question that the other members of a record suggest."""
    get = fields.get
    return {
        "version": 1,
        "phase": "call",
        "method": get("method"),
        "principal": {"sub": get("principal"), "client": {"id": get("client")}},
        "origin": {
            "kind": get("origin"),
            "run": get("run"),
            "parent": get("parent"),
            "seq": get("seq", 0),
            "script_sha256": get("script_sha256"),
            "grants": [],
        },
        "target": {
            "server": get("server"),
            "kind": "tool",
            "name": get("target"),
            "effect": get("effect", ""),
            "annotations": {},
            "pin": {"digest": get("pin_digest"), "status": "approved"},
        },
        "flow": {
            "label": get("label_before"),
            "sources": get("sources", []),
            "destinations": [_place(one) for one in get("destinations", ())],
            "names_where": False,
            "payload": [],
            "links": [],
            "asked_for": None,
            "left_open": False,
            "violations": [],
        },
        "usage": UNCOUNTED,
        "dlp": NOTHING_FOUND,
        "task": {"prompt": None, "tools": None},
        "approval": None,
        "context": {
            "ip": get("source_ip"),
            "revision": get("revision"),
            "endpoint": get("endpoint"),
        },
        "result": None,
    }


def _place(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return a destination of a record as policy is told it, without its value."""
    told = {name: recorded[name] for name in ("path", "proof", "integrity") if name in recorded}
    return {**told, "from": recorded.get("from")}


def _without_grants(origin: Mapping[str, Any], lacks: list[str]) -> Mapping[str, Any]:
    if not origin["grants"]:
        return origin
    lacks.append("origin.grants")
    return {name: inner for name, inner in origin.items() if name != "grants"}


def _without_values(flow: Mapping[str, Any], _: list[str]) -> Mapping[str, Any]:
    if not flow["destinations"] and not flow["links"]:
        return flow
    return {
        **flow,
        "destinations": list(map(_without_value, flow["destinations"])),
        "links": list(map(_without_value, flow["links"])),
    }


def _without_value(destination: Mapping[str, Any]) -> Mapping[str, Any]:
    # An empty one stands for more than could be looked at, and says nothing.
    if not destination["value"]:
        return destination
    return {name: inner for name, inner in destination.items() if name != "value"}


def _without_words(task: Mapping[str, Any], lacks: list[str]) -> Mapping[str, Any]:
    told = [name for name, inner in task.items() if inner is not None]
    lacks += [f"task.{name}" for name in told]
    return {name: inner for name, inner in task.items() if name not in told}


def _without_note(approval: Mapping[str, Any] | None, lacks: list[str]) -> Any:
    if not approval:
        return approval
    lacks.append("approval.note")
    return {name: inner for name, inner in approval.items() if name != "note"}


_WITHOUT: Mapping[str, Any] = {
    "origin": _without_grants,
    "flow": _without_values,
    "task": _without_words,
    "approval": _without_note,
}


def _difference(content: Any, said: Any) -> Any:
    """Return what `_merged` has to be given with `said` to make `content` of it."""
    if isinstance(content, dict) and isinstance(said, dict):
        found = {}
        for name, inner in content.items():
            if name not in said:
                found[name] = inner
            elif inner != said[name]:
                found[name] = _difference(inner, said[name])
        return found
    if _alike(content, said):
        return [_difference(one, other) for one, other in zip(content, said, strict=True)]
    return content


def _merged(said: Any, differing: Any) -> Any:
    if isinstance(said, dict) and isinstance(differing, dict):
        both = {
            name: _merged(said[name], differing[name]) for name in said.keys() & differing.keys()
        }
        return {**said, **differing, **both}
    if _alike(said, differing):
        return [_merged(one, other) for one, other in zip(said, differing, strict=True)]
    return differing


def _alike(one: Any, other: Any) -> bool:
    """Whether these are lists of equally many objects, which are compared one by one."""
    return (
        isinstance(one, list | tuple)
        and isinstance(other, list | tuple)
        and len(one) == len(other) > 0
        and isinstance(one[0], dict)
        and isinstance(other[0], dict)
    )


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
