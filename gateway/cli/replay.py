"""`douane policy replay`: what another policy would have decided, and how that is shown."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from gateway.admin.replay import AGAIN, MOST_DECISIONS
from gateway.cli.connection import connect
from gateway.cli.context import Place, as_json, place
from gateway.cli.failure import NO, WRONG_USE, Failed
from gateway.cli.output import cell, print_json
from gateway.errors import ConfigError

_LISTED = 50
"""Decisions that are shown one by one, of each kind; `--json` gives all."""


@click.command()
@click.option("--since", default="7d", show_default=True, help="A duration before now, or a time.")
@click.option("--until", help="A duration before now, or a time.")
@click.option(
    "--policy",
    "folder",
    type=click.Path(path_type=Path),
    help="A folder of Rego. Default: the policy in its configured place.",
)
@click.option("--where", help="For example: server = mail and not verdict = allow")
@click.option("--limit", default=MOST_DECISIONS, show_default=True, type=click.IntRange(min=1))
@as_json
@place
def replay(place: Place, /, *, folder: Path | None, as_json: bool, **asked: Any) -> None:
    """Say which recorded decisions a policy would have made otherwise; exit 1 if there are any."""
    files = None if folder is None else _files(folder)
    with connect(place.config) as gateway:
        rows = gateway.stream("policy.replay", files=files, **asked)
        summary = _as_json(rows) if as_json else _as_text(rows)
    if summary.get("changed"):
        raise click.exceptions.Exit(NO)


def _files(folder: Path) -> dict[str, str]:
    """Return the policy in `folder`: it is sent, for the gateway need not be able to read it.

    Raises:
        Failed: It is none.

    """
    from gateway.policy.sources import read_folder  # noqa: PLC0415 - it brings the policy room

    if not folder.is_dir():
        raise Failed(f"{folder} is no folder", exit_code=WRONG_USE)
    try:
        return {path: text.decode() for path, text in read_folder(folder).files.items()}
    except ConfigError as error:
        raise Failed.of(error) from error
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{folder} cannot be read: {error}", exit_code=WRONG_USE) from error


def _as_json(rows: Iterator[Mapping[str, Any]]) -> Mapping[str, Any]:
    last: Mapping[str, Any] = {}
    for row in rows:
        last = row
        if row["finding"] != "progress":
            print_json(row)
    return last


def _as_text(rows: Iterator[Mapping[str, Any]]) -> Mapping[str, Any]:
    last: Mapping[str, Any] = {}
    shown = {"changed": 0, "inexact": 0}
    for row in rows:
        last = row
        if row["finding"] in shown:
            shown[row["finding"]] += 1
            if shown[row["finding"]] <= _LISTED:
                click.echo(_line(row))
    for finding, count in shown.items():
        if count > _LISTED:
            click.echo(f"... and {count - _LISTED} more that are {finding}; --json lists all")
    for line in _summary_lines(last):
        click.echo(line)
    return last


def _line(row: Mapping[str, Any]) -> str:
    who = "  ".join(cell(row[name]) for name in ("time", "principal", "server", "target"))
    decision = cell(row["decision_id"])
    if row["finding"] == "inexact":
        return f"{who}  {decision}  cannot be replayed exactly: {cell(row['lacking'])}"
    return f"{who}  {decision}  {_answer(row['before'])} -> {_answer(row['after'])}"


def _answer(answer: Mapping[str, Any]) -> str:
    """Return an answer on one line: `deny (untrusted_run)`."""
    told = list(answer["reasons"])
    told += [one["duty"] for one in answer.get("obligations", ())]
    return cell(answer["verdict"]) + (f" ({cell(told)})" if told else "")


def _summary_lines(row: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"{row['decisions']} decisions: {row['same']} same, {row['changed']} changed, "
        f"{row['inexact']} that cannot be replayed exactly"
    )
    for one in row["changes"]:
        what = f"{cell(one['server'])}/{cell(one['target'])}"
        why = f"  {cell(one['reasons'])}" if one["reasons"] else ""
        yield f"  {one['count']} x {what}: {cell(one['before'])} -> {cell(one['after'])}{why}"
    for name, count in row["lacking"].items():
        yield f"  {count} x not recorded: {cell(name)}"
    if row["without_question"]:
        yield f"{row['without_question']} decisions keep no question and were left out"
    if row["more"]:
        yield "the limit was reached; there are more"
    yield f"policy {row['policy_digest']}"


def reevaluation_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is shown of a decision that was put to its own policy once more: its reasons first."""
    places: Sequence[Mapping[str, Any]] = found.get("places") or ()
    if places:
        reasoned = any(one["code"] for one in places)
        yield "its reasons stand at:" if reasoned else "the rules that said so:"
    for one in places:
        yield f"  {cell(one['file'])}:{one['line']}: {cell(one['code'] or one['rule'])}"
    yield AGAIN[found["finding"]]
    if found.get("before"):
        yield f"then: {_answer(found['before'])}"
    if found.get("after"):
        yield f"now: {_answer(found['after'])}"
    lacking: Sequence[str] = found.get("lacking") or ()
    if lacking:
        yield f"not kept in clear: {cell(list(lacking))}"
    told = tuple(f"{one['file']}:{one['line']}: " for one in places)
    rules = [one for one in found.get("rules", ()) if not one.startswith(told)]
    if rules:
        yield "what else held:" if places else "rules that held:"
    for rule in rules:
        yield f"  {cell(rule)}"
