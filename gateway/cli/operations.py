"""`douane servers`, `keys` and `version`: what there is, and what is registered beside it."""

import platform
import sqlite3
from importlib.metadata import version as installed_version

import click

from gateway.admin.operations import KeyUse
from gateway.cli.connection import connect
from gateway.cli.context import Place, as_json, in_full, place
from gateway.cli.labels import suggest_labels
from gateway.cli.output import Column, print_fields, print_rows
from gateway.cli.pasted import say_undo
from gateway.cli.units import counts

_SERVERS = (
    Column(name="server", whole=True),
    "status",
    Column(name="pins", told=counts),
    "url",
    "error",
)
_KEYS = ("use", Column(name="id", whole=True), "state", Column(name="public", wide=True))


@click.group()
def servers() -> None:
    """Look at the upstream servers, and register some beside the configuration."""


@servers.command("list")
@as_json
@in_full
@place
def list_servers(place: Place, /, *, as_json: bool, wide: bool) -> None:
    """List servers, whether they answer, and how many definitions wait, as `pins review` tells them."""
    with connect(place.config) as gateway:
        rows = gateway.call("servers.list")
    print_rows(rows, _SERVERS, as_json=as_json, wide=wide)


@servers.command("add")
@click.argument("name")
@click.option("--url", required=True, help="Where it is.")
@click.option("--credential", help="What it is shown: env:NAME or file:PATH, never the secret.")
@click.option("--header", help="The header that carries it. Default: Authorization.")
@click.option("--oauth", is_flag=True, help="Each person connects an account of theirs instead.")
@as_json
@place
def add_server(
    place: Place,
    /,
    *,
    name: str,
    url: str,
    credential: str | None,
    header: str | None,
    oauth: bool,
    as_json: bool,
) -> None:
    """Register the server NAME. Nobody can use anything of it before it is approved."""
    if credential is None and header is not None:
        raise click.UsageError("--header goes with --credential")
    if credential is not None and oauth:
        raise click.UsageError("either --credential or --oauth")
    with connect(place.config) as gateway:
        row = gateway.call(
            "servers.add", name=name, url=url, credential=_shown(credential, header, oauth=oauth)
        )
    print_fields(row, as_json=as_json)
    if not as_json:
        say_undo("servers", "remove", name)


def _shown(credential: str | None, header: str | None, *, oauth: bool) -> dict[str, str] | None:
    if oauth:
        return {"kind": "oauth"}
    if credential is None:
        return None
    return {"kind": "header", "value": credential, **({} if header is None else {"name": header})}


@servers.command("remove")
@click.argument("name")
@as_json
@place
def remove_server(place: Place, /, *, name: str, as_json: bool) -> None:
    """Let a registered server go. What was approved of it stays on file."""
    with connect(place.config) as gateway:
        row = gateway.call("servers.remove", name=name)
    print_fields(row, as_json=as_json)


@servers.command("refresh")
@click.argument("name")
@as_json
@place
def refresh_server(place: Place, /, *, name: str, as_json: bool) -> None:
    """Look at all that the server NAME shows, now. What has changed waits for a person."""
    with connect(place.config) as gateway:
        row = gateway.call("servers.refresh", name=name)
    print_fields(row, as_json=as_json)


servers.add_command(suggest_labels)


@click.group()
def keys() -> None:
    """Look at the gateway's own keys, and replace them."""


@keys.command("list")
@as_json
@in_full
@place
def list_keys(place: Place, /, *, as_json: bool, wide: bool) -> None:
    """List the gateway's keys, by what they are for; with --wide their public halves."""
    with connect(place.config) as gateway:
        rows = gateway.call("keys.list")
    print_rows(rows, _KEYS, as_json=as_json, wide=wide)


@keys.command("rotate")
@click.argument("use", type=click.Choice([use.value for use in KeyUse]), required=False)
@click.option("--data", is_flag=True, help="The same as `data`.")
@click.option("--kek", is_flag=True, help="The same as `kek`.")
@as_json
@place
def rotate(place: Place, /, *, use: str | None, data: bool, kek: bool, as_json: bool) -> None:
    """Replace the key for USE; without one, that which signs access tokens. Nobody is signed out.

    `data` seals secrets, and `kek` wraps the keys that do; with `record-hash` what is hashed in
    the audit log is hashed, and the older keys go on finding what they have hashed.
    """
    named = [*([use] if use else []), *(["data"] * data), *(["kek"] * kek)]
    if len(named) > 1:
        raise click.UsageError("one key at a time: `data` or `kek`")
    meant = KeyUse(named[0]) if named else KeyUse.SIGNING
    with connect(place.config) as gateway:
        row = gateway.call("keys.rotate", use=meant.value)
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
