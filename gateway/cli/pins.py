"""`douane pins`: what upstreams show, and what people approved of it."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from gateway.cli.changes import (
    is_risky,
    print_differences,
    print_review,
    print_risks,
    say_undo,
)
from gateway.cli.connection import Connection, connect
from gateway.cli.context import Place, as_json, in_full, place, read_json
from gateway.cli.failure import NO, WRONG_USE, Failed
from gateway.cli.output import Column, cell, print_fields, print_json, print_rows
from gateway.cli.servers import say_unknown_server
from gateway.config.values import duration_s
from gateway.domain.tools import Kind, PinStatus, Profile

_COLUMNS: tuple[Column | str, ...] = (
    "server",
    "kind",
    Column(name="name", whole=True),
    "profile",
    "status",
    "approved_by",
    *(Column(name=name, wide=True) for name in ("observed_digest", "approved_at", "note")),
)
_PINNED_KINDS = (Kind.TOOL, Kind.PROMPT, Kind.RESOURCE, Kind.TEMPLATE, Kind.SERVER)

_kind = click.option(
    "--kind", type=click.Choice([kind.value for kind in _PINNED_KINDS]), default=Kind.TOOL.value
)
_profile = click.option("--profile", type=click.Choice([profile.value for profile in Profile]))
_note = click.option("--note", default="", help="Why; it is kept with the pin and in the log.")
_key = click.option(
    "--key", help="The signer to trust: NAME+ID+KEY of its `douane keys list --wide`."
)


@click.group()
def pins() -> None:
    """Review, approve and compare the definitions that upstreams show."""


@pins.command("list")
@click.option("--server")
@click.option("--status", type=click.Choice([status.value for status in PinStatus]))
@as_json
@in_full
@place
def list_(
    place: Place, /, *, server: str | None, status: str | None, as_json: bool, wide: bool
) -> None:
    """List pins: a row for each family of revisions; `pins review` tells once what both show alike."""
    with connect(place.config) as gateway:
        rows = gateway.call("pins.list", server=server, status=status)
        if not rows and not as_json:
            say_unknown_server(gateway, server)
    print_rows(rows, _COLUMNS, as_json=as_json, wide=wide)


@pins.command()
@click.argument("server")
@click.argument("name")
@_kind
@_profile
@as_json
@place
def show(
    place: Place, /, *, server: str, name: str, kind: str, profile: str | None, as_json: bool
) -> None:
    """Show a pin with the whole definition, approved and observed."""
    with connect(place.config) as gateway:
        rows = gateway.call("pins.show", server=server, name=name, kind=kind, profile=profile)
    for row in rows:
        print_fields(row, as_json=as_json)


@pins.command()
@click.argument("server")
@click.argument("name")
@_kind
@_profile
@as_json
@place
def diff(
    place: Place, /, *, server: str, name: str, kind: str, profile: str | None, as_json: bool
) -> None:
    """Show what changed since a person approved it, worst first; of what is new, all of it."""
    with connect(place.config) as gateway:
        rows = gateway.call("pins.diff", server=server, name=name, kind=kind, profile=profile)
    if not as_json:
        print_differences(rows)
        return
    for row in rows:
        print_json(row)


@pins.command()
@click.argument("server", required=False)
@click.option("--all", "whole", is_flag=True, help="All that waits, whole, however long it is.")
@as_json
@place
def review(place: Place, /, *, server: str | None, whole: bool, as_json: bool) -> None:
    """Show what waits for a decision on one screen: worst first, with the commands to decide.

    Of what is new it shows what it says; `pins diff` and --all show it whole. Exit 1 if anything
    waits.
    """
    with connect(place.config) as gateway:
        rows = gateway.call("pins.review", server=server)
    if as_json:
        for row in rows:
            print_json(row)
    elif rows:
        print_review(rows, whole=whole)
    else:
        click.echo("nothing waits for a decision")
    if rows:
        raise click.exceptions.Exit(NO)


@pins.command()
@click.argument("server")
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that wait, of every kind.")
@click.option("--kind", type=click.Choice([kind.value for kind in _PINNED_KINDS]))
@_profile
@click.option("--digest", help="Only if it is this: the digest that you reviewed (one NAME).")
@click.option("--address", help="Only if its server is there, as when you reviewed it (one NAME).")
@_note
@click.option("--expires", help="For how long it holds: `30d`. Never longer than `pins.expire`.")
@click.option(
    "--accept-risks",
    is_flag=True,
    help="With --all or a --kind: approve also what has findings, or is T2 or T3.",
)
@as_json
@place
def approve(
    place: Place,
    /,
    *,
    server: str,
    names: tuple[str, ...],
    kind: str | None,
    profile: str | None,
    digest: str | None,
    address: str | None,
    note: str,
    expires: str | None,
    everything: bool,
    accept_risks: bool,
    as_json: bool,
) -> None:
    """Approve what SERVER shows now: the named targets, or --all that wait, or those of a --kind.

    What changes between the moment it was fetched and its approval is refused. Of what is approved
    without a name, findings and changes of T2 and T3 are shown first, and a person is asked.
    """
    if bool(names) is (everything or (kind is not None and not names)):
        raise click.UsageError("give either one or more NAMEs, or --all, or a --kind")
    if (digest, address) != (None, None) and len(names) != 1:
        raise click.UsageError("--digest and --address go with exactly one NAME")
    expires_s = None if expires is None else _seconds(expires)
    with connect(place.config) as gateway:
        if not names:
            chosen = _waiting(gateway, server, kind, profile)
            _require_accepted(chosen, accept_risks=accept_risks)
        else:
            chosen = _named(gateway, server, names, kind or Kind.TOOL.value, profile)
        rows = gateway.call(
            "pins.approve",
            server=server,
            reviewed=[_reviewed(row, digest, address) for row in chosen],
            note=note,
            expires_s=expires_s,
        )
    print_rows(rows, _COLUMNS, as_json=as_json)
    for row in rows:
        if row["filed"] and not as_json:
            told = f"{len(row['filed'])} of {row['people']}; another person must approve it, too"
            click.echo(f"{cell(row['name'])} ({row['profile']}): {told}")
    if not as_json:
        say_undo("revoke", rows)


def _seconds(text: str) -> float:
    try:
        return duration_s(text)
    except ValueError as error:
        raise click.UsageError(f"--expires: {error}") from error


def _require_accepted(chosen: Sequence[dict[str, Any]], *, accept_risks: bool) -> None:
    """Show what nobody should approve unseen, and go on only with a person's yes.

    Raises:
        Failed: There is some, and nobody said yes to it.

    """
    risky = [row for row in chosen if is_risky(row)]
    if not risky:
        return
    print_risks(risky)
    if accept_risks:
        return
    told = f"{len(risky)} of {len(chosen)} have findings, or are T2 or T3"
    if not _is_terminal():
        raise Failed(
            f"{told}; nothing was approved. Approve them by name, or all with --accept-risks",
            exit_code=NO,
        )
    if not click.confirm(f"{told}. Approve all {len(chosen)}?", default=False, err=True):
        raise Failed("nothing was approved", exit_code=NO)


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _waiting(
    gateway: Connection, server: str, kind: str | None, profile: str | None
) -> list[dict[str, Any]]:
    rows = gateway.call("pins.review", server=server)
    waiting = [
        row
        for row in rows
        if row["status"] in {PinStatus.PENDING, PinStatus.DRIFTED}
        and kind in {None, row["kind"]}
        and profile in {None, row["profile"]}
    ]
    if not waiting:
        raise Failed(f"nothing of {server} waits for approval", exit_code=NO)
    return waiting


def _named(
    gateway: Connection, server: str, names: Sequence[str], kind: str, profile: str | None
) -> list[dict[str, Any]]:
    return [
        row
        for name in names
        for row in gateway.call("pins.show", server=server, name=name, kind=kind, profile=profile)
    ]


def _reviewed(row: dict[str, Any], digest: str | None, address: str | None) -> dict[str, Any]:
    return {
        "kind": row["kind"],
        "name": row["name"],
        "profile": row["profile"],
        "digest": digest or row["observed_digest"],
        "address": row["observed_address"] if address is None else address,
    }


@pins.command()
@click.argument("server")
@click.argument("name")
@_kind
@_profile
@_note
@as_json
@place
def revoke(
    place: Place,
    /,
    *,
    server: str,
    name: str,
    kind: str,
    profile: str | None,
    note: str,
    as_json: bool,
) -> None:
    """Withdraw an approval; calls are refused until a person approves again."""
    with connect(place.config) as gateway:
        rows = gateway.call(
            "pins.revoke", server=server, name=name, kind=kind, profile=profile, note=note
        )
    print_rows(rows, _COLUMNS, as_json=as_json)
    if not as_json:
        say_undo("approve", rows)


@pins.command()
@click.option("--lock", type=click.Path(path_type=Path), help="Compare with a lock file, too.")
@_key
@as_json
@place
def check(place: Place, /, *, lock: Path | None, key: str | None, as_json: bool) -> None:
    """Exit 1 if anything is not as it was approved."""
    content = None if lock is None else read_json(lock)
    with connect(place.config) as gateway:
        result = gateway.call("pins.check", lock=content, key=key)
    if as_json or result["drift"]:
        print_rows(result["drift"], (*_COLUMNS, "problem"), as_json=as_json)
    else:
        click.echo("every approved pin is as it was approved")
    if not result["ok"]:
        raise click.exceptions.Exit(NO)


@pins.command()
@click.argument("file", type=click.Path(path_type=Path))
@place
def export(place: Place, /, *, file: Path) -> None:
    """Write every approved pin into a signed lock file, to review and keep in git."""
    with connect(place.config) as gateway:
        content = gateway.call("pins.export")
    try:
        with click.open_file(str(file), "w", encoding="utf-8") as output:
            output.write(_reviewable(content))
    except OSError as error:
        raise Failed(f"{file} cannot be written: {error.strerror}", exit_code=WRONG_USE) from error


def _reviewable(content: dict[str, Any]) -> str:
    """Return JSON with one member a line, so that git shows which words of a definition changed.

    What is not plain ASCII is spelled out: nothing in it can hide from whoever reads the file.
    """
    return json.dumps(content, indent=2) + "\n"


@pins.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@_key
@as_json
@place
def import_(place: Place, /, *, file: Path, key: str | None, as_json: bool) -> None:
    """Approve what a signed lock file approved, where an upstream shows exactly that.

    Exit 1 if an entry of the file could not be taken over.
    """
    content = read_json(file)
    with connect(place.config) as gateway:
        rows = gateway.call("pins.import", lock=content, key=key)
    columns = ("server", "kind", "name", "profile", "digest", "result")
    print_rows(rows, columns, as_json=as_json)
    if any(row["result"] not in {"approved", "unchanged", "filed"} for row in rows):
        raise click.exceptions.Exit(NO)
