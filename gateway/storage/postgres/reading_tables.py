"""The tables and functions of whoever reads, follows and keeps the log, from the scripts beside this file."""

from importlib.resources import files
from typing import Final

from gateway.storage.postgres.migrations import Migration, Tables

_NAMES: Final = ("keeping", "words")


def _script(number: int, name: str) -> str:
    return files(__package__).joinpath(f"reading_{number}_{name}.sql").read_text("utf-8")


READING: Final = Tables(
    name="reading",
    migrations=tuple(
        Migration(number=number, name=name, script=_script(number, name))
        for number, name in enumerate(_NAMES, 1)
    ),
)
"""They rest on those of `LOG`, and are made after them."""
