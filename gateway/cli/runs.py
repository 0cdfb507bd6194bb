"""`douane runs`: what runs have seen, their stories, and a person's word about them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from gateway.admin.names import Names
from gateway.cli.connection import connect
from gateway.cli.context import Place, as_json, in_full, place
from gateway.cli.failure import WRONG_USE, Failed
from gateway.cli.names import names_of
from gateway.cli.output import Column, cell, print_fields, print_json, print_rows, room
from gateway.cli.units import clock, span
from gateway.domain.labels import Confidentiality, Integrity

_HEADS = ("", "SEQ", "TIME", "WHAT", "EFFECT", "VERDICT", "LABEL AFTER")
_VERDICT = _HEADS.index("VERDICT")
_FIXED = (1, 4, 8, 0, 7, 0, 19)
"""Columns of a screen for each; what is left is for what was called, and for what came of it."""
_UNDER = " " * 15
_UNKNOWN_RUN = "* it named a run that was not known, so it counted as untrusted"
_WIDEST = 120
_NARROWEST = 12
_SHORTEST_VERDICT = 12
"""A code that does not fit beside its verdict stands under the step."""
_REFUSED = frozenset({"deny", "error", "ask"})
_APART = frozenset({"sources", "idle_s"})

_note = click.option("--note", default="", help="Why; it goes on record.")


@click.group()
def runs() -> None:
    """Look at runs, the spans over which labels accumulate; end them, and vouch for them."""


@runs.command("list")
@click.option("--live", is_flag=True, help="Only those that calls can still be in.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(min=1))
@as_json
@in_full
@place
def list_(place: Place, /, *, live: bool, limit: int, as_json: bool, wide: bool) -> None:
    """List runs and their labels, newest first."""
    columns = (
        Column(name="run", whole=True),
        "live",
        Column(name="label", of=_label),
        Column(name="sources", head="read"),
        Column(name="idle_s", head="idle", told=span),
        Column(name="task", wide=True),
        Column(name="part_of", wide=True),
    )
    with connect(place.config) as gateway:
        rows = gateway.call("runs.list", live=live, limit=limit)
    print_rows(rows, columns, as_json=as_json, wide=wide)


@runs.command()
@click.argument("run")
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also draw it, into this file.",
)
@as_json
@in_full
@place
def show(place: Place, /, *, run: str, svg: Path | None, as_json: bool, wide: bool) -> None:
    """Tell the story of RUN: every call, what came of it, and what the run had seen by then."""
    with connect(place.config) as gateway:
        row = gateway.call("runs.show", run=run)
        drawn = gateway.call("runs.picture", run=run)["svg"] if svg is not None else ""
        names = Names([]) if as_json else names_of(gateway)
    if svg is not None:
        _write(svg, drawn)
    steps = row.pop("steps")
    if as_json:
        for step in steps:
            print_json(step)
        return
    cut = row.pop("left_out")
    because = row.pop("because")
    row["for"] = [names.principal(one) for one in row.pop("principals")]
    if "idle_s" in row:
        row["idle"] = span(row["idle_s"])
    print_fields({name: row[name] for name in row if name not in _APART}, as_json=False)
    for sentence in because:
        click.echo(cell(sentence, whole=True))
    for source in row["sources"]:
        place_of = "/".join(filter(None, (source["server"], source["tool"])))
        click.echo(cell(f"saw {place_of}: {_label(source)}"))
    click.echo()
    if cut:
        click.echo(f"the last {len(steps)} steps; those before are left out", err=True)
    for line in _story(steps, room(wide=wide) or _WIDEST):
        click.echo(line)


@runs.command()
@click.argument("run")
@_note
@as_json
@place
def end(place: Place, /, *, run: str, note: str, as_json: bool) -> None:
    """End RUN: its next call begins another one, which has seen nothing."""
    with connect(place.config) as gateway:
        row = gateway.call("runs.end", run=run, note=note)
    print_fields(row, as_json=as_json)


@runs.command()
@click.argument("run")
@click.option("--integrity", type=click.Choice([each.word for each in Integrity]))
@click.option("--confidentiality", type=click.Choice([each.word for each in Confidentiality]))
@click.option("--look", help="What `runs show` called your look at it; else it is looked at now.")
@click.option("--note", required=True, help="Why; it goes on record.")
@as_json
@place
def relabel(
    place: Place,
    /,
    *,
    run: str,
    integrity: str | None,
    confidentiality: str | None,
    look: str | None,
    note: str,
    as_json: bool,
) -> None:
    """Vouch that what RUN has seen is more trusted, or less confidential, than its label says.

    It counts only if the run has read nothing since it was looked at.
    """
    if integrity is None and confidentiality is None:
        raise click.UsageError("say --integrity, --confidentiality or both")
    with connect(place.config) as gateway:
        seen = gateway.call("runs.show", run=run)
        if not seen["live"]:
            raise Failed("the run has ended", exit_code=1)
        row = gateway.call(
            "runs.relabel",
            run=run,
            seen_integrity=seen["integrity"],
            seen_confidentiality=seen["confidentiality"],
            integrity=integrity or seen["integrity"],
            confidentiality=confidentiality or seen["confidentiality"],
            look=seen["look"] if look is None else look,
            note=note,
        )
    print_fields(row, as_json=as_json)


@runs.command()
@as_json
@in_full
@place
def programs(place: Place, /, *, as_json: bool, wide: bool) -> None:
    """List programs that run, wait for a person or hold a token, oldest first."""
    with connect(place.config) as gateway:
        rows = gateway.call("runs.programs")
        names = Names([]) if as_json else names_of(gateway)
    columns = (
        Column(name="script", whole=True),
        Column(name="principal", head="for", of=names.told()),
        "waits",
        Column(name="age_s", head="age", told=span),
        Column(name="ends_in_s", head="left", told=span),
        Column(name="run", wide=True),
        Column(name="grants", wide=True),
    )
    print_rows(rows, columns, as_json=as_json, wide=wide)


@runs.command()
@click.argument("script")
@_note
@as_json
@place
def revoke(place: Place, /, *, script: str, note: str, as_json: bool) -> None:
    """End the program SCRIPT at once: it is stopped, and its token and its grants are void."""
    with connect(place.config) as gateway:
        row = gateway.call("runs.revoke", script=script, note=note)
    print_fields(row, as_json=as_json)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror}", exit_code=WRONG_USE) from error


def _story(steps: list[Mapping[str, Any]], most: int) -> Iterator[str]:
    """Yield the lines of the table; under a step, where each of its destinations came from."""
    if not steps:
        yield "nothing was called"
        return
    widths = _widths(most)
    yield _line(_HEADS, widths)
    for step in steps:
        refused = step["verdict"] in _REFUSED
        code = _why(step) if refused else ""
        place = f"{step['server']}/" if step["server"] else ""
        verdict = cell(f"{step['verdict']} {code}".strip())
        fits = len(verdict) <= widths[_VERDICT]
        yield _line((
            "x" if refused else "",
            str(step["seq"]),
            clock(step["time"])[-8:],
            f"{'  ' * min(step['depth'], 4)}{cell(place + step['target'])}",
            cell(step["effect"]),
            verdict if fits else cell(step["verdict"]),
            f"{_label(step['label_after'] or {})}{'*' if step['label_because'] else ''}",
        ), widths)  # fmt: skip
        if not fits:
            yield _UNDER + _clipped(f"because of {code}", most - len(_UNDER))
        for destination in step["destinations"]:
            for line in _destination(destination):
                yield _UNDER + _clipped(line, most - len(_UNDER))
    if any(step["label_because"] for step in steps):
        yield _UNKNOWN_RUN


def _widths(most: int) -> tuple[int, ...]:
    """Return how wide each column of a story is, so that with a gap between them `most` are used."""
    left = max(most - sum(_FIXED) - len(_FIXED) + 1, 2 * _NARROWEST)
    what = left - max(left // 3, _SHORTEST_VERDICT)
    return tuple(width or (what if head == "WHAT" else left - what)
                 for head, width in zip(_HEADS, _FIXED, strict=True))  # fmt: skip


def _why(step: Mapping[str, Any]) -> str:
    """Return policy's own code for a refusal, or else the refusal's."""
    told = (code for code in step["reasons"] if code != step["code"])
    return str(next(told, step["code"] or ""))


def _destination(destination: Mapping[str, Any]) -> Iterator[str]:
    proof, origin = destination.get("proof"), destination.get("from")
    told = "unproven" if proof == "none" else f"{proof}, {destination.get('integrity')}"
    if destination.get("by") == "standing":
        told = f"standing answer {destination.get('answer')}"
    if isinstance(origin, dict):
        told += f", from {origin.get('server')}/{origin.get('tool')}"
    yield f"to {destination.get('path')}: {told}"
    if isinstance(origin, dict):
        yield f"   in record {origin.get('record')}"  # an id is as wide as half of the screen


def _label(words: Mapping[str, Any]) -> str:
    return f"{words.get('integrity', '-')} {words.get('confidentiality', '')}".strip()


def _line(cells: tuple[str, ...], widths: tuple[int, ...]) -> str:
    padded = (_cut(text, w).ljust(w) for text, w in zip(cells, widths, strict=True))
    return " ".join(padded).rstrip()


def _clipped(text: str, most: int) -> str:
    return _cut(cell(text), most)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}~"
