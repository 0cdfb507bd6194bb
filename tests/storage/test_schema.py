"""Which migrations there are is told without loading them, and is true."""

import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from sqlite_utils import Database

from gateway.storage import schema
from gateway.storage.schema import IDENTITY, LOG, Tables

LOADED = """
import sqlite3, sys
from gateway.storage.schema import IDENTITY, LOG, migrate

def open_(name):
    return sqlite3.connect(f"{sys.argv[1]}/{name}", isolation_level=None)

for tables in (LOG, IDENTITY):
    migrate(open_(tables.name), tables)
print(sorted({"numpy", "sqlite_utils"} & sys.modules.keys()))
"""


@pytest.mark.parametrize("tables", [LOG, IDENTITY], ids=lambda each: each.name)
def test_the_names_are_those_of_the_migrations_in_their_order(tables: Tables) -> None:
    loaded = tables.load()
    assert loaded.name == tables.name
    pending = loaded.pending(Database(memory=True))
    assert tuple(each.name for each in pending) == tables.migrations


def test_what_is_up_to_date_is_left_as_it_is_and_loads_no_library(tmp_path: Path) -> None:
    for tables in (LOG, IDENTITY):
        with contextlib.closing(
            sqlite3.connect(tmp_path / tables.name, isolation_level=None)
        ) as connection:
            schema.migrate(connection, tables)
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, tmp_path], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"
