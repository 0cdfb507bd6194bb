"""Lines under `dlp` of a policy's data that say nothing: a class that there is not, a word that is none."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from gateway.dlp.classes import GROUPS
from gateway.policy.lint import like

_PLACES = frozenset({"home", "task", "place", "inside", "anywhere"})
_OF_NAMES = frozenset({"names", "person", "address"})
_OTHERWISE = frozenset({"ask", "deny"})
_SHOWN = frozenset({"show", "mask", "tokenize", "drop", "withhold"})


def absent_in_dlp(dlp: Any, classes: Collection[str]) -> list[str]:
    """Return what `dlp` of the policy's data names that is not there: such a line says nothing.

    `classes` are those of sensitive data, and their groups; of none, nobody said which there are.
    """
    found = []
    for table, name, row in _rows(dlp):
        where = f"data.douane.dlp.{table}.{name}"
        if classes and name not in classes:
            found.append(f"{where}: no class or group is called so{like(name, classes)}")
        found += [f"{where}: {text}" for text in _of_row(table, row)]
    return found


def unsaid_in_dlp(data: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with `dlp` of a policy's data whatever the configuration says.

    Which classes of an operator's own there are, only that says.
    """
    douane = data.get("douane")
    dlp = douane.get("dlp") if isinstance(douane, dict) else None
    own = {name for _, name, _ in _rows(dlp) if name.startswith("own")}
    return absent_in_dlp(dlp, {*GROUPS, *GROUPS.values(), *_OF_NAMES, *own})


def _rows(dlp: Any) -> Iterator[tuple[str, str, Any]]:
    for table in ("arguments", "results"):
        rows = dlp.get(table) if isinstance(dlp, dict) else None
        for name, row in rows.items() if isinstance(rows, dict) else ():
            yield table, name, row


def _of_row(table: str, row: Any) -> Iterator[str]:
    if table == "results":
        if not isinstance(row, str) or row not in _SHOWN:
            yield f"is {', '.join(sorted(_SHOWN))}"
        return
    to, otherwise = (row.get("to"), row.get("otherwise")) if isinstance(row, dict) else (None, None)
    if not isinstance(to, list) or not _PLACES.issuperset(map(str, to)):
        yield f"`to` is a list of {', '.join(sorted(_PLACES))}"
    if otherwise not in _OTHERWISE:
        yield "`otherwise` is ask or deny"
