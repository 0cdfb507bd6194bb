"""Where migrations are listed, and how their scripts run."""

import sqlite3

from sqlite_utils import Database, Migrations

migrations = Migrations("douane")


def run_script(database: Database, script: str) -> None:
    """Run a script inside of the migration's transaction, which `executescript` would end."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            database.execute(statement)
            statement = ""
