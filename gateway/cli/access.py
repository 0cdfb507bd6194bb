"""`douane users sessions`, `consents`, `grants` and `connections`: look at them and end them."""

from collections.abc import Sequence
from typing import Any

import click

from gateway.cli.connection import connect
from gateway.cli.context import Place, as_json, in_full, place
from gateway.cli.output import Column, print_fields, print_rows
from gateway.cli.units import age, left

_of_user = click.option("--user", help="Of one user only.")

_SESSIONS = (
    Column(name="session", whole=True),
    "user",
    Column(name="created_at", head="since", told=age),
    Column(name="expires_at", head="left", told=left),
    "source_ip",
    Column(name="user_agent", wide=True),
)
_CONSENTS = (
    "user",
    "client",
    Column(name="client_id", wide=True),
    "resource",
    "scopes",
    Column(name="redirect_uri", wide=True),
    Column(name="given_at", head="since", told=age),
)
_GRANTS = (
    Column(name="grant", whole=True),
    "user",
    "client",
    Column(name="client_id", wide=True),
    "resource",
    Column(name="scopes", wide=True),
    Column(name="created_at", head="since", told=age),
    Column(name="expires_at", head="left", told=left),
)
_CONNECTIONS = (
    "user",
    "server",
    "issuer",
    "scopes",
    Column(name="connected_at", head="since", told=age),
    Column(name="refreshed_at", head="fresh", told=age),
)


@click.group()
def sessions() -> None:
    """Look at signed-in browsers, and sign them out."""


@sessions.command("list")
@_of_user
@as_json
@in_full
@place
def list_sessions(place: Place, /, *, user: str | None, as_json: bool, wide: bool) -> None:
    """List signed-in browsers."""
    _list(place, "sessions.list", _SESSIONS, as_json=as_json, wide=wide, user=user)


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
@in_full
@place
def list_consents(place: Place, /, *, user: str | None, as_json: bool, wide: bool) -> None:
    """List remembered consents."""
    _list(place, "consents.list", _CONSENTS, as_json=as_json, wide=wide, user=user)


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
@in_full
@place
def list_grants(
    place: Place, /, *, user: str | None, client: str | None, as_json: bool, wide: bool
) -> None:
    """List grants that are in force, newest first."""
    _list(place, "grants.list", _GRANTS, as_json=as_json, wide=wide, user=user, client=client)


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
@in_full
@place
def list_connections(place: Place, /, *, user: str | None, as_json: bool, wide: bool) -> None:
    """List connections."""
    _list(place, "connections.list", _CONNECTIONS, as_json=as_json, wide=wide, user=user)


@connections.command("disconnect")
@click.argument("user")
@click.argument("server")
@as_json
@place
def disconnect(place: Place, /, *, user: str, server: str, as_json: bool) -> None:
    """Forget USER's tokens for SERVER; they can connect again."""
    _end(place, "connections.disconnect", as_json=as_json, user=user, server=server)


def _list(
    place: Place,
    command: str,
    columns: Sequence[Column | str],
    *,
    as_json: bool,
    wide: bool,
    **asked: Any,
) -> None:
    with connect(place.config) as gateway:
        rows = gateway.call(command, **asked)
    print_rows(rows, columns, as_json=as_json, wide=wide)


def _end(place: Place, command: str, *, as_json: bool, **what: Any) -> None:
    with connect(place.config) as gateway:
        row = gateway.call(command, **what)
    print_fields(row, as_json=as_json)
