"""How the desk tells of records: a sentence of ours for each, what counted, and which columns say it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from gateway.admin.names import Names
from gateway.admin.rows import Row, Rows

_SENTENCES: Mapping[tuple[str, str], str] = {
    ("intent", ""): "A call was let out",
    ("outcome", "allow"): "A call came back",
    ("outcome", "ask"): "A call was held for a person",
    ("outcome", "deny"): "A call was refused",
    ("outcome", "error"): "A call went wrong",
    ("list", ""): "A list was given out",
    ("approval", ""): "A question to a person",
    ("pin", ""): "A definition",
    ("admin", "allow"): "Somebody with a role acted",
    ("admin", "deny"): "Somebody was refused at an administrator's door",
    ("auth", "allow"): "Somebody came in",
    ("auth", "deny"): "Somebody was not let in",
    ("policy", ""): "The policy",
    ("config", ""): "The configuration",
    ("run", ""): "A run",
    ("token", ""): "A token",
    ("system", ""): "The gateway itself",
    ("gap", ""): "Records that are missing",
}
_SHOWN = ("verdict", "code", "principal", "client", "server", "target", "method", "reasons")
"""Members that a page shows, which not every record has."""
_APART = frozenset({"id", "time", "kind", "verdict", "code", "reasons", "leaf_index", "leaf_hash"})
_BY_RULES = frozenset({"denied", "approval_required"})
"""Codes of refusals that policy made; any other says what stood in the way by itself."""
_SAID_NO = "person_said_no"
_PINS: Mapping[str, tuple[str, str]] = {
    "pin_pending": ("The pin: nobody has approved this definition.", "Look at it"),
    "pin_drift": (
        "The pin: the server shows another definition than the one that was approved.",
        "What changed",
    ),
    "pin_revoked": ("The pin: its approval was taken back.", "Look at it"),
    "pin_mismatch": ("The pin: it changed between a look and the answer.", "What changed"),
}
"""By the code of a refusal, what counted, and what the way to it is called."""
_KINDS: Mapping[str, str] = {
    "tools/call": "tool",
    "prompts/get": "prompt",
    "resources/read": "resource",
    "tool": "tool",
    "prompt": "prompt",
    "resource": "resource",
    "template": "template",
    "server": "server",
}
"""By a record's method, what a definition is of; a record of a pin names that itself."""
_FEWEST_DRAWN, _PARTS = 3, 48
"""Rows that are drawn over time, and into how many parts."""


def sentenced(row: Row, names: Names) -> Row:
    """Return a record with a sentence of ours that says what it is, and whom people call what."""
    kind, verdict = str(row.get("kind")), str(row.get("verdict") or "")
    told = _SENTENCES.get((kind, verdict)) or _SENTENCES.get((kind, "")) or f"A record of {kind}"
    who, via = names.principal(row.get("principal")), names.client(row.get("client"))
    return {**dict.fromkeys(_SHOWN), **row, "told": told, "who": who, "via": via}


def facts(row: Row) -> list[tuple[str, Any]]:
    """Return what else a record says, as it stands there: what is hashed stays so."""
    return [(name, told) for name, told in row.items() if name not in _APART and told is not None]


def why(row: Row) -> list[Row]:
    """Return a record's reasons, policy's own before the one that says no more than the code."""
    reasons = list(row.get("reasons") or [])
    return sorted(reasons, key=lambda one: one.get("code") in _BY_RULES)


def most_telling(row: Row) -> str:
    """Return the reason to show where there is room for one: its words, else a code."""
    if (code := row.get("code")) in _PINS:
        return _PINS[str(code)][0]
    reasons = why(row)
    if reasons:
        return str(reasons[0].get("message") or reasons[0].get("code") or "")
    return str(row.get("code") or "")


