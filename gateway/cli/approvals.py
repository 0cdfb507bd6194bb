"""`douane approvals`: calls that wait for a person, and the answers."""

from collections.abc import Mapping
from typing import Any

import click

from gateway.cli.connection import connect
from gateway.cli.context import Place, as_json, in_full, place
from gateway.cli.output import Column, cell, print_json, print_rows
from gateway.cli.pasted import command, say_undo
from gateway.cli.units import age, left


def _state(row: Mapping[str, Any]) -> str:
    """Return what a question is: as it was answered, or void, whatever that was."""
    return "void" if row["void"] and row["state"] in _STANDING else str(row["state"])


def _who(row: Mapping[str, Any]) -> str:
    """Return whose call it is: `emma via Claude`; a client that acts for itself by its name."""
    if row["subject"] == row["client_id"]:
        return str(row["client"])
    return f"{row['subject']} via {row['client']}"


def _what(row: Mapping[str, Any]) -> str:
    return f"{row['server']}/{row['name']}"


def _where(row: Mapping[str, Any]) -> str:
    places = row["destinations"]
    return ", ".join(str(one["path"] if one["value"] is None else one["value"]) for one in places)


_STANDING = frozenset({"waiting", "allowed", "denied"})
_COLUMNS = (
    Column(name="id", whole=True),
    Column(name="state", of=_state),
    Column(name="call", of=_what),
    Column(name="for", of=_who),
    Column(name="expires_at", head="left", told=left),
    Column(name="asked_at", head="age", told=age, wide=True),
    Column(name="asked", head="times", wide=True),
    *(Column(name=name, wide=True) for name in ("codes", "client_id", "run", "by", "void", "url")),
)
_ANSWER = (
    Column(name="id", whole=True),
    "state",
    Column(name="call", of=_what),
    "by",
    "span",
    Column(name="expires_at", head="left", told=left),
)
_STANDS = (
    Column(name="id", whole=True),
    Column(name="call", of=_what),
    Column(name="to", of=_where),
    Column(name="for", of=_who),
    Column(name="expires_at", head="left", told=left),
    Column(name="by"),
    *(Column(name=name, wide=True) for name in ("client_id", "confidentiality", "note")),
    Column(name="given_at", head="age", told=age, wide=True),
)
_GIVEN = (
    "times",
    Column(name="call", of=_what),
    Column(name="to", of=_where),
    Column(name="for", of=_who),
    "by",
)
_TOLD = (
    "id",
    "state",
    "void",
    "url",
    "asked",
    "asked_at",
    "expires_at",
    "stands_until",
    "run",
    "client_id",
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
@in_full
@place
def list_(place: Place, /, *, everything: bool, as_json: bool, wide: bool) -> None:
    """List questions that wait."""
    with connect(place.config) as gateway:
        rows = gateway.call("approvals.list", all=everything)
    print_rows(rows, _COLUMNS, as_json=as_json, wide=wide)


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
@click.option(
    "--standing",
    is_flag=True,
    help="This client's calls for this person to the same places, from now on.",
)
@_note
@as_json
@place
def allow(
    place: Place, /, *, id_: str, for_run: bool, standing: bool, note: str, as_json: bool
) -> None:
    """Let the call go out when it is made again: once, --for-run, or --standing."""
    with connect(place.config) as gateway:
        row = gateway.call(
            "approvals.allow", approval=id_, for_run=for_run, standing=standing, note=note
        )
    print_rows([row], _ANSWER, as_json=as_json)
    if standing and not as_json:
        say_undo("approvals", "standing", "end", row["id"])


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


@approvals.group()
def standing() -> None:
    """Answers that stand: see them, end them."""


@standing.command("list")
@as_json
@in_full
@place
def list_standing(place: Place, /, *, as_json: bool, wide: bool) -> None:
    """List answers that stand, and until when."""
    with connect(place.config) as gateway:
        rows = gateway.call("approvals.standing")
    print_rows(rows, _STANDS, as_json=as_json, wide=wide)


@standing.command()
@click.argument("id_", metavar="ID")
@_note
@as_json
@place
def end(place: Place, /, *, id_: str, note: str, as_json: bool) -> None:
    """Have an answer stand no more: the next call asks again."""
    with connect(place.config) as gateway:
        row = gateway.call("approvals.end", approval=id_, note=note)
    print_rows([row], _STANDS, as_json=as_json)


@approvals.command()
@as_json
@place
def suggest(place: Place, /, *, as_json: bool) -> None:
    """Say which yes was given again and again, and the command that makes it stand."""
    with connect(place.config) as gateway:
        rows = gateway.call("approvals.suggest")
    print_rows(rows, _GIVEN, as_json=as_json)
    for row in () if as_json else rows:
        click.echo(command("approvals", "allow", row["id"], "--standing"))


def _print_question(row: dict[str, Any]) -> None:
    effect = f" ({cell(row['effect'])})" if row["effect"] else ""
    target = f"{cell(row['server'])}/{cell(row['kind'])}/{cell(row['name'])}"
    click.echo(f"{cell(_who(row))} wants {target}{effect}")
    if row["withheld"]:
        click.echo(f"what it says is withheld: {cell(row['withheld'])}")
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
        if row[name] not in {None, ""}:
            click.echo(f"{name.replace('_', ' ')}: {cell(row[name])}")
    if row["state"] == "waiting" and not row["void"]:
        for verb in ("allow", "deny"):
            click.echo(f"{verb}: {command('approvals', verb, row['id'])}")
        if row["may_stand"]:
            click.echo(f"for good: {command('approvals', 'allow', row['id'], '--standing')}")


def _said(arguments: dict[str, Any] | None) -> list[tuple[str, Any]]:
    """Return the arguments with names that are safe to print."""
    return [(cell(name), said) for name, said in (arguments or {}).items()]


def _print_all(title: str, lines: list[str]) -> None:
    if lines:
        click.echo(f"{title}:")
        for line in lines:
            click.echo(f"  {line}")
