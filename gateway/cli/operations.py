"""`douane servers`, `keys` and `version`: what there is."""

import platform
import sqlite3
from importlib.metadata import version as installed_version

import click

from gateway.admin.operations import KeyUse
from gateway.cli.connection import connect
from gateway.cli.context import Place, as_json, place
from gateway.cli.labels import suggest_labels
from gateway.cli.output import print_fields, print_rows


@click.group()
def servers() -> None:
    """Look at the upstream servers of the configuration."""


@servers.command("list")
@as_json
@place
def list_servers(place: Place, /, *, as_json: bool) -> None:
    """List servers, whether they answer, and how many of their pins wait."""
    with connect(place.config) as gateway:
        rows = gateway.call("servers.list")
    print_rows(rows, ("server", "url", "status", "pins", "error"), as_json=as_json)


servers.add_command(suggest_labels)


@click.group()
def keys() -> None:
    """Look at the gateway's own keys, and replace them."""


@keys.command("list")
@as_json
@place
def list_keys(place: Place, /, *, as_json: bool) -> None:
    """List the public halves, by what they are for."""
    with connect(place.config) as gateway:
        rows = gateway.call("keys.list")
    print_rows(rows, ("use", "id", "state", "public"), as_json=as_json)


@keys.command("rotate")
@click.option("--data", is_flag=True, help="The key that secrets are sealed with, instead.")
@click.option("--kek", is_flag=True, help="The key that wraps those, instead.")
@as_json
@place
def rotate(place: Place, /, *, data: bool, kek: bool, as_json: bool) -> None:
    """Replace the key that signs access tokens. Nobody is signed out by it."""
    if data and kek:
        raise click.UsageError("one key at a time: --data or --kek")
    use = KeyUse.DATA if data else KeyUse.KEK if kek else KeyUse.SIGNING
    with connect(place.config) as gateway:
        row = gateway.call("keys.rotate", use=use.value)
    print_fields(row, as_json=as_json)


@click.command()
@as_json
def version(*, as_json: bool) -> None:
    """Print the versions of what runs here."""
    print_fields(
        {
            "douane": installed_version("douane"),
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
        },
        as_json=as_json,
    )
