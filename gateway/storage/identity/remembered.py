"""Rows of a table that are held in memory as values, and how values stand in rows."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

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


def listed(words: Iterable[str]) -> str:
    """Return words in their order, as a column holds them."""
    return json.dumps(list(words))


def words(column: str) -> tuple[str, ...]:
    """Return what `listed` wrote."""
    return tuple(json.loads(column))


def insert_into(table: str, columns: Sequence[str]) -> str:
    """Return the statement that inserts one row. The names are ours, never somebody's text."""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608 - fixed names


def select_from(table: str, columns: Sequence[str]) -> str:
    """Return the statement that reads rows, to be continued. The names are ours."""
    return f"SELECT {', '.join(columns)} FROM {table}"  # noqa: S608 - fixed names
