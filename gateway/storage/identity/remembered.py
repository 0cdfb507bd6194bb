"""Rows of a table that are held in memory as values, and how values stand in rows."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import msgspec

T = TypeVar("T")

Row = tuple[Any, ...]


class Remembered(Generic[T]):
    """Values by the first column of their rows.

    A value is replaced only if its row is another: whoever keeps one sees by `is` whether it still
    holds. `values` is replaced as a whole, so any thread may read it at any time.
    """

    def __init__(self, read: Callable[[Row], T]) -> None:
        self._read = read
        self._rows: Mapping[str, Row] = {}
        self.values: Mapping[str, T] = {}

    def fill(self, rows: Iterable[Row]) -> None:
        """Hold these and nothing else."""
        before, values = self._rows, self.values
        self._rows = {row[0]: row for row in rows}
        self.values = {
            key: values[key] if before.get(key) == row else self._read(row)
            for key, row in self._rows.items()
        }

    def put(self, row: Row) -> None:
        """Hold this one, too, or in place of an earlier one."""
        key = row[0]
        if self._rows.get(key) != row:
            self._rows = {**self._rows, key: row}
            self.values = {**self.values, key: self._read(row)}

    def drop(self, keys: Iterable[str]) -> None:
        """Hold these no longer."""
        gone = frozenset(keys)
        self._rows = {key: row for key, row in self._rows.items() if key not in gone}
        self.values = {key: held for key, held in self.values.items() if key not in gone}


class Columns(Generic[T]):
    """How values of one class stand in a table: each field in the column of its name.

    A flag is 0 or 1; what has members, and is no text, stands there as JSON, sets in their order.
    """

    def __init__(self, made: type[T], table: str, *, only: Sequence[str] = ()) -> None:
        """`only` are the columns, where the table has not all. Their names are ours, never somebody's text."""
        self._made = made
        hints = get_type_hints(made)
        self.names = tuple(only or hints)
        self._spelled = frozenset(name for name in self.names if _has_members(hints[name]))
        self._flags = frozenset(name for name in self.names if hints[name] is bool)
        self.list = ", ".join(self.names)
        self.select = f"SELECT {self.list} FROM {table}"  # noqa: S608 - fixed names
        """To be continued."""
        self.insert = insert_into(table, self.names)

    def row(self, one: T) -> Row:
        """Return the row of a value."""
        held = msgspec.to_builtins(one, order="deterministic")
        held |= {name: int(held[name]) for name in self._flags}
        held |= {n: json.dumps(held[n]) for n in self._spelled if held[n] is not None}
        return tuple(held.values())

    def value(self, row: Row) -> T:
        """Return the value that stands in a row.

        Raises:
            ValueError: None stands there.

        """
        held = dict(zip(self.names, row, strict=True))
        held |= {name: bool(held[name]) for name in self._flags}
        held |= {n: json.loads(held[n]) for n in self._spelled if held[n] is not None}
        return msgspec.convert(held, self._made)


def _has_members(hint: Any) -> bool:
    """Tell whether a field of this type holds a collection, or a value of ours."""
    parts = [part for part in get_args(hint) if part is not NoneType] or [hint]
    return get_origin(hint) in (frozenset, tuple) or any(
        isinstance(part, type) and issubclass(part, msgspec.Struct) for part in parts
    )


def listed(words: Iterable[str]) -> str:
    """Return words in their order, as a column holds them."""
    return json.dumps(list(words))


def insert_into(table: str, columns: Sequence[str]) -> str:
    """Return the statement that inserts one row. The names are ours, never somebody's text."""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608 - fixed names
