"""`douane audit`: search the log, follow it, take it away, and prove it."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from gateway.admin.names import Names
from gateway.admin.verifying import verification_row
from gateway.audit.query import Order, cursor_of
from gateway.cli.audit_export import export, exports, notes_in, say_export, told_of, witness_keys
from gateway.cli.connection import connect
from gateway.cli.context import Place, as_json, in_full, place
from gateway.cli.failure import NO, WRONG_USE, Failed
from gateway.cli.lag import say_lag
from gateway.cli.names import names_of
from gateway.cli.output import cell, print_fields, print_json, print_rows, room
from gateway.cli.records import columns_of, line_of
from gateway.cli.segments import say_segments
from gateway.cli.servers import say_unknown_server
from gateway.errors import ConfigError


@click.group()
def audit() -> None:
    """Search, follow, export and prove the audit log."""


audit.add_command(export)
audit.add_command(exports)


@audit.command()
@click.option("--server")
@click.option("--tool")
@click.option("--principal")
@click.option("--verdict")
@click.option("--code")
@click.option("--run")
@click.option("--since", help="A duration before now (24h, 7d) or a time.")
@click.option("--until", help="A duration before now or a time.")
@click.option("--where", help='For example: server = mail and not code = "denied"')
@click.option(
    "--order",
    default="newest",
    show_default=True,
    type=click.Choice([each.value for each in Order]),
)
@click.option("--after", metavar="CURSOR", help="Go on where another page has ended.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(min=1))
@as_json
@in_full
@place
def query(place: Place, /, *, as_json: bool, wide: bool, **asked: Any) -> None:
    """Search the log, newest first, a page at a time; that you do is on record.

    A client that acts for itself is found by its name as well. `audit show` takes what stands under
    LEAF, or an id.
    """
    with connect(place.config) as gateway:
        names = Names([]) if as_json and asked["principal"] is None else names_of(gateway)
        principal = names.id_of(asked.pop("principal"))
        lag = gateway.call("audit.lag")
        records = gateway.call("audit.query", principal=principal, **asked)
        if not records and not as_json:
            say_unknown_server(gateway, asked["server"])
    print_rows(records, columns_of(names), as_json=as_json, wide=wide)
    say_lag(lag)
    if len(records) == asked["limit"]:
        cursor = cursor_of(records[-1], Order(asked["order"]))
        click.echo(f"there may be more: --after {cursor}", err=True)


@audit.command()
@click.option("-n", "--lines", default=10, show_default=True, type=click.IntRange(min=0))
@click.option("-f", "--follow", is_flag=True, help="Go on with every new record.")
@as_json
@in_full
@place
def tail(place: Place, /, *, lines: int, follow: bool, as_json: bool, wide: bool) -> None:
    """Show the newest records, oldest first."""
    with connect(place.config) as gateway:
        names = Names([]) if as_json else names_of(gateway)
        for record in gateway.stream("audit.tail", lines=lines, follow=follow):
            if as_json:
                print_json(record)
            else:
                click.echo(line_of(record, names, room(wide=wide)))
            sys.stdout.flush()


@audit.command()
@click.argument("record")
@click.option("--proof", is_flag=True, help="With the proof that it is in the signed log.")
@as_json
@place
def show(place: Place, /, *, record: str, proof: bool, as_json: bool) -> None:
    """Show one record: of that id, or of that leaf of the log."""
    with connect(place.config) as gateway:
        found = gateway.call("audit.show", record=record, proof=proof)
        names = Names([]) if as_json else names_of(gateway)
    print_fields(names.beside(found), as_json=as_json)


@audit.command()
@click.option(
    "--checkpoint",
    "files",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A checkpoint that was kept elsewhere; may be repeated.",
)
@click.option(
    "--segment",
    "segments",
    type=click.Path(path_type=Path),
    multiple=True,
    help="An archived file: verify this, and that the log had it; may be repeated.",
)
@click.option(
    "--export",
    "exported",
    type=click.Path(path_type=Path),
    help="Verify this export instead; it needs no data of a gateway's.",
)
@click.option("--key", metavar="VERIFIER", help="With --export: the log's published key.")
@click.option(
    "--witness",
    "witnesses",
    metavar="KEY",
    multiple=True,
    help="Another witness's published key, which has to have cosigned; may be repeated.",
)
@click.option(
    "--without-witnesses",
    is_flag=True,
    help="Do not look for what the configured witnesses have cosigned.",
)
@as_json
@place
def verify(
    place: Place,
    /,
    *,
    files: tuple[Path, ...],
    segments: tuple[Path, ...],
    exported: Path | None,
    key: str | None,
    witnesses: tuple[str, ...],
    without_witnesses: bool,
    as_json: bool,
) -> None:
    """Compute the whole log again; exit 1 if it is not what was signed, and cosigned.

    Only a checkpoint that was kept elsewhere can show that the log's end was cut off along with
    its own checkpoints.
    """
    from gateway.wiring import told_of_journal, verify_log  # noqa: PLC0415 - it brings every adapter

    keys = witness_keys(witnesses)
    if segments:
        if keys:
            raise Failed("--witness is not for --segment", exit_code=WRONG_USE)
        say_segments(place.config, segments, as_json=as_json)
        return
    notes = [note for file in files for note in notes_in(file)]
    if exported is not None:
        say_export(exported, key, notes, keys, as_json=as_json)
        return
    if key is not None:
        raise Failed("--key is for --export only", exit_code=WRONG_USE)
    try:
        found = verify_log(place.config, notes, keys, without_configured=without_witnesses)
    except ConfigError as error:
        raise Failed.of(error) from error
    left_out = list(place.config.audit.checkpoints.witnesses) if without_witnesses else []
    journal = told_of_journal(place.config)
    row = {**verification_row(found), "left_out": left_out, "journal": journal}
    if as_json:
        print_json(row)
    else:
        for line in _told(row):
            click.echo(line)
    if not row["ok"]:
        raise click.exceptions.Exit(NO)


def _told(row: Mapping[str, Any]) -> Iterator[str]:
    yield _verdict(row)
    if row["left_out"]:
        yield f"left out, as asked: what {', '.join(row['left_out'])} cosigned"
    yield from told_of(row["witnessed"])
    if row["journal"]:
        yield row["journal"]


def _verdict(row: Mapping[str, Any]) -> str:
    proven = (
        f"{row['records']} records, root {row['root']}, "
        f"{row['signed']} signed, {row['checkpoints']} checkpoints compared"
    )
    if row["ok"]:
        return f"the log is what was signed: {proven}"
    where = "" if row["first_bad"] is None else f" from record {row['first_bad']} on"
    return f"the log is {row['finding']}{where}: {cell(row['reason'])} (good: {proven})"


@audit.command()
@as_json
@place
def stats(place: Place, /, *, as_json: bool) -> None:
    """Count the log's records by kind, verdict and code."""
    with connect(place.config) as gateway:
        row = gateway.call("audit.stats")
    print_fields(row, as_json=as_json)


@audit.command("hash")
@click.argument("content", metavar="VALUE")
@as_json
@place
def hash_(place: Place, /, *, content: str, as_json: bool) -> None:
    """Show the keyed hashes that stand in the log for VALUE: JSON, or else text."""
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError):
        parsed = content
    with connect(place.config) as gateway:
        row = gateway.call("audit.hash", content=parsed)
    print_fields(row, as_json=as_json)
