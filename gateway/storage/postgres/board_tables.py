"""The tables of what all gateways have to have alike, from the scripts beside this file."""

from importlib.resources import files
from typing import Final

from gateway.storage.postgres.migrations import Migration, Tables

_NAMES: Final = ("tables", "servers", "alike")


def _script(number: int, name: str) -> str:
    return files(__package__).joinpath(f"board_{number}_{name}.sql").read_text("utf-8")


BOARD: Final = Tables(
    name="board",
    migrations=tuple(
        Migration(number=number, name=name, script=_script(number, name))
        for number, name in enumerate(_NAMES, 1)
    ),
)
