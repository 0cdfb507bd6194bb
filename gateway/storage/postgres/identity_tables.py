"""The tables of people, clients, grants and sealed secrets, from the scripts beside this file."""

from importlib.resources import files
from typing import Final

from gateway.storage.postgres.migrations import Migration, Tables

_NAMES: Final = ("tables", "ended", "away")


def _script(number: int, name: str) -> str:
    return files(__package__).joinpath(f"identity_{number}_{name}.sql").read_text("utf-8")


IDENTITY: Final = Tables(
    name="identity",
    migrations=tuple(
        Migration(number=number, name=name, script=_script(number, name))
        for number, name in enumerate(_NAMES, 1)
    ),
)
