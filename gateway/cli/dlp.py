"""`douane dlp`: what is found in a text, and lists of what is an operator's own. No gateway is asked."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import click

from gateway.cli.context import Place, as_json, place
from gateway.cli.failure import WRONG_USE, Failed
from gateway.cli.output import print_rows

_KEY_BYTES = 16


@click.group()
def dlp() -> None:
    """Sensitive data: try out what is found, and make lists of your own."""


@dlp.command()
@click.argument("file", type=click.File("r", encoding="utf-8", errors="replace"), default="-")
@as_json
@place
def find(place: Place, /, *, file: TextIO, as_json: bool) -> None:
    """Tell what of which class stands in FILE (default: standard input), as calls are looked through.

    Never what it is. Exit 1 if there is nothing.
    """
    from gateway.dlp.scanning import scan, told  # noqa: PLC0415 - not every command looks for anything
    from gateway.wiring.sensitive import detector_of  # noqa: PLC0415

    rows = told(scan(detector_of(place.config.dlp), {"text": file.read()}))
    print_rows(rows, ("class", "group", "count", "path"), as_json=as_json)
    if not rows:
        raise click.exceptions.Exit(1)


@dlp.command("list")
@click.argument(
    "files", type=click.Path(path_type=Path, exists=True, dir_okay=False), nargs=-1, required=True
)
@click.option("--documents", is_flag=True, help="FILES are documents, not a value a line.")
def list_(files: tuple[Path, ...], *, documents: bool) -> None:
    """Print a list for `dlp.lists` of what stands in FILES: hashes, and nothing of what they are of."""
    from gateway.dlp.lists import made_list  # noqa: PLC0415

    try:
        told = made_list(_lines(files), documents=documents, key=os.urandom(_KEY_BYTES))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise Failed(str(error), exit_code=WRONG_USE) from None
    click.echo(told, nl=False)


def _lines(files: tuple[Path, ...]) -> Iterator[str]:
    for file in files:
        yield from file.read_text().splitlines()
