"""`douane approvals`: calls that wait for a person, and the answers."""

from typing import Any

import click

from gateway.cli.connection import connect
from gateway.cli.context import Place, as_json, place
from gateway.cli.output import cell, print_json, print_rows

_COLUMNS = ("id", "state", "server", "name", "subject", "client", "codes", "asked", "expires_at")
_ANSWER = ("id", "state", "server", "name", "subject", "by", "span", "expires_at")
_TOLD = (
    "id",
    "state",
    "void",
    "url",
    "asked",
    "asked_at",
    "expires_at",
    "run",
    "self_approval",
    "by",
    "note",
)

_note = click.option("--note", default="", help="Why; it is kept with the answer and in the log.")

_for_run = click.option(
    "--for-run", is_flag=True, help="Every call of this run to the same place, not just this one."
)


@click.group()
def approvals() -> None:
    """Answer calls that policy wants a person's word for."""


@approvals.command("list")
@click.option("--all", "everything", is_flag=True, help="Also what is answered or has run out.")
@as_json
@place
def list_(place: Place, /, *, everything: bool, as_json: bool) -> None:
    """List questions that wait."""
    with connect(place.config) as gateway:
        rows = gateway.call("approvals.list", all=everything)
    print_rows(rows, _COLUMNS, as_json=as_json)


@approvals.command()
@click.argument("id_", metavar="ID")
@as_json
@place
def show(place: Place, /, *, id_: str, as_json: bool) -> None:
    """Show who wants to call what, with which arguments, and where they come from."""
    with connect(place.config) as gateway:
        row = gateway.call("approvals.show", approval=id_)
    if as_json:
        print_json(row)
    else:
        _print_question(row)


@approvals.command()
@click.argument("id_", metavar="ID")
@_for_run
@_note
@as_json
@place
def allow(place: Place, /, *, id_: str, for_run: bool, note: str, as_json: bool) -> None:
    """Let the call go out when it is made again: once, or --for-run."""
    with connect(place.config) as gateway:
        row = gateway.call("approvals.allow", approval=id_, for_run=for_run, note=note)
    print_rows([row], _ANSWER, as_json=as_json)


@approvals.command()
@click.argument("id_", metavar="ID")
@_for_run
@_note
@as_json
@place
def deny(place: Place, /, *, id_: str, for_run: bool, note: str, as_json: bool) -> None:
    """Have the call refused, without asking anybody again until the no runs out."""
    with connect(place.config) as gateway:
        row = gateway.call("approvals.deny", approval=id_, for_run=for_run, note=note)
    print_rows([row], _ANSWER, as_json=as_json)


def _print_question(row: dict[str, Any]) -> None:
    effect = f" ({cell(row['effect'])})" if row["effect"] else ""
    click.echo(
        f"{cell(row['client'])} ({cell(row['client_id'])}) for {cell(row['subject'])} wants "
        f"{cell(row['server'])}/{cell(row['kind'])}/{cell(row['name'])}{effect}"
    )
    _print_all(
        "with", [f"{name} = {cell(said, whole=True)}" for name, said in _said(row["arguments"])]
    )
    _print_all("because", [cell(reason["message"]) for reason in row["reasons"]])
    if row["follows"]:
        _print_all("asked before", [cell(f"{row['follows_because']} ({row['follows']})")])
    _print_all("evidence", [cell(sentence) for sentence in row["evidence"]])
    sources = [f"{cell(one['server'])}/{cell(one['tool'])}" for one in row["sources"]]
    _print_all("has read", sources)
    label = row["label"]
    _print_all("label", [f"{cell(label['integrity'])}, {cell(label['confidentiality'])}"])
    for name in _TOLD:
        click.echo(f"{name.replace('_', ' ')}: {cell(row[name])}")


def _said(arguments: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the arguments with names that are safe to print."""
    return [(cell(name), said) for name, said in arguments.items()]


def _print_all(title: str, lines: list[str]) -> None:
    if lines:
        click.echo(f"{title}:")
        for line in lines:
            click.echo(f"  {line}")
