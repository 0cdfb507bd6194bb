"""Which records people are told of by webhooks, and what they are told: names, and nothing else."""

import shlex
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

import orjson

from gateway.behaviour.deviations import CODES
from gateway.domain._value import value
from gateway.export.witness import DISAGREES
from gateway.ports.following import StoredRecord

_KINDS = tuple(
    f'"kind":"{kind}"'.encode() for kind in ("approval", "pin", "policy", "system", "gap")
)
_ANSWERS = frozenset({"asked", "allowed", "denied"})
_NAMED = (
    "log_id", "id", "kind", "code", "verdict", "principal", "client", "server", "target",
    "approval_id", "run",
)  # fmt: skip
PAGE: Final = "page"
"""Code of the reason that names the page on which a question is answered."""
_LONGEST_NAME = 128
"""Characters: names of definitions that nobody has approved are whatever their server says."""

DAY_S: Final = 86400.0


@value
class Message:
    """What a receiver is sent about one record."""

    id: str
    """The record's: the same however often it is sent, and for every receiver."""
    event: str
    """The word for it in the configuration."""
    type: str
    time: float
    """When it happened: seconds since the epoch."""
    body: bytes
    useful_s: float
    """For how long after that it is of any use."""


def message_of(record: StoredRecord, *, approval_s: float, desk: str = "") -> Message | None:
    """Return what is told of a record; `None` if nothing is.

    `approval_s` is for how long a question waits: nobody is told of it after that. `desk` is the
    origin of the pages that show the rest; empty where there are none.
    """
    if not any(kind in record.body for kind in _KINDS):
        return None
    members = orjson.loads(record.body)
    found = _event(members)
    if found is None:
        return None
    event, type_ = found
    named = {name: _short(members[name]) for name in _NAMED if name in members}
    data = {
        **named,
        **_page(members, desk),
        "leaf_index": record.leaf_index,
        "command": _command(members),
    }
    told = {"type": type_, "timestamp": members["time"], "data": data}
    return Message(
        id=members["id"],
        event=event,
        type=type_,
        time=datetime.fromisoformat(members["time"]).timestamp(),
        body=orjson.dumps(told),
        useful_s=approval_s if type_ == "approval.asked" else DAY_S,
    )


def ping(id_: str, at: str) -> bytes:
    """Return the body of a message by which a receiver is tried."""
    return orjson.dumps({"type": "ping", "timestamp": at, "data": {"id": id_}})


def _event(members: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the configuration's word for what happened, and its type."""
    kind, code = members.get("kind"), members.get("code")
    if kind == "approval" and code in _ANSWERS:
        return "approval", f"approval.{code}"
    if kind == "pin" and code == "changed" and members.get("verdict") != "approve":
        return "drift", "pin.changed"
    if kind == "system" and code in CODES:
        return "anomaly", f"anomaly.{code}"
    if kind == "policy" and code == "refused":
        return "policy", "policy.refused"
    if kind == "gap" or (kind == "system" and code == DISAGREES):
        return "audit", "audit.gap" if kind == "gap" else "audit.witness"
    return None


def _page(members: Mapping[str, Any], desk: str) -> Mapping[str, Any]:
    """Return as `url` the page that shows it: of a question the one that its record names."""
    if members["kind"] == "approval":
        reasons = members.get("reasons") or ()
        found = next((one["message"] for one in reasons if one.get("code") == PAGE), None)
        return {} if found is None else {"url": found}
    if not desk:
        return {}
    if members["kind"] == "pin":
        named = {name: members.get(member, "") for name, member in _OF_A_PIN.items()}
        return {"url": f"{desk}/desk/pins/one?{urlencode(named)}"}
    return {"url": f"{desk}/desk/record/{quote(members['id'], safe='')}"}


_OF_A_PIN = {"server": "server", "name": "target"}


def _command(members: Mapping[str, Any]) -> str:
    """Return the command that shows more, safe to paste into a shell."""
    if members["kind"] == "approval" and members.get("approval_id"):
        return shlex.join(["douane", "approvals", "show", members["approval_id"]])
    if members["kind"] == "pin":
        named = [_short(members.get(name, "")) for name in ("server", "target")]
        return shlex.join(["douane", "pins", "diff", *named])
    return shlex.join(["douane", "audit", "show", members["id"]])


def _short(name: Any) -> Any:
    return name[:_LONGEST_NAME] if isinstance(name, str) else name
