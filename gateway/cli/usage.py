"""`douane usage`: who used how much of what may be used."""

from collections.abc import Mapping
from typing import Any

import click

from gateway.cli.connection import connect
from gateway.cli.context import Place, as_json, in_full, place
from gateway.cli.output import Column, print_rows


def _of(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{kind} {name or '(none)'}" for kind, name in row["of"].items())


_COLUMNS = (
    Column(name="quota", whole=True),
    Column(name="of", of=_of),
    Column(name="count", wide=True),
    "used",
    "most",
    "until",
)


@click.command()
@click.argument("quota", default="")
@as_json
@in_full
@place
def usage(place: Place, /, *, quota: str, as_json: bool, wide: bool) -> None:
    """Tell how much is used of each quota, or of QUOTA, in the span that runs: the fullest first."""
    with connect(place.config) as gateway:
        rows = gateway.call("usage.list", **({"quota": quota} if quota else {}))
    print_rows(rows, _COLUMNS, as_json=as_json, wide=wide)
