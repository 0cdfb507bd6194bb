"""What is written down: records, their place in the log, and the log's signed head."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, Final

from gateway.domain._value import value


class RecordKind(StrEnum):
    INTENT = "intent"
    OUTCOME = "outcome"
    AUTH = "auth"
    TOKEN = "token"  # noqa: S105 - a kind of record
    LIST = "list"
    PIN = "pin"
    POLICY = "policy"
    CONFIG = "config"
    APPROVAL = "approval"
    ADMIN = "admin"
    RUN = "run"
    SYSTEM = "system"
    GAP = "gap"


@value
class AuditRecord:
    """One event. `fields` are the contract's, by name; absent ones are left out.

    The log adds `log_id`, `id` where the record has none, `leaf_index` and `leaf_hash`.
    """

    kind: RecordKind
    time: float
    """Seconds since the epoch."""
    id: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    stands: dict[str, tuple[Any, ...]] = field(default_factory=dict, compare=False, repr=False)
    """What stands for members in an earlier record of the same call, kept by whoever writes them."""
    whose: str = field(default="", compare=False, repr=False)
    """Whose turn it takes to write much down: the `Principal.person` whose call it is about."""
    tool: str = field(default="", compare=False, repr=False)
    """The tool that it is about, by whatever message: its level says what may be written down."""


UNPLACED: Final = -1
"""No place yet: where many gateways write, one of them orders what they wrote, a moment later."""


@value
class LogEntry:
    """A record that is durable, and where it stands (RFC 9162 section 2.1)."""

    id: str
    leaf_index: int = UNPLACED


@value
class TreeHead:
    """The state of a log: its size and root hash, signed (C2SP checkpoint)."""

    log_id: str
    size: int
    root: bytes
    note: str
    """The signed note, as it leaves the machine."""
