"""`douane clients`: programs that may ask for tokens."""

import click

from gateway.cli.connection import connect
from gateway.cli.context import Place, as_json, place
from gateway.cli.output import print_fields, print_rows

_COLUMNS = ("client_id", "name", "resources", "scopes", "groups", "trusted_host", "created_by")


@click.group()
def clients() -> None:
    """Register, list and remove OAuth clients."""


@clients.command()
@click.argument("name")
@click.option("--grant", "grants", multiple=True, default=("client_credentials",))
@click.option("--resource", "resources", multiple=True, required=True, help="/mcp or /mcp/SERVER")
@click.option("--scope", "scopes", multiple=True, required=True)
@click.option("--group", "groups", multiple=True, default=("users",), show_default=True)
@click.option("--trusted-host", is_flag=True, help="It may declare its user's task.")
@as_json
@place
def add(
    place: Place,
    /,
    *,
    name: str,
    grants: tuple[str, ...],
    resources: tuple[str, ...],
    scopes: tuple[str, ...],
    groups: tuple[str, ...],
    trusted_host: bool,
    as_json: bool,
) -> None:
    """Register a client. Its secret is shown this once and stored nowhere."""
    with connect(place.config) as gateway:
        row = gateway.call(
            "clients.add",
            name=name,
            grants=grants,
            resources=resources,
            scopes=scopes,
            groups=groups,
            trusted_host=trusted_host,
        )
    print_fields(row, as_json=as_json)


@clients.command("list")
@as_json
@place
def list_(place: Place, /, *, as_json: bool) -> None:
    """List clients."""
    with connect(place.config) as gateway:
        rows = gateway.call("clients.list")
    print_rows(rows, _COLUMNS, as_json=as_json)


@clients.command()
@click.argument("client")
@as_json
@place
def remove(place: Place, /, *, client: str, as_json: bool) -> None:
    """Remove the client of that id or name; its tokens are no longer accepted."""
    with connect(place.config) as gateway:
        row = gateway.call("clients.remove", client=client)
    print_fields(row, as_json=as_json)
