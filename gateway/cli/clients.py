"""`douane clients`: programs that may ask for tokens."""

from pathlib import Path

import click

from gateway.admin.clients import GRANTS
from gateway.cli.connection import connect
from gateway.cli.context import Place, as_json, in_full, place, read_json
from gateway.cli.failure import WRONG_USE, Failed
from gateway.cli.output import Column, print_fields, print_rows
from gateway.cli.pasted import say_undo
from gateway.domain.identity import AuthMethod

_COLUMNS = (
    Column(name="name", whole=True),
    Column(name="client_id", wide=True),
    "kind",
    "grants",
    "resources",
    "scopes",
    "groups",
    Column(name="created_by", wide=True),
)


@click.group()
def clients() -> None:
    """Register, list and remove OAuth clients."""


@clients.command()
@click.argument("name")
@click.option(
    "--grant",
    "grants",
    multiple=True,
    type=click.Choice(list(GRANTS)),
    default=("client_credentials",),
    show_default=True,
)
@click.option("--resource", "resources", multiple=True, required=True, help="/mcp or /mcp/SERVER")
@click.option("--scope", "scopes", multiple=True, required=True)
@click.option("--group", "groups", multiple=True, help="Where it acts for itself. Default: users.")
@click.option("--trusted-host", is_flag=True, help="It may declare its user's task.")
@click.option("--redirect-uri", "redirect_uris", multiple=True, help="For authorization_code.")
@click.option("--public", is_flag=True, help="It has no secret: it runs on people's machines.")
@click.option(
    "--auth-method",
    type=click.Choice([method.value for method in AuthMethod if method != AuthMethod.NONE]),
    help="The only way in which it proves itself.",
)
@click.option(
    "--jwks",
    "jwks_file",
    type=click.Path(path_type=Path),
    help="Its public keys, for private_key_jwt: a JWK Set.",
)
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
    redirect_uris: tuple[str, ...],
    public: bool,
    auth_method: str | None,
    jwks_file: Path | None,
    as_json: bool,
) -> None:
    """Register a client. If it has a secret, that is shown this once and stored nowhere."""
    jwks = None if jwks_file is None else read_json(jwks_file)
    if jwks_file is not None and not isinstance(jwks, dict):
        raise Failed(f"{jwks_file} is no JWK Set", exit_code=WRONG_USE)
    with connect(place.config) as gateway:
        row = gateway.call(
            "clients.add",
            name=name,
            grants=grants,
            resources=resources,
            scopes=scopes,
            groups=groups or None,
            trusted_host=trusted_host,
            redirect_uris=redirect_uris,
            public=public,
            auth_method=auth_method,
            jwks=jwks,
        )
    print_fields(row, as_json=as_json)
    if not as_json:
        say_undo("clients", "remove", row["client_id"])


@clients.command("list")
@as_json
@in_full
@place
def list_(place: Place, /, *, as_json: bool, wide: bool) -> None:
    """List clients, however they came to be known."""
    with connect(place.config) as gateway:
        rows = gateway.call("clients.list")
    print_rows(rows, _COLUMNS, as_json=as_json, wide=wide)


@clients.command()
@click.argument("client")
@as_json
@place
def show(place: Place, /, *, client: str, as_json: bool) -> None:
    """Show everything about the client of that id or name, but its secret."""
    with connect(place.config) as gateway:
        row = gateway.call("clients.show", client=client)
    print_fields(row, as_json=as_json)


@clients.command()
@click.argument("client")
@as_json
@place
def remove(place: Place, /, *, client: str, as_json: bool) -> None:
    """Remove the client of that id or name; its tokens are no longer accepted."""
    with connect(place.config) as gateway:
        row = gateway.call("clients.remove", client=client)
    print_fields(row, as_json=as_json)
