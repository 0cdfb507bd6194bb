"""`douane storage tables`: what an owner of the tables does, so that gateways need not be one."""

import click

from gateway.cli.context import Place, place
from gateway.cli.failure import Failed
from gateway.errors import ConfigError


@click.command()
@click.option("--admit", "role", metavar="ROLE", help="Let this role be a gateway's user.")
@click.option("--keeper", is_flag=True, help="Let it archive and remove old records as well.")
@place
def tables(place: Place, /, *, role: str | None, keeper: bool) -> None:
    """Make the tables in the PostgreSQL of storage.url, or bring them up to date.

    The user in storage.url is who owns them then. Nothing else is made, and no gateway is started. After an
    upgrade, do so again with the same options.
    """
    if keeper and role is None:
        raise click.UsageError("--keeper is for --admit")
    from gateway.wiring import make_tables  # noqa: PLC0415 - it brings every adapter

    try:
        make_tables(place.config, admit=role or "", keeps=keeper)
    except ConfigError as error:
        raise Failed.of(error) from error
    click.echo("the tables are up to date" + (f"; {role} is admitted" if role else ""))
