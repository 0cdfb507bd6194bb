"""`douane policy`: compile it, test it, ask it, and read why it decided."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import click

from gateway.admin.names import Names
from gateway.admin.policy import PolicyFiles, check_files, test_files
from gateway.admin.rows import Row, Rows
from gateway.cli.connection import Connection, connect
from gateway.cli.context import Place, as_json, place, read_json
from gateway.cli.failure import NO, WRONG_USE, Failed
from gateway.cli.names import names_of
from gateway.cli.output import cell, print_fields, print_json
from gateway.cli.pasted import say_undo
from gateway.cli.replay import reevaluation_lines, replay
from gateway.config import Config
from gateway.domain.audit import RecordKind
from gateway.errors import ConfigError, UnknownTool


@click.group()
def policy() -> None:
    """Compile, test, ask and explain the policy."""


@policy.command()
@as_json
@place
def check(place: Place, /, *, as_json: bool) -> None:
    """Compile the policy's files; exit 1 if they have problems."""
    result = of_files(place.config, check_files)
    if as_json:
        print_json(result)
    else:
        for problem in result["problems"]:
            click.echo(cell(problem))
        _say_notices(result)
        click.echo("the policy compiles" if result["ok"] else "the policy has problems")
    _exit(result)


@policy.command()
@as_json
@place
def test(place: Place, /, *, as_json: bool) -> None:
    """Run the policy's own tests; exit 1 if one fails, or there is none."""
    result = of_files(place.config, test_files)
    if as_json:
        print_json(result)
    else:
        for failure in result["failures"]:
            click.echo(cell(failure))
        _say_notices(result)
        changed = f", {result['changed']} of the shipped ones changed" if result["changed"] else ""
        click.echo(f"{result['passed']} passed, {result['failed']} failed{changed}")
    _exit(result)


def of_files(config: Config, ask: Callable[[PolicyFiles], Awaitable[Row]]) -> Row:
    """Ask about the configured files, which takes neither a gateway nor its data.

    Raises:
        Failed: There is no OPA.

    """
    from gateway.wiring import policy_files  # noqa: PLC0415 - it brings every adapter with it

    async def run() -> Row:
        return await ask(policy_files(config))

    try:
        return asyncio.run(run())
    except ConfigError as error:
        raise Failed.of(error) from error


@policy.command("eval")
@click.argument("file", type=click.Path(path_type=Path), default="-")
@as_json
@place
def eval_(place: Place, /, *, file: Path, as_json: bool) -> None:
    """Ask the policy in force the question in FILE (JSON; default: standard input).

    Exit 1 unless it allows.
    """
    question = read_json(file)
    if not isinstance(question, dict):
        raise Failed("the question must be a JSON object", exit_code=WRONG_USE)
    with connect(place.config) as gateway:
        row = gateway.call("policy.eval", question=question)
    print_fields(row, as_json=as_json)
    if row["verdict"] != "allow":
        raise click.exceptions.Exit(NO)


@policy.command()
@click.argument("decision", required=False)
@as_json
@place
def explain(place: Place, /, *, decision: str | None, as_json: bool) -> None:
    """Say why DECISION was made, and show its records; by default of the newest refusal.

    It is put to the policy that made it once more.
    """
    with connect(place.config) as gateway:
        id_ = decision or _newest_refusal(gateway)
        *records, last = gateway.call("policy.explain", decision=id_)
        names = Names([]) if as_json else names_of(gateway)
    if as_json:
        for row in (*records, last):
            print_json(row)
        return
    again = last["reevaluation"]
    decided = _decided(records)
    said = (*_reasons(decided), *_unseen(decided), *_outvoted(decided, again))
    for line in (*said, *reevaluation_lines(again)):
        click.echo(line)
    for record in records:
        click.echo()
        print_fields(names.beside(record), as_json=False)


_LOOKED_THROUGH = 100
"""Refusals; most have a decision, but those of strangers."""


