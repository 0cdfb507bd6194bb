"""`douane alerts`: who is told of what happens, and what is known of the usual."""

import click

from gateway.cli.connection import connect
from gateway.cli.context import Place, as_json, in_full, place
from gateway.cli.failure import NO, Failed
from gateway.cli.output import print_fields, print_rows

_TAKEN = range(200, 300)


@click.group()
def alerts() -> None:
    """Look at webhooks, try them, and see from how much the usual is known."""


@alerts.command("list")
@as_json
@in_full
@place
def list_(place: Place, /, *, as_json: bool, wide: bool) -> None:
    """List webhooks, how many records they are behind, and why if they are."""
    with connect(place.config) as gateway:
        rows = gateway.call("alerts.list")
    columns = ("webhook", "host", "events", "waiting", "failing")
    print_rows(rows, columns, as_json=as_json, wide=wide)


@alerts.command()
@as_json
@place
def state(place: Place, /, *, as_json: bool) -> None:
    """Tell how many principals, clients and tools are known, and of how many enough is."""
    with connect(place.config) as gateway:
        rows = gateway.call("alerts.state")
    print_rows(rows, ("view", "known", "learned"), as_json=as_json)


@alerts.command()
@click.argument("name")
@as_json
@place
def test(place: Place, /, *, name: str, as_json: bool) -> None:
    """Send the webhook NAME a signed `ping`; exit 1 unless it is taken."""
    with connect(place.config) as gateway:
        row = gateway.call("alerts.test", name=name)
    print_fields(row, as_json=as_json)
    if row["status"] not in _TAKEN:
        raise Failed(f"it answers with status {row['status']}", exit_code=NO)
