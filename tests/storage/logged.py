"""A log of a few records, its index and what can be asked of it, on the disk."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from gateway.domain.audit import AuditRecord, RecordKind
from gateway.storage.answers import Answers
from gateway.storage.database import DATABASE
from gateway.storage.index import AuditIndex
from gateway.storage.store import Store

NOW = 1_800_000_000.0
HOUR = 3600.0
DAY = 24 * HOUR
AFTER_ALL = (1 << 62, 1 << 62)

TO_OTHERS = ({"path": "$.to", "proof": "none", "integrity": "untrusted"},)
TO_US = ({"path": "$.to", "proof": "tenant", "integrity": "trusted"},)
FROM_CRM = ({"server": "crm", "tool": "read", "record": "r3"},)

Event = tuple[str, float, Mapping[str, Any]]


def call(decision: str, **fields: Any) -> dict[str, Any]:
    """The fields of a call that was let through."""
    known = {
        "principal": "emma",
        "client": "c_1",
        "server": "mail",
        "target": "send",
        "effect": "egress",
        "verdict": "allow",
        "decision_id": f"d_{decision:0>30}",
    }
    return known | fields


def made(decision: str, at: float = NOW, **fields: Any) -> list[Event]:
    """Both records of a call that was let through."""
    return [("intent", at, call(decision, **fields)), ("outcome", at + 1, call(decision, **fields))]


def refused(decision: str, at: float = NOW, **fields: Any) -> list[Event]:
    """The one record of a call that policy refused."""
    reasons = [{"code": "rule_a", "message": "private data would leave"}]
    known = {"verdict": "deny", "code": "denied", "reasons": reasons}
    return [("outcome", at, call(decision, **(known | fields)))]


async def write(folder: Path, events: Sequence[Event], *, begin: int = 0) -> None:
    """Write events to the log in `folder`; the id of each is its number."""
    store = await Store.open(folder, clock=lambda: NOW)
    try:
        await append(store, events, begin=begin)
    finally:
        await store.close()


async def append(store: Store, events: Sequence[Event], *, begin: int = 0) -> None:
    """Write events to the log of `store`, as `write` does."""
    for number, (kind, time, fields) in enumerate(events, begin):
        await store.audit.append(
            AuditRecord(kind=RecordKind(kind), time=time, id=f"r{number}", fields=fields)
        )


def remove_before(folder: Path, first: int) -> None:
    """Remove from the log what stands before `first`, as retention does in the end."""
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        connection.execute("DROP TRIGGER IF EXISTS audit_is_never_deleted")
        connection.execute("DELETE FROM audit WHERE leaf_index < ?", (first,))
        connection.commit()


@contextmanager
def indexed(folder: Path) -> Iterator[Answers]:
    """Give what answers questions once the index has all records."""
    with closing(AuditIndex.open(folder)) as index:
        assert index.catch_up(lambda: False).complete
        with closing(Answers.open(folder)) as answers:
            yield answers
