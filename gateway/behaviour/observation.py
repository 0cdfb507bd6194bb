"""What the baselines look at: calls of tools, taken from the records of how they ended."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import orjson

from gateway.domain._value import value
from gateway.domain.flow import source_name

OUTCOME: Final = b'"kind":"outcome"'
"""What the bytes of a record must hold to be looked at; all others are passed over unread."""

_CALL = "tools/call"
_REFUSED = frozenset({"deny", "ask"})
_SENDING = frozenset({"egress", "pay"})
_MOST_DESTINATIONS = 64
_LONGEST = 80
"""Characters of a keyed hash: its key's name and 256 bits."""


@value
class Observation:
    """One call of a server's tool, as it ended."""

    leaf_index: int
    record: str
    """The record's id."""
    time: float
    """Seconds since the epoch."""
    principal: str
    client: str
    server: str
    tool: str
    """Empty where the call named none that there is; cut if it is long, for it is kept for weeks."""
    refused: bool
    destinations: tuple[str, ...] = ()
    """Keyed hashes of whom data went to; the server's name where it sends and nobody knows whom."""


def observed(leaf_index: int, body: bytes) -> Observation | None:
    """Return the call that a stored record tells of; `None` if it tells of none.

    Calls of the gateway's own tools are none: what they lead to is recorded as calls of its own.
    """
    if OUTCOME not in body:
        return None
    record = orjson.loads(body)
    if not (
        record.get("kind") == "outcome"
        and record.get("method") == _CALL
        and record.get("principal")
        and record.get("server")
    ):
        return None
    refused = record.get("verdict") in _REFUSED
    return Observation(
        leaf_index=leaf_index,
        record=record["id"],
        time=datetime.fromisoformat(record["time"]).timestamp(),
        principal=record["principal"],
        client=record.get("client") or "",
        server=record["server"],
        tool=source_name(record.get("target") or ""),
        refused=refused,
        destinations=() if refused else _destinations(record),
    )


def _destinations(record: Mapping[str, Any]) -> tuple[str, ...]:
    told = record.get("destinations")
    hashed = {
        one["value_hmac"][:_LONGEST]
        for one in (told if isinstance(told, list) else ())[:_MOST_DESTINATIONS]
        if isinstance(one, dict) and isinstance(one.get("value_hmac"), str)
    }
    if not hashed and record.get("effect") in _SENDING:
        return (record["server"],)
    return tuple(sorted(hashed))