def counted(row: Row) -> Row | None:
    """Return what a refusal rests on where that is no rule of policy's, and the way to it.

    `said` in words; `about`, where it is a definition, what names it; `opinion` what policy said,
    which did not count.
    """
    code = str(row.get("code") or "")
    if is_a_persons(row):
        said, link = "A person's answer: they were asked, and said no.", ""
    elif row.get("verdict") not in {"deny", "error"} or not code or code in _BY_RULES:
        return None
    else:
        said, link = _PINS.get(code, ("No rule of policy's: the gateway itself refused.", ""))
    answer = (row.get("question") or {}).get("answer") or {}
    return {
        "said": said,
        "link": link,
        "about": definition(row) if link else None,
        "opinion": answer.get("verdict"),
    }


def is_a_persons(row: Row) -> bool:
    """Whether a call was refused because a person who was asked had said no."""
    return any(one.get("code") == _SAID_NO for one in row.get("reasons") or ())


def definition(row: Row) -> Mapping[str, str] | None:
    """Return what names the definition that a record is about, if it is about one."""
    kind = _KINDS.get(str(row.get("method")))
    if kind is None or not row.get("server") or not row.get("target"):
        return None
    return {"server": str(row["server"]), "kind": kind, "name": str(row["target"])}


def over_time(rows: Rows) -> tuple[list[int], tuple[str, str]]:
    """Return how many rows fall into each part of the time that they span, and that time."""
    times = sorted(str(row["time"]) for row in rows if row.get("time"))
    if len(times) < _FEWEST_DRAWN:
        return [], ("", "")
    moments = [datetime.fromisoformat(one).timestamp() for one in times]
    whole = max(moments[-1] - moments[0], 1e-6)
    parts = [0] * _PARTS
    for one in moments:
        parts[min(int(_PARTS * (one - moments[0]) / whole), _PARTS - 1)] += 1
    return parts, (times[0], times[-1])


_UNREAD = frozenset({"leaf_hash", "record", "leaf_index", "outcome", "question", "id"})
_RECORDS: Mapping[str, str] = {
    "time": "When",
    "who": "Who",
    "what": "What",
    "server": "Server",
    "verdict": "Verdict",
    "why": "Why",
}
_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "denied": _RECORDS,
    "timeline": _RECORDS,
    "where-went": {**_RECORDS, "where": "Where it stands"},
    "sent-outside": {
        "time": "When",
        "who": "Who",
        "what": "What",
        "server": "Server",
        "to": "To",
        "verdict": "Verdict",
        "by": "Approved by",
    },
}
"""By the question, what a person reads first of its rows; of any other question all of them."""


def columns(question: str, rows: Rows, *, wide: bool) -> Mapping[str, str]:
    """Return the members of an answer's rows to show, in their order, and what each is headed by."""
    if not wide and question in _COLUMNS:
        return _COLUMNS[question]
    found = dict.fromkeys(name for row in rows for name in row if name not in _UNREAD)
    return {name: name.replace("_", " ") for name in found}


def is_cut(question: str) -> bool:
    """Whether the rows of an answer say more than is shown of them at first."""
    return question in _COLUMNS


def in_short(row: Row, names: Names) -> Row:
    """Return a row of an answer with what `columns` names."""
    approval = row.get("approval") or {}
    return {
        **row,
        "who": names.principal(row.get("principal")),
        "what": row.get("target") or row.get("tool") or row.get("method"),
        "why": most_telling(row),
        "to": _places(row.get("destinations") or []),
        "by": approval.get("by"),
    }


def named(row: Row, names: Names) -> Row:
    """Return a row with what people call its principal and client in place of their ids."""
    told = {"principal": names.principal, "client": names.client}
    shown = {one: name(row[one]) for one, name in told.items() if one in row}
    if "name" in row:  # of a count: of a tool, or of whoever calls
        shown["name"] = names.client(names.principal(row["name"]))
    return {**row, **shown}


def _places(destinations: Sequence[Mapping[str, Any]]) -> str:
    told = (str(one.get("value") or one.get("path") or "") for one in destinations)
    return ", ".join(filter(None, told))
