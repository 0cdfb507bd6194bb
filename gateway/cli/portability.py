"""`douane check SERVER --for HOSTS`: what becomes of approved tools in the hosts that people use."""

from collections.abc import Sequence
from typing import Any

import click

from gateway.admin.rows import Row
from gateway.cli.connection import Connection, connect
from gateway.cli.context import Place
from gateway.cli.failure import NO, Failed
from gateway.cli.output import Column, print_rows
from gateway.domain.tools import Kind, PinStatus
from gateway.pins.hosts import HOSTS
from gateway.pins.portability import troubles

_COLUMNS: tuple[Column | str, ...] = (
    "host",
    "level",
    Column(name="tool", whole=True),
    "text",
    Column(name="profile", wide=True),
    Column(name="source", wide=True),
    Column(name="date", wide=True),
)


def hosts_of(text: str) -> Sequence[str]:
    """Return the hosts that a person named, with commas between them.

    Raises:
        click.UsageError: One is not known.

    """
    named = list(dict.fromkeys(one.strip() for one in text.split(",")))
    unknown = [one for one in named if one not in HOSTS]
    if unknown:
        raise click.UsageError(f"--for: {unknown[0]!r} is none of {', '.join(HOSTS)}")
    return named


def check_for(
    place: Place, server: str, hosts: Sequence[str], *, as_json: bool, wide: bool
) -> None:
    """Print what `hosts` refuse, drop or cut of what was approved of `server`.

    Raises:
        Failed: Nothing of it is approved, so nothing can be said.
        click.exceptions.Exit: Something is an error.

    """
    with connect(place.config) as gateway:
        approved = _approved(gateway, server)
    if not approved:
        raise Failed(
            f"no tool of {server} is approved; approve what it shows first: douane pins review {server}",
            exit_code=NO,
        )
    rows: list[Row] = [
        {
            "host": host,
            "level": found.level,
            "tool": found.tool or None,
            "text": found.text,
            "profile": profile,
            "source": found.source.where,
            "date": found.source.date,
        }
        for host in hosts
        for profile, tools in approved.items()
        for found in troubles(HOSTS[host], server, tools)
    ]
    if rows or as_json:
        print_rows(rows, _COLUMNS, as_json=as_json, wide=wide)
    else:
        click.echo(f"nothing is known to go wrong in {', '.join(hosts)}")
    if any(row["level"] == "error" for row in rows):
        raise click.exceptions.Exit(NO)


def _approved(gateway: Connection, server: str) -> dict[str, dict[str, Any]]:
    """Return the approved tools' definitions by name, of each family of revisions."""
    listed = gateway.call("pins.list", server=server, status=None)
    names = dict.fromkeys(row["name"] for row in listed if row["kind"] == Kind.TOOL)
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        for row in gateway.call(
            "pins.show", server=server, name=name, kind=Kind.TOOL.value, profile=None
        ):
            if row["approved"] is not None and row["status"] != PinStatus.REVOKED:
                found.setdefault(row["profile"], {})[name] = row["approved"]
    return found
