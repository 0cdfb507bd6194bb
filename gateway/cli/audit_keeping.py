"""`douane audit archive`, `prune` and `hold`: what is old leaves the log, or must not."""

import click

from gateway.cli.audit import audit
from gateway.cli.connection import connect
from gateway.cli.context import Place, as_json, in_full, place
from gateway.cli.output import Column, print_fields, print_rows
from gateway.cli.pasted import say_undo

_BEFORE = "A duration before now (400d) or a time."


@audit.command()
@click.option("--before", required=True, help=_BEFORE)
@as_json
@in_full
@place
def archive(place: Place, /, *, before: str, as_json: bool, wide: bool) -> None:
    """Write what is older into files that prove themselves; nothing is removed."""
    with connect(place.config) as gateway:
        rows = gateway.call("audit.archive", before=before)
    columns = ("first", "last", "file", Column(name="sha256", wide=True))
    print_rows(rows, columns, as_json=as_json, wide=wide)


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
@click.argument("name", required=False)
@click.option(
    "--since", help="Hold what is of that time or later; a duration before now, or a time."
)
@click.option(
    "--release", is_flag=True, help="End the hold NAME, or the only one; the others stay."
)
@as_json
@place
def hold(
    place: Place, /, *, name: str | None, since: str | None, release: bool, as_json: bool
) -> None:
    """Let nothing leave the log that is newer, whatever retention says.

    Holds stand beside each other: NAME says which one, and one without gets a name. Without
    options, list them.
    """
    if (release and since is not None) or (name is not None and not release and since is None):
        raise click.UsageError("give either --since or --release, or neither and no NAME")
    with connect(place.config) as gateway:
        if since is None and not release:
            rows = gateway.call("audit.holds")
            print_rows(rows, ("name", "held_from"), as_json=as_json)
        elif release:
            print_fields(gateway.call("audit.release", name=name), as_json=as_json)
        else:
            row = gateway.call("audit.hold", name=name, since=since)
            print_fields(row, as_json=as_json)
            if not as_json:
                say_undo("audit", "hold", str(row["name"]), "--release")
