"""The record that says which records have left the log, and what they were."""

from collections.abc import Mapping
from typing import Any

import orjson

from gateway.audit.record import COLUMNS
from gateway.domain._value import value

CODE = "log_pruned"

_KIND = COLUMNS.index("kind")
_CODE = COLUMNS.index("code")


@value
class Removal:
    """That all records before `stop` may be gone, and the root over them."""

    stop: int
    root: bytes

    def members(self, first: int) -> Mapping[str, Any]:
        """Return it as a record's evidence; the records before `first` were gone already."""
        return {"from": first, "to": self.stop, "root": self.root.hex()}


def removal_in(columns: tuple[Any, ...], body: bytes) -> Removal | None:
    """Return what a record says of a removal; `None` if it is about something else."""
    if columns[_KIND] != "system" or columns[_CODE] != CODE:
        return None
    try:
        evidence = orjson.loads(body)["evidence"]
        return Removal(stop=int(evidence["to"]), root=bytes.fromhex(evidence["root"]))
    except (KeyError, TypeError, ValueError):
        return None
