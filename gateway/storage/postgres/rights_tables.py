"""Who may do what where gateways do not own the tables, from the scripts beside this file."""

from importlib.resources import files
from typing import Final

from gateway.storage.postgres.migrations import Migration, Tables

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
