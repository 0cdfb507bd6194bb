"""Who may do what where gateways do not own the tables, from the scripts beside this file."""

from importlib.resources import files
from typing import Final

from gateway.storage.postgres.connection import Connection
from gateway.storage.postgres.migrations import Migration, Tables

_MAKERS: Final = """
SELECT w.who, n.nspname::text FROM pg_namespace AS n CROSS JOIN unnest(%s::name[]) AS w (who)
WHERE n.nspname IN ('public', 'words') AND has_schema_privilege(w.who, n.oid, 'CREATE') ORDER BY 1, 2
"""
"""For the server `public` is a role that everybody has; no other can be called so."""
EVERYBODY: Final = "public"

_NAMES: Final = ("runtime",)


def _script(number: int, name: str) -> str:
    return files(__package__).joinpath(f"rights_{number}_{name}.sql").read_text("utf-8")


RIGHTS: Final = Tables(
    name="rights",
    migrations=tuple(
        Migration(number=number, name=name, script=_script(number, name))
        for number, name in enumerate(_NAMES, 1)
    ),
)
"""They rest on all others, and are made last."""


def strangers(connection: Connection, *roles: str) -> tuple[str, ...]:
    """Return what is wrong where one of `roles`, which do not own the tables, can have functions run as the owner.

    The owner's functions look for what they call in these schemas, and prefer what fits better: whoever
    may make functions there has the owner's rights.
    """
    found = connection.execute(_MAKERS, (list(roles),)).fetchall()
    return tuple(
        f"{(name := 'PUBLIC' if who == EVERYBODY else who)} may make functions in the schema {schema}, which those of "
        f"the tables' owner would call with the owner's rights: `REVOKE CREATE ON SCHEMA {schema} FROM {name}`, "
        f"and `GRANT CREATE ON SCHEMA {schema} TO` the owner"
        for who, schema in found
    )
