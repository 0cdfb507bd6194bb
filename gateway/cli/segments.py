"""What `douane audit verify --segment` says of archived files."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from gateway.cli.failure import NO, Failed
from gateway.cli.output import cell, print_json
from gateway.config import Config
from gateway.errors import ConfigError


def say_segments(config: Config, files: Sequence[Path], *, as_json: bool) -> None:
    """Say for each file whether it is what was signed; exit 1 if one is not."""
    from gateway.wiring import verify_segment  # noqa: PLC0415 - it brings every adapter with it

    good = True
    for file in files:
        try:
            found = verify_segment(config, file)
        except ConfigError as error:
            raise Failed.of(error) from error
        good = good and found.ok
        if as_json:
            print_json({"file": str(file), **asdict(found)})
        elif found.ok:
            shown = f"records {found.first} to {found.last}"
            click.echo(f"{file} is what was signed: {shown} of {found.size}, root {found.root}")
        else:
            click.echo(f"{file} is not what was signed: {cell(found.reason)}, line {found.line}")
    if not good:
        raise click.exceptions.Exit(NO)
