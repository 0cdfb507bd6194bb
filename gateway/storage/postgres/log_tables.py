"""The tables and functions of the log and of what calls rest on, from the scripts beside this file."""

from importlib.resources import files
from typing import Final

from gateway.storage.postgres.migrations import Migration, Tables

_NAMES: Final = ("tables", "put", "order", "looks", "programs")


def _script(number: int, name: str) -> str:
    return files(__package__).joinpath(f"log_{number}_{name}.sql").read_text("utf-8")


LOG: Final = Tables(
    name="log",
    migrations=tuple(
        Migration(number=number, name=name, script=_script(number, name))
        for number, name in enumerate(_NAMES, 1)
    ),
)
