"""The tables of what gateways keep and hold in memory, from the scripts beside this file.

They go on from the log's, which calls are compared with.
"""

from importlib.resources import files
from typing import Final

from gateway.storage.postgres.migrations import Migration, Tables

_NAMES: Final = ("tables", "lives")


def _script(number: int, name: str) -> str:
    return files(__package__).joinpath(f"state_{number}_{name}.sql").read_text("utf-8")


STATE: Final = Tables(
    name="state",
    migrations=tuple(
        Migration(number=number, name=name, script=_script(number, name))
        for number, name in enumerate(_NAMES, 1)
    ),
)
