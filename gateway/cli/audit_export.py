"""`douane audit export`, `exports`, and `verify --export`: the record, taken away and proven."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import IO, Any

import click

from gateway.admin.rows import Rows
from gateway.admin.verifying import witnessed_rows
from gateway.audit.bundle import (
    LONGEST_LINE_BYTES,
    BundleCheck,
    BundleVerification,
    NotABundle,
)
from gateway.audit.checkpoint import BadCheckpoint, VerifierKey
from gateway.audit.cosignature import WitnessKey
from gateway.audit.forms import Form, Stored, written_as
from gateway.cli.connection import Connection, connect
from gateway.cli.context import Place, as_json, in_full, place
from gateway.cli.failure import NO, WRONG_USE, Failed
from gateway.cli.lag import say_lag
from gateway.cli.output import cell, print_fields, print_json, print_rows
from gateway.cli.whole_file import whole_file

_Asked = Mapping[str, str | None]
_Write = Callable[[IO[bytes], Connection, _Asked], None]

_BUNDLE = "bundle"
_PARQUET = "parquet"
_BATCH = 500
_COLUMNS = ("name", "state", "done", "behind", "error", "answer")
_LARGEST_NOTES_BYTES = 128 << 20
"""More than a file of checkpoints grows to before the gateway begins another."""


@click.command()
@click.option(
    "--format",
    "form",
    type=click.Choice([*(form.value for form in Form), _PARQUET, _BUNDLE]),
    default=Form.JSONL.value,
    show_default=True,
)
@click.option("--proof", is_flag=True, help="With jsonl: the form that proves itself (bundle).")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Write this new file, whole or not at all, instead of standard output.",
)
@click.option("--since", help="A duration before now (24h, 7d) or a time.")
@click.option("--until", help="A duration before now or a time.")
@click.option("--where", help='For example: server = mail and not code = "denied"')
@place
def export(
    place: Place, /, *, form: str, proof: bool, output: Path | None, **asked: str | None
) -> None:
    """Write the log, or what is asked for of it, oldest record first: to standard output, or a file."""
    if proof and form not in {Form.JSONL.value, _BUNDLE}:
        raise Failed(f"{form} cannot prove itself; use --format bundle", exit_code=WRONG_USE)
    write = _written_as(_BUNDLE if proof else form)
    if form == _PARQUET and output is None and sys.stdout.isatty():
        raise Failed("parquet is not for a terminal; give --output FILE", exit_code=WRONG_USE)
    with _opened(output) as target, connect(place.config) as gateway:
        lag = gateway.call("audit.lag")
        write(target, gateway, asked)
    say_lag(lag)


def _written_as(form: str) -> _Write:
    """Return what writes an export in `form`.

    Raises:
        Failed: What it needs is not installed.

    """
    if form == _BUNDLE:
        return _write_bundle
    if form != _PARQUET:
        return partial(_write_form, Form(form))
    try:
        from gateway.export.parquet import ParquetFile  # noqa: PLC0415 - an optional library
    except ModuleNotFoundError as error:
        raise Failed(
            f"parquet needs {error.name}: pip install 'douane[parquet]'", exit_code=WRONG_USE
        ) from error

    def write_parquet(target: IO[bytes], gateway: Connection, asked: _Asked) -> None:
        lines = gateway.stream("audit.records", header=True, **asked)
        with ParquetFile(target, next(lines)) as file:
            for batch in _batches(lines):
                file.write(batch)

    return write_parquet


@contextmanager
def _opened(output: Path | None) -> Iterator[IO[bytes]]:
    if output is not None:
        with whole_file(output) as file:
            yield file
        return
    try:
        yield sys.stdout.buffer
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # whoever reads has enough, as `head` has
    except OSError as error:
        _drop_output()
        raise Failed(f"the export is cut off: {error.strerror}", exit_code=NO) from error


def _drop_output() -> None:
    # What is left in the buffer would fail once more when the interpreter ends, with another status.
    with suppress(OSError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _write_bundle(target: IO[bytes], gateway: Connection, asked: _Asked) -> None:
    for line in gateway.stream("audit.bundle", **asked):
        text = json.dumps(line, separators=(",", ":"), ensure_ascii=False)
        target.write(text.encode() + b"\n")


def _write_form(form: Form, target: IO[bytes], gateway: Connection, asked: _Asked) -> None:
    written = written_as(form, version=version("douane"))
    target.write(written.head)
    for batch in _batches(gateway.stream("audit.records", **asked)):
        target.write(written.of(batch))


def _batches(lines: Iterator[Mapping[str, Any]]) -> Iterator[Sequence[Stored]]:
    while batch := [_stored(line) for line in islice(lines, _BATCH)]:
        yield batch


def _stored(line: Mapping[str, Any]) -> Stored:
    return Stored(
        leaf_index=line["leaf_index"],
        leaf_hash=bytes.fromhex(line["leaf_hash"]),
        body=line["body"].encode(),
    )


@click.command()
@click.option("--forget", metavar="NAME", help="Forget one that is no longer configured.")
@click.option("--skip", metavar="NAME", help="Pass over the record that this one is refused.")
@click.option("--leaf", metavar="N", type=int, help="With --skip: which record that is.")
@as_json
@in_full
@place
def exports(
    place: Place,
    /,
    *,
    forget: str | None,
    skip: str | None,
    leaf: int | None,
    as_json: bool,
    wide: bool,
) -> None:
    """Show who gets the record as it grows, how far each has come, and what is wrong."""
    if (skip is None) is not (leaf is None) or None not in {forget, skip}:
        raise Failed("give --skip and --leaf together, or --forget alone", exit_code=WRONG_USE)
    with connect(place.config) as gateway:
        if skip is not None:
            row = gateway.call("audit.exports.skip", name=skip, leaf_index=leaf)
            print_fields(row, as_json=as_json)
            return
        if forget is not None:
            print_fields(gateway.call("audit.exports.forget", name=forget), as_json=as_json)
            return
        rows = gateway.call("audit.exports")
    print_rows(rows, _COLUMNS, as_json=as_json, wide=wide)


def notes_in(file: Path) -> Sequence[tuple[str, str]]:
    """Return the checkpoints in a file, each with a name: one note, or lines as an export's.

    Raises:
        Failed: It cannot be read, or holds none.

    """
    try:
        with file.open("rb") as stream:
            octets = stream.read(_LARGEST_NOTES_BYTES + 1)
    except OSError as error:
        raise Failed(f"{file} cannot be read: {error.strerror}", exit_code=WRONG_USE) from error
    if len(octets) > _LARGEST_NOTES_BYTES:
        raise Failed(
            f"{file} has more than {_LARGEST_NOTES_BYTES} bytes; split it between two lines, and "
            "give each part as --checkpoint",
            exit_code=WRONG_USE,
        )
    text = octets.decode("utf-8", "replace")
    if not text.startswith("{"):
        return [(str(file), text)]
    # One that was cut off is the last line of a file that is still written, and is no JSON.
    found = [
        (f"{file}, line {number}", note)
        for number, line in enumerate(text.split("\n"), 1)
        if (note := _note(line)) is not None
    ]
    if not found:
        raise Failed(f"{file} holds no checkpoint", exit_code=WRONG_USE)
    return found


def _note(line: str) -> str | None:
    try:
        note = json.loads(line)["checkpoint"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return note if isinstance(note, str) else None


def witness_keys(texts: Sequence[str]) -> Sequence[WitnessKey]:
    """Return the keys of witnesses.

    Raises:
        Failed: One is none.

    """
    try:
        return [WitnessKey.parse(text) for text in texts]
    except BadCheckpoint as error:
        raise Failed(f"--witness: {error}", exit_code=WRONG_USE) from error


def told_of(witnessed: Rows) -> Iterator[str]:
    """Yield what witnesses say of a log that is theirs."""
    for one in witnessed:
        yield (
            f"witnessed by {cell(one['witness'])} at {one['time']}, by its clock: "
            f"the first {one['size']} records"
        )


def say_export(
    file: Path,
    key: str | None,
    notes: Sequence[tuple[str, str]],
    witnesses: Sequence[WitnessKey],
    *,
    as_json: bool,
) -> None:
    """Verify an export by itself, and say what that proves; it needs no data of a gateway's.

    Raises:
        Failed: It is no export, or cannot be read.

    """
    try:
        verifier = None if key is None else VerifierKey.parse(key)
        with file.open("rb") as stream:
            lines = iter(lambda: stream.readline(LONGEST_LINE_BYTES), b"")
            found = BundleCheck(verifier, notes, witnesses).run(lines)
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
        "witnessed": witnessed_rows(found.witnessed),
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
    yield from told_of(witnessed_rows(found.witnessed))
    yield "proven: nobody without that key changed, moved or added one of these records"
    if found.gaps:
        yield f"left out between them: {found.gaps} records; nothing proves that none was asked for"
    elif found.records:
        yield "proven: between the first and the last none is missing"
    if not trusted:
        yield "not proven: whose key it is. The export names it; give the published one as --key"
    if not kept:
        yield from _unseen(max((one.size for one in found.witnessed), default=0), found.size)


def _unseen(seen: int, size: int) -> Iterator[str]:
    """Tell what nobody elsewhere has vouched for; `seen` records somebody has."""
    rewritten = "that the log was not cut off or written anew before this was made"
    if not seen:
        yield (
            f"not proven: {rewritten}. "
            "Give a checkpoint that was kept elsewhere as --checkpoint, or a witness's key as --witness"
        )
    elif seen < size:
        yield f"not proven: {rewritten} from record {seen} on, which no given witness had seen"
