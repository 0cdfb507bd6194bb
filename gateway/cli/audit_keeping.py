"""`douane audit archive`, `prune` and `hold`: what is old leaves the log, or must not."""

import click

from gateway.cli.audit import audit
from gateway.cli.connection import connect
from gateway.cli.context import Place, as_json, place
from gateway.cli.output import print_fields, print_rows

_BEFORE = "A duration before now (400d) or a time."


@audit.command()
@click.option("--before", required=True, help=_BEFORE)
@as_json
@place
def archive(place: Place, /, *, before: str, as_json: bool) -> None:
    """Write what is older into files that prove themselves; nothing is removed."""
    with connect(place.config) as gateway:
        rows = gateway.call("audit.archive", before=before)
    print_rows(rows, ("first", "last", "file", "sha256"), as_json=as_json)


@audit.command()
@click.option("--before", required=True, help=_BEFORE)
@as_json
@place
def prune(place: Place, /, *, before: str, as_json: bool) -> None:
    """Remove from the log what is older and in the archive; its proofs stay."""
    with connect(place.config) as gateway:
        row = gateway.call("audit.prune", before=before)
    print_fields(row, as_json=as_json)


@audit.command()
@click.option(
    "--since", help="Hold what is of that time or later; a duration before now, or a time."
)
@click.option("--release", is_flag=True, help="Hold nothing any more.")
@as_json
@place
def hold(place: Place, /, *, since: str | None, release: bool, as_json: bool) -> None:
    """Let nothing leave the log that is newer, whatever retention says."""
    if release is (since is not None):
        raise click.UsageError("give either --since or --release")
    with connect(place.config) as gateway:
        row = gateway.call("audit.hold", since=since)
    print_fields(row, as_json=as_json)
