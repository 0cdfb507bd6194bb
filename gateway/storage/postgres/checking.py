"""What is to be known of a PostgreSQL before gateways rest on it."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Final

import psycopg

from gateway.domain._value import value
from gateway.errors import ConfigError
from gateway.storage.moving.mark import require_serving
from gateway.storage.postgres.base import TABLES
from gateway.storage.postgres.connection import Connection, connect, pooled
from gateway.storage.postgres.mark import mark_of, place_of
from gateway.storage.postgres.migrations import newer_than
from gateway.storage.postgres.rights_tables import EVERYBODY, strangers

OLDEST: Final = 14_00_00
"""As `server_version_num` spells it."""
EACH: Final = 20
"""Connections of one gateway that is asked for everything, and some that come and go."""
_SETTINGS: Final = """
SELECT name, reset_val FROM pg_settings WHERE name IN (
    'server_version', 'server_version_num', 'server_encoding', 'fsync', 'full_page_writes',
    'synchronous_commit', 'synchronous_standby_names', 'max_connections'
)
"""
"""As they are for whoever connects; `connect` has set some of them otherwise for itself."""
_MAY: Final = """
SELECT has_schema_privilege('public', 'CREATE'),
    (SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('schema_migrations'))
"""
"""The second is null where the tables are not there."""
_ADMITTED: Final = """
SELECT has_table_privilege('users', 'INSERT') AND has_table_privilege('baselines', 'INSERT')
    AND has_table_privilege('moving', 'SELECT') AND has_schema_privilege('words', 'USAGE')
    AND coalesce(has_table_privilege(to_regclass('run_looks'), 'DELETE'), true)
    AND (SELECT bool_and(has_function_privilege(oid, 'EXECUTE')) FROM pg_proc
        WHERE proname IN ('put_1', 'lead_1', 'hear_1', 'configured_1', 'propose_2', 'lag_1') AND pronamespace = 'public'::regnamespace)
"""


@value
class Finding:
    """One thing that was looked at."""

    text: str
    wrong: bool = False


def findings(conninfo: str) -> Iterator[Finding]:
    """Yield what there is to say of the database, and of what its user may do there.

    Raises:
        ConfigError: The address is none.

    """
    try:
        if lent := pooled(conninfo):
            yield Finding(text=lent, wrong=True)
            return
        with closing(connect(conninfo, application="douane check")) as connection:
            yield from _found(connection)
    except psycopg.Error as error:
        # A password stands in no message of libpq's; its own words say best what is the matter.
        yield Finding(text=f"PostgreSQL cannot be used: {error}".strip(), wrong=True)


def _found(connection: Connection) -> Iterator[Finding]:
    told = dict(connection.execute(_SETTINGS).fetchall())
    user, database = connection.info.user, connection.info.dbname
    yield Finding(text=f"PostgreSQL {told['server_version']}, database {database}, as {user}")
    if int(told["server_version_num"]) < OLDEST:
        yield Finding(text="PostgreSQL is too old: take 14 or later", wrong=True)
    if told["server_encoding"] != "UTF8":
        yield Finding(
            text=f"the database is in {told['server_encoding']}: make one with ENCODING 'UTF8'",
            wrong=True,
        )
    yield from _of_durability(told)
    if int(told["max_connections"]) < 2 * EACH:
        yield Finding(
            text=f"max_connections is {told['max_connections']}: each gateway holds up to {EACH}, "
            "and one more for each export, webhook and witness"
        )
    yield from _of_rights(connection, user)
    yield from _of_tables(connection)


def _of_tables(connection: Connection) -> Iterator[Finding]:
    newer = newer_than(connection, *TABLES)
    if newer:
        yield Finding(
            text="a newer version of Douane has made its tables, and this one does not know them: use the "
            f"newer version ({', '.join(newer)})",
            wrong=True,
        )
    try:
        require_serving(mark_of(connection), place_of(connection))
    except ConfigError as error:
        yield Finding(text=error.public, wrong=True)


def _of_durability(told: Mapping[str, str]) -> Iterator[Finding]:
    for name in ("fsync", "full_page_writes"):
        if told[name] != "on":
            yield Finding(
                text=f"{name} is {told[name]}: what was acknowledged does not survive a crash of the "
                "machine; switch it on",
                wrong=True,
            )
    standbys = told["synchronous_standby_names"]
    yield Finding(
        text=f"fsync is {told['fsync']}; the server's own synchronous_commit is "
        f"{told['synchronous_commit']} (a gateway sets its own); "
        + (f"synchronous standbys: {standbys}" if standbys else "no standby is synchronous")
    )


def _of_rights(connection: Connection, user: str) -> Iterator[Finding]:
    makes, owns = connection.execute(_MAY).fetchall()[0]
    others = (EVERYBODY, user) if owns is False else (EVERYBODY,)
    for text in strangers(connection, *others):
        yield Finding(text=text, wrong=True)
    if owns is None:
        yield Finding(
            text="the tables are not there yet: the first gateway makes them"
            if makes
            else f"the tables are not there yet, and {user} may not make them: connect as the owner "
            "of the database",
            wrong=not makes,
        )
    elif owns:
        yield Finding(
            text=f"{user} owns the tables: a gateway needs fewer rights (`douane storage tables --admit ROLE`)"
        )
    elif connection.execute(_ADMITTED).fetchone() == (True,):
        yield Finding(text=f"{user} may do what a gateway does, and does not own the tables")
    else:
        yield Finding(
            text=f"the tables are not {user}'s, who may not use them all: whoever owns them runs "
            f"`douane storage tables --admit {user}`",
            wrong=True,
        )