def _newest_refusal(gateway: Connection) -> str:
    for row in gateway.call("audit.query", verdict="deny", limit=_LOOKED_THROUGH):
        if row.get("decision_id"):
            return str(row["decision_id"])
    raise Failed("policy has refused nothing yet; name a decision", exit_code=NO)


def _decided(records: Rows) -> Row:
    """Return the newest record that is of the call itself: a person's answer has a record, too."""
    own = [one for one in records if one.get("kind") != RecordKind.APPROVAL]
    return (own or records)[-1]


def _outvoted(record: Row, again: Row) -> Iterator[str]:
    own = (again.get("before") or {}).get("verdict")
    if record.get("verdict") == "deny" and own not in {None, "deny"}:
        yield f"policy's own word was {cell(own)}; it was not what counted"


def _unseen(record: Row) -> Iterator[str]:
    """Yield why nothing was found: its caller is told alike of what is not there and what is hidden."""
    if record.get("code") != UnknownTool.code:
        return
    if not record.get("pin_digest"):
        yield "no definition of that name is known here; `douane servers list` and `pins list` show which are"
        return
    yield (
        "there is one, and it is hidden from its caller: they chose other servers, or policy does not "
        "show it to them (phase `list`). By the shipped policies the token lacks `tools:list` and "
        "`tools:call` then, or its groups may not use the server"
    )


def _reasons(record: Row) -> Iterator[str]:
    """Yield what the record says that was decided: `deny: closed_today: the notes are closed`."""
    said = record.get("reasons") or [{"code": record.get("code"), "message": ""}]
    # The caller's code stands there as well, and says less than what policy said.
    for reason in [one for one in said if one["code"] != record.get("code")] or said:
        told = (record.get("verdict"), reason["code"], reason["message"])
        yield ": ".join(cell(one) for one in told if one)


@policy.command()
@as_json
@place
def status(place: Place, /, *, as_json: bool) -> None:
    """Show which policy is in force, what is wrong with its files, and whether everything is stopped."""
    with connect(place.config) as gateway:
        held = gateway.call("policy.stopped")
        row = {**gateway.call("policy.status"), **_stopped(held)}
        problems = () if as_json else gateway.call("policy.check")["problems"]
    print_fields(row, as_json=as_json)
    for problem in problems:
        click.echo(f"its files have a problem: {cell(problem)}")


_WHY = "Why; it is kept in the audit log."


@policy.command()
@click.option("--note", required=True, help=_WHY)
@as_json
@place
def stop(place: Place, /, *, note: str, as_json: bool) -> None:
    """Refuse every call from now on, whatever the rules say, until `douane policy go`.

    It holds at once, and after a reload and a restart as well.
    """
    with connect(place.config) as gateway:
        row = gateway.call("policy.stop", note=note)
    print_fields(_stopped(row), as_json=as_json)
    if not as_json:
        say_undo("policy", "go", "--note", "why it may go on")


@policy.command()
@click.option("--note", required=True, help=_WHY)
@click.option(
    "--standstill",
    help="The stop that you saw, as `policy status` names it; else the one that holds now.",
)
@as_json
@place
def go(place: Place, /, *, note: str, standstill: str | None, as_json: bool) -> None:
    """Undo `douane policy stop`: the rules decide again.

    Where everything is stopped again meanwhile, it stays so.
    """
    with connect(place.config) as gateway:
        if standstill is None:
            standstill = gateway.call("policy.stopped")["standstill"]
        row = gateway.call("policy.go", standstill=standstill or "", note=note)
    print_fields(_stopped(row), as_json=as_json)


def _stopped(row: Row) -> Row:
    named = {
        "by": "stopped_by",
        "at": "stopped_at",
        "note": "stopped_note",
        "standstill": "standstill",
    }
    told = {new: row[old] for old, new in named.items()} if row["stopped"] else {}
    return {"stopped": row["stopped"], **told}


policy.add_command(replay)


def _say_notices(result: Row) -> None:
    for notice in result["notices"]:
        click.echo(cell(f"notice: {notice}"))


def _exit(result: Row) -> None:
    if not result["ok"]:
        raise click.exceptions.Exit(NO)
