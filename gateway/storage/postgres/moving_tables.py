"""What says whether gateways may join, from the script beside this file."""

from importlib.resources import files
from typing import Final

from gateway.storage.postgres.migrations import Migration, Tables


def _script(number: int, name: str) -> str:
    return files(__package__).joinpath(f"moving_{number}_{name}.sql").read_text("utf-8")


MOVING: Final = Tables(
    name="moving", migrations=(Migration(number=1, name="tables", script=_script(1, "tables")),)
)
