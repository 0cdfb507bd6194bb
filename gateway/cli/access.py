"""`douane users sessions`, `consents`, `grants` and `connections`: look at them and end them."""

from collections.abc import Sequence
from typing import Any

import click

from gateway.cli.connection import connect
from gateway.cli.context import Place, as_json, place
from gateway.cli.output import print_fields, print_rows

_of_user = click.option("--user", help="Of one user only.")


@click.group()
def sessions() -> None:
    """Look at signed-in browsers, and sign them out."""


@sessions.command("list")
@_of_user
@as_json
@place
def list_sessions(place: Place, /, *, user: str | None, as_json: bool) -> None:
    """List signed-in browsers."""
    columns = ("session", "user", "created_at", "expires_at", "source_ip", "user_agent")
    _list(place, "sessions.list", columns, as_json=as_json, user=user)


@sessions.command("end")
@click.argument("session", required=False)
@click.option("--user", help="Every session of this user instead.")
@as_json
@place
def end_session(place: Place, /, *, session: str | None, user: str | None, as_json: bool) -> None:
    """Sign a browser out. What it let clients do goes on: see `grants`."""
    _end(place, "sessions.end", as_json=as_json, session=session, user=user)


@click.group()
def consents() -> None:
    """Look at what people let clients do, and take it back."""


@consents.command("list")
@_of_user
@as_json
@place
def list_consents(place: Place, /, *, user: str | None, as_json: bool) -> None:
    """List remembered consents."""
    columns = ("user", "client", "resource", "scopes", "redirect_uri", "given_at")
    _list(place, "consents.list", columns, as_json=as_json, user=user)


@consents.command("withdraw")
@click.argument("user")
@click.argument("client")
@as_json
@place
def withdraw(place: Place, /, *, user: str, client: str, as_json: bool) -> None:
    """Forget what USER consented to CLIENT, and revoke what it got by that."""
    _end(place, "consents.withdraw", as_json=as_json, user=user, client=client)


@click.group()
def grants() -> None:
    """Look at the grants behind clients' tokens, and revoke them."""


@grants.command("list")
@_of_user
@click.option("--client", help="Of one client only.")
@as_json
@place
def list_grants(place: Place, /, *, user: str | None, client: str | None, as_json: bool) -> None:
    """List grants that are in force, newest first."""
    columns = ("grant", "user", "client", "resource", "scopes", "created_at", "expires_at")
    _list(place, "grants.list", columns, as_json=as_json, user=user, client=client)


@grants.command("revoke")
@click.argument("grant")
@as_json
@place
def revoke(place: Place, /, *, grant: str, as_json: bool) -> None:
    """Make every token of GRANT worthless, at once."""
    _end(place, "grants.revoke", as_json=as_json, grant=grant)


@click.group()
def connections() -> None:
    """Look at people's connections to upstream servers, and cut them."""


@connections.command("list")
@_of_user
@as_json
@place
def list_connections(place: Place, /, *, user: str | None, as_json: bool) -> None:
    """List connections."""
    columns = ("user", "server", "issuer", "scopes", "connected_at", "refreshed_at")
    _list(place, "connections.list", columns, as_json=as_json, user=user)


@connections.command("disconnect")
@click.argument("user")
@click.argument("server")
@as_json
@place
def disconnect(place: Place, /, *, user: str, server: str, as_json: bool) -> None:
    """Forget USER's tokens for SERVER; they can connect again."""
    _end(place, "connections.disconnect", as_json=as_json, user=user, server=server)


def _list(
    place: Place, command: str, columns: Sequence[str], *, as_json: bool, **asked: Any
) -> None:
    with connect(place.config) as gateway:
        rows = gateway.call(command, **asked)
    print_rows(rows, columns, as_json=as_json)


def _end(place: Place, command: str, *, as_json: bool, **what: Any) -> None:
    with connect(place.config) as gateway:
        row = gateway.call(command, **what)
    print_fields(row, as_json=as_json)
