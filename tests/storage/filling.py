"""A row or more in every table that a move takes along, by what SQLite's own schema says of its columns."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from gateway.domain.tools import Pin
from gateway.storage.database import DATABASE
from gateway.storage.identity.database import DATABASE as IDENTITY_DATABASE
from gateway.storage.moving.tables import BEFORE_THE_FRONT, IDENTITY, PINS, STATE, Form, Kept
from gateway.storage.pin_rows import PinRows
from tests.storage.suite import NOW, approved, pending, target

ROWS: Final = 3
ODD: Final = ("plain", "caf\u00e9 \u202e\U0001f510", "nul \x00 and \x10")
"""Texts, of which the last is none that PostgreSQL can hold."""
_OTHERS: Final = {"user_id": "users", "grant_id": "grants", "script": "scripts", "run": "runs"}
"""Columns that name a row of another table."""
_LISTS: Final = {"redirect_uris", "grants", "resources", "scopes", "groups"}
_FAR: Final = (1 << 20, 1 << 21, 1 << 22)
_SAID: Final[dict[tuple[str, str], tuple[Any, ...]]] = {
    ("archives", "first"): _FAR,
    ("usage", "under"): ('["a","b"]', '["caf\u00e9"]', "[]"),
    ("usage", "begin"): (0, 60, 120),
    ("signing_keys", "state"): ("retired", "retired", "retired"),
    ("clients", "kind"): ("registered", "dynamic", "registered"),
    ("clients", "auth_methods"): ('["none"]',) * ROWS,
    ("runs", "integrity"): (0, 1, 0),
    ("run_sources", "integrity"): (0, 1, 0),
    ("plane_debts", "integrity"): ("trusted", "untrusted", "trusted"),
    ("plane_debts", "confidentiality"): ("public", "private", "internal"),
    ("server_choices", "names"): ('["mail"]', "[]", '["caf\u00e9"]'),
    ("server_choices", "runs"): ('["r"]', "[]", '["caf\u00e9"]'),
    ("holds", "first"): _FAR,
    ("cursors", "leaf_index"): _FAR,
}


def fill(data_dir: Path) -> None:
    """Have `ROWS` more rows in each table beside the log's own, and lines of a witness that nobody asks."""
    for name, tables in (
        (DATABASE, (*BEFORE_THE_FRONT, *STATE)),
        (IDENTITY_DATABASE, IDENTITY),
    ):
        with closing(sqlite3.connect(data_dir / name)) as connection:
            for kept in tables:
                if kept is PINS:
                    _pins(connection)
                elif kept.name == "cosignatures":
                    _cosigned(connection)
                else:
                    _fill(connection, kept)
            connection.commit()
    with closing(sqlite3.connect(data_dir / DATABASE)) as connection:
        # As it was before checkpoints were linked.
        connection.execute(
            "UPDATE checkpoints SET previous = NULL, link = NULL"
            " WHERE size = (SELECT min(size) FROM checkpoints)"
        )
        connection.commit()


def pins() -> list[Pin]:
    """Return pins under names that are no texts of PostgreSQL's, too."""
    names = [replace(target(), name=f"send {odd}") for odd in ODD]
    return [approved(names[0]), pending(names[1]), approved(names[2])]


def _pins(connection: sqlite3.Connection) -> None:
    for pin in pins():
        PinRows().write(connection, pin)


def _cosigned(connection: sqlite3.Connection) -> None:
    line = "\u2014 witness.example " + "A" * 92 + "\n"
    connection.execute(
        "INSERT INTO cosignatures (size, witness, line) SELECT size, 'witness', ? FROM checkpoints",
        (line,),
    )


def _fill(connection: sqlite3.Connection, kept: Kept) -> None:
    types = dict(connection.execute("SELECT name, type FROM pragma_table_info(?)", (kept.name,)))
    names = [column.name for column in kept.columns]
    places = ", ".join("?" * len(names))
    sql = f"INSERT INTO {kept.name} ({', '.join(names)}) VALUES ({places})"
    flags = {column.name for column in kept.columns if column.form is Form.FLAG}
    for number in range(ROWS):
        row = [
            number % 2 if name in flags else _value(kept, name, types[name], number)
            for name in names
        ]
        connection.execute(sql, row)


def _value(kept: Kept, name: str, kind: str, number: int) -> Any:
    if (kept.name, name) in _SAID:
        return _SAID[kept.name, name][number]
    if name in _LISTS:
        return f'["{name} {number}"]'
    if kind == "TEXT" and (name in _OTHERS or name == "id"):
        return f"{_OTHERS.get(name, kept.name)}-{number}"
    return {
        "TEXT": f"{kept.name} {name} {number} {ODD[number]}",
        "INTEGER": number,
        "REAL": NOW + number / 7,
        "BLOB": bytes((number, 0, 255)),
    }[kind]
