"""The fields that a filter of the audit log may name, and how each of them is read."""

from collections.abc import Mapping
from enum import StrEnum

from gateway.audit.record import COLUMNS
from gateway.audit.record import FIELDS as _OF_RECORDS


class Type(StrEnum):
    TEXT = "text"
    NUMBER = "number"
    TIME = "time"
    STRUCTURE = "structure"


_NUMBERS = frozenset({"upstream_status", "result_bytes", "duration_us", "seq", "leaf_index"})
_STRUCTURES = frozenset({
    "arguments", "roles", "obligations", "label_before", "label_after", "owes", "sources", "destinations",
    "reasons", "charged", "question", "candidate", "evidence", "truncated",
})  # fmt: skip


def _sql_of(name: str) -> str:
    if name == "leaf_hash":
        return "lower(hex(leaf_hash))"
    if name == "time":
        return "time_us"
    if name in COLUMNS or name == "leaf_index":
        return name
    return f"json_extract(body, '$.{name}')"


def _type_of(name: str) -> Type:
    if name == "time":
        return Type.TIME
    if name in _NUMBERS:
        return Type.NUMBER
    return Type.STRUCTURE if name in _STRUCTURES else Type.TEXT


FIELDS: Mapping[str, tuple[str, Type]] = {
    name: (_sql_of(name), _type_of(name)) for name in (*_OF_RECORDS, "leaf_index", "leaf_hash")
}
"""Every field that a filter may name, and the SQL that reads it: nothing else becomes SQL."""

LISTED = f"fields: {', '.join(sorted(FIELDS))}"
CONTENT = frozenset({"arguments", "destinations", "question", "candidate", "evidence"})
"""Structures in which values of calls stand, hashed where the log has them so."""
