"""The tables that tests begin with are those that the migrations make."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from gateway.storage import schema
from tests import tables

_RAN = 'INSERT INTO "_sqlite_migrations"'
"""When each of them ran is in its row."""


def made(path: Path, by: Any, *which: Any) -> list[str]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        by(connection, *which)
        return [
            line.split(",")[0] if line.startswith(_RAN) else line for line in connection.iterdump()
        ]


@pytest.mark.parametrize("which", [(), (schema.IDENTITY,)], ids=["the log", "identities"])
def test_a_copy_is_what_the_migrations_make(tmp_path: Path, which: tuple[Any, ...]) -> None:
    copied = made(tmp_path / "copied", tables.copied, *which)
    assert copied == made(tmp_path / "migrated", schema.migrate, *which)
    assert len(copied) > 20


def test_what_holds_something_is_brought_up_to_date(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "old", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE somebodys (name TEXT)")
        tables.copied(connection)
        found = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    assert {"somebodys", "audit"} <= found
