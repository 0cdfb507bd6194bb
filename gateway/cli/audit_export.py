"""`douane audit export`, `exports`, and `verify --export`: the record, taken away and proven."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from gateway.audit.bundle import (
    LONGEST_LINE_BYTES,
    BundleCheck,
    BundleVerification,
    NotABundle,
)
from gateway.audit.checkpoint import BadCheckpoint, VerifierKey
from gateway.audit.forms import Form, Stored, written_as
from gateway.cli.connection import connect
from gateway.cli.context import Place, as_json, place
from gateway.cli.failure import NO, WRONG_USE, Failed
from gateway.cli.output import cell, print_fields, print_json, print_rows

_BUNDLE = "bundle"
_BATCH = 500
_COLUMNS = ("name", "state", "done", "behind", "error")
_LARGEST_NOTES_BYTES = 64 << 20


@click.command()
@click.option(
    "--format",
    "form",
    type=click.Choice([*(form.value for form in Form), _BUNDLE]),
    default=Form.JSONL.value,
    show_default=True,
)
@click.option("--proof", is_flag=True, help="With jsonl: the form that proves itself (bundle).")
@click.option("--since", help="A duration before now (24h, 7d) or a time.")
@click.option("--until", help="A duration before now or a time.")
@click.option("--where", help='For example: server = mail and not code = "denied"')
@place
def export(place: Place, /, *, form: str, proof: bool, **asked: str | None) -> None:
    """Write the log, or what is asked for of it, to standard output, oldest record first."""
    if proof and form not in {Form.JSONL.value, _BUNDLE}:
        raise Failed(f"{form} cannot prove itself; use --format bundle", exit_code=WRONG_USE)
    with connect(place.config) as gateway:
        if proof or form == _BUNDLE:
            for line in gateway.stream("audit.bundle", **asked):
                text = json.dumps(line, separators=(",", ":"), ensure_ascii=False)
                sys.stdout.buffer.write(text.encode() + b"\n")
        else:
            written = written_as(Form(form), version=version("douane"))
            sys.stdout.buffer.write(written.head)
            for batch in _batches(gateway.stream("audit.records", **asked)):
                sys.stdout.buffer.write(written.of(batch))
    sys.stdout.flush()


def _batches(lines: Iterator[Mapping[str, Any]]) -> Iterator[Sequence[Stored]]:
    batch: list[Stored] = []
    for line in lines:
        batch.append(
            Stored(
                leaf_index=line["leaf_index"],
                leaf_hash=bytes.fromhex(line["leaf_hash"]),
                body=line["body"].encode(),
            )
        )
        if len(batch) == _BATCH:
            yield batch
            batch = []
    yield batch


@click.command()
@click.option("--forget", metavar="NAME", help="Forget one that is no longer configured.")
@as_json
@place
def exports(place: Place, /, *, forget: str | None, as_json: bool) -> None:
    """Show who gets the record as it grows, how far each has come, and what is wrong."""
    with connect(place.config) as gateway:
        if forget is not None:
            print_fields(gateway.call("audit.exports.forget", name=forget), as_json=as_json)
            return
        rows = gateway.call("audit.exports")
    print_rows(rows, _COLUMNS, as_json=as_json)


def notes_in(file: Path) -> Sequence[tuple[str, str]]:
    """Return the checkpoints in a file, each with a name: one note, or lines as an export's.

    Raises:
        Failed: It cannot be read.

    """
    try:
        with file.open("rb") as stream:
            text = stream.read(_LARGEST_NOTES_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise Failed(f"{file} cannot be read: {error.strerror}", exit_code=WRONG_USE) from error
    if not text.startswith("{"):
        return [(str(file), text)]
    # A line that was cut off is the last one of a file that is still written.
    return [
        (f"{file}, line {number}", note)
        for number, line in enumerate(text.split("\n")[:-1], 1)
        if (note := _note(line)) is not None
    ]


def _note(line: str) -> str | None:
    try:
        note = json.loads(line)["checkpoint"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return note if isinstance(note, str) else None


def say_export(
    file: Path, key: str | None, notes: Sequence[tuple[str, str]], *, as_json: bool
) -> None:
    """Verify an export by itself, and say what that proves; it needs no data of a gateway's.

    Raises:
        Failed: It is no export, or cannot be read.

    """
    try:
        verifier = None if key is None else VerifierKey.parse(key)
        with file.open("rb") as stream:
            lines = iter(lambda: stream.readline(LONGEST_LINE_BYTES), b"")
            found = BundleCheck(verifier, notes).run(lines)
    except OSError as error:
        raise Failed(f"{file} cannot be read: {error.strerror}", exit_code=WRONG_USE) from error
    except (NotABundle, BadCheckpoint) as error:
        raise Failed(f"{file}: {error}", exit_code=WRONG_USE) from error
    if as_json:
        print_json(_row(found, trusted=verifier is not None))
    else:
        for text in _told(found, trusted=verifier is not None, kept=bool(notes)):
            click.echo(text)
    if not found.ok:
        raise click.exceptions.Exit(NO)


def _row(found: BundleVerification, *, trusted: bool) -> Mapping[str, Any]:
    return {
        "ok": found.ok,
        "reason": found.reason,
        "line": found.line,
        "records": found.records,
        "first": found.first,
        "last": found.last,
        "gaps": found.gaps,
        "signed": found.size,
        "root": found.root,
        "checkpoints": found.checkpoints,
        "key": found.key,
        "key_given": trusted,
    }


def _told(found: BundleVerification, *, trusted: bool, kept: bool) -> Iterator[str]:
    if not found.ok:
        good = f"good up to there: {found.records} records"
        yield f"the export is NOT what was signed: line {found.line}: {cell(found.reason)} ({good})"
        return
    places = "" if found.first is None else f", {found.first} to {found.last}"
    yield (
        f"the export is what was signed: {found.records} records{places}, of {found.size}; "
        f"root {found.root}; {found.checkpoints} checkpoints compared"
    )
    yield f"signed by {cell(found.key)}"
    yield "proven: nobody without that key changed, moved or added one of these records"
    if found.gaps:
        yield f"left out between them: {found.gaps} records; nothing proves that none was asked for"
    elif found.records:
        yield "proven: between the first and the last none is missing"
    if not trusted:
        yield "not proven: whose key it is. The export names it; give the published one as --key"
    if not kept:
        yield (
            "not proven: that the log was not cut off or written anew before this was made. "
            "Give a checkpoint that was kept elsewhere as --checkpoint"
        )
