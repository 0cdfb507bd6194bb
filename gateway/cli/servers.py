"""What is said where a server is named of which nothing is found: perhaps another one was meant."""

from difflib import get_close_matches

import click

from gateway.cli.connection import Connection
from gateway.cli.output import cell


def say_unknown_server(gateway: Connection, named: str | None) -> None:
    """Say so where no server is called `named`, and what they are called."""
    if named is None:
        return
    known = sorted(str(row["server"]) for row in gateway.call("servers.list"))
    if named in known:
        return
    near = get_close_matches(named, known, n=1)
    meant = f"; is {cell(near[0])} meant?" if near else "."
    there = ", ".join(map(cell, known)) or "none"
    click.echo(f"there is no server {cell(named)}{meant} There are: {there}", err=True)
