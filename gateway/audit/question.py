"""What policy was asked, as a record keeps it; `gateway.audit.rebuilt` builds it again.

A record says most of a question already, so what is kept of it is the difference. Never kept:
arguments, the values of destinations and links, results, the words of a task, the note of an
approval, the grants of a program. What a caller named is quoted, for the record's level to cover.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.audit.redaction import quoted_source
from gateway.domain.question import NOTHING_FOUND, Question
from gateway.domain.quotas import UNCOUNTED

LACKS = "lacks"
"""What of what is kept says which members of the question were there, and are not kept."""
_QUOTED = "['"


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
    said = said_by(fields)
    said["flow"] = with_sources(said["flow"], quoted_source)
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
        found[LACKS] = lacks
    return found


_SUGGESTING: Final = (
    "method", "principal", "client", "origin", "run", "parent", "seq", "script_sha256", "server",
    "target", "effect", "pin_digest", "label_before", "sources", "destinations", "source_ip",
    "revision", "endpoint",
)  # fmt: skip
"""What `said_by` looks at."""


def said_by(fields: Mapping[str, Any]) -> dict[str, Any]:
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


def with_sources(flow: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return what is told of a flow with all the sources that it names, wherever, as `change` has them."""
    changed = dict(flow)
    for name in ("destinations", "links"):
        if name in flow:
            changed[name] = [
                {**one, "from": change(one["from"])} if "from" in one else one for one in flow[name]
            ]
    if "sources" in flow:
        changed["sources"] = [change(one) for one in flow["sources"]]
    return changed


def _without_values(flow: Mapping[str, Any], _: list[str]) -> Mapping[str, Any]:
    flow = with_sources(flow, quoted_source)
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
    """Return what makes `content` of `said` where it is merged into it."""
    if isinstance(content, dict) and isinstance(said, dict):
        found = {}
        for name, inner in content.items():
            if name not in said:
                found[name] = inner
            elif inner != said[name]:
                found[name] = _difference(inner, said[name])
        return found
    if are_alike(content, said):
        return [_difference(one, other) for one, other in zip(content, said, strict=True)]
    return content


def are_alike(one: Any, other: Any) -> bool:
    """Whether these are lists of equally many objects, which are compared one by one."""
    return (
        isinstance(one, list | tuple)
        and isinstance(other, list | tuple)
        and len(one) == len(other) > 0
        and isinstance(one[0], dict)
        and isinstance(other[0], dict)
    )
