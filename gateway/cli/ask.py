"""`douane audit ask`: ready-made questions about the log, one command each."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from gateway.cli.connection import connect
from gateway.cli.context import Place, as_json, place
from gateway.cli.output import cell, cut, print_rows
from gateway.cli.runs import show as show_run

_RECORDS = ("time", "kind", "principal", "server", "target", "verdict", "code", "id")
_WIDE = 98
_HASH_CHARACTERS = len("h1:") + 16
_MOST_DESTINATIONS = 2
"""That one answer shows of a call; the record has all."""

_since = click.option(
    "--since", default="7d", show_default=True, help="A duration before now (24h, 7d) or a time."
)
_after = click.option("--after", metavar="CURSOR", help="Go on where another page has ended.")


def _limit(most: int) -> Callable[[Any], Any]:
    return click.option(
        "--limit", default=most, show_default=True, type=click.IntRange(min=1, max=1000)
    )


@click.group()
def ask() -> None:
    """Ask the log a ready-made question; that you do is on record."""


ask.add_command(show_run, "run")


@ask.command("sent-outside")
@click.option("--from", "source", required=True, metavar="SERVER", help="Whose data it is.")
@click.option("--verdict", type=click.Choice(["allowed", "refused"]), help="Only what was so.")
@_since
@_after
@_limit(3)
@as_json
@place
def sent_outside(
    place: Place, /, *, source: str, verdict: str | None, as_json: bool, **asked: Any
) -> None:
    """Say who sent data of a server outside, under which policy, and who approved it.

    Every call that does more than read, in a run that had seen results of SERVER; to another
    server, or as one that sends. Left out is only what is proven to stay with us.
    """
    allowed = None if verdict is None else verdict == "allowed"
    answer = _asked(place, "sent-outside", source=source, allowed=allowed, **asked)
    _tell(answer, as_json=as_json, lines=_sendings)


@ask.command("who-called")
@click.argument("server")
@click.argument("tool")
@_since
@_limit(20)
@as_json
@place
def who_called(place: Place, /, *, as_json: bool, **asked: Any) -> None:
    """Say who called a tool, through which client, and how often."""
    answer = _asked(place, "who-called", **asked)
    _tell(answer, ("principal", "client", "calls", "refused", "last"), as_json=as_json)


@ask.command()
@click.option("--by-rule", is_flag=True, help="Count them by the rule that refused.")
@_since
@_after
@_limit(20)
@as_json
@place
def denied(place: Place, /, *, by_rule: bool, as_json: bool, **asked: Any) -> None:
    """Show what was refused, newest first, or how often by which rule."""
    question = "denied-by-rule" if by_rule else "denied"
    columns = ("rule", "code", "verdict", "kind", "records", "last") if by_rule else _RECORDS
    _tell(_asked(place, question, **asked), columns, as_json=as_json)


@ask.command()
@click.option("--from", "source", required=True, metavar="SERVER", help="Whose data it is.")
@click.option("--to", "server", metavar="SERVER", help="Only to this server.")
@_since
@_limit(20)
@as_json
@place
def flows(place: Place, /, *, as_json: bool, **asked: Any) -> None:
    """Count the calls of each tool in runs that had seen data of a server.

    Of calls that do more than read; `outside` counts those that are not proven to stay with us.
    """
    columns = ("server", "tool", "effect", "calls", "refused", "outside", "last")
    _tell(_asked(place, "flows", **asked), columns, as_json=as_json)


@ask.command()
@click.option(
    "--by",
    "subject",
    default="principal",
    show_default=True,
    type=click.Choice(["principal", "client", "tool"]),
)
@_since
@_limit(20)
@as_json
@place
def top(place: Place, /, *, subject: str, as_json: bool, **asked: Any) -> None:
    """Show who calls most, by which client, or which tool is called most."""
    answer = _asked(place, "top", subject=subject, **asked)
    first = ("server", "name") if subject == "tool" else ("name",)
    _tell(answer, (*first, "calls", "refused", "last"), as_json=as_json)


@ask.command("where-went")
@click.argument("content", metavar="VALUE")
@_limit(20)
@as_json
@place
def where_went(place: Place, /, *, content: str, as_json: bool, **asked: Any) -> None:
    """Find the records in which VALUE stands: JSON, or else text.

    Found by its keyed hashes: as arguments or an answer as a whole, or as one value of either's.
    """
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError):
        parsed = content
    answer = _asked(place, "where-went", content=parsed, **asked)
    columns = ("time", "principal", "server", "target", "verdict", "where", "record")
    _tell(answer, columns, as_json=as_json)


@ask.command()
@click.argument("principal")
@_since
@_after
@_limit(20)
@as_json
@place
def timeline(place: Place, /, *, as_json: bool, **asked: Any) -> None:
    """Show what a principal did, newest first."""
    _tell(_asked(place, "timeline", **asked), _RECORDS, as_json=as_json)


def _asked(place: Place, question: str, **asked: Any) -> Mapping[str, Any]:
    with connect(place.config) as gateway:
        answer: Mapping[str, Any] = gateway.call("audit.ask", question=question, **asked)
    return answer


def _tell(
    answer: Mapping[str, Any],
    columns: Sequence[str] = (),
    *,
    as_json: bool,
    lines: Callable[[Mapping[str, Any]], Sequence[str]] | None = None,
) -> None:
    rows = answer["rows"]
    if lines is None or as_json or not rows:
        print_rows(rows, columns, as_json=as_json)
    else:
        for line in lines(answer):
            click.echo(line)
    if not answer["complete"]:
        click.echo(
            f"the index is being made: this answer goes up to record {answer['through']}", err=True
        )
    if answer["next"] is not None:
        click.echo(f"there may be more: --after {answer['next']}", err=True)


def _sendings(answer: Mapping[str, Any]) -> Sequence[str]:
    """Return nine lines at most for each call that sent something, or was to."""
    told = [f"since {answer['since'][:16]}Z, up to record {answer['through']}, newest first"]
    for row in answer["rows"]:
        told += [cut(line, _WIDE).rstrip() for line in _sending(row)]
    return told


def _sending(row: Mapping[str, Any]) -> Sequence[str]:
    through = f"client {row['client'] or '-'}, from {row['source_ip'] or '-'}"
    to = [_destination(one) for one in row["destinations"][:_MOST_DESTINATIONS]]
    left = len(row["destinations"]) - len(to)
    return [
        "",
        cell(f"{row['time'][:19]}Z {_ended(row)}: {row['principal'] or '-'}"),
        _line("through", through),
        _line("data of", "; ".join(map(_source, row["seen"])) + f"; run is {_label(row['label'])}"),
        _line("sent by", f"{row['server']}/{row['tool']} ({row['effect']})"),
        _line("to", "; ".join(to) + (f"; {left} more" if left > 0 else "") or "no argument says"),
        _line("policy", _policy(row)),
        _line("approved", _approved(row["approval"])),
        _line("record", f"{row['record']} ({_signed(row)})"),
    ]


def _line(name: str, content: str) -> str:
    return f"  {name.ljust(8)} {cell(content, whole=True)}"


def _ended(row: Mapping[str, Any]) -> str:
    if row["verdict"] == "allow":
        return "SENT"
    if row["went_out"]:
        return f"SENT, then {row['verdict']}"
    return f"NOT SENT ({row['verdict']})"


def _source(seen: Mapping[str, Any]) -> str:
    return f"{seen.get('server')}/{seen.get('tool')} (record {seen.get('record')})"


def _label(label: Mapping[str, Any] | None) -> str:
    words = label or {}
    return f"{words.get('integrity', '-')} {words.get('confidentiality', '-')}"


def _destination(one: Mapping[str, Any]) -> str:
    hashed = str(one.get("value_hmac", "value not kept"))[:_HASH_CHARACTERS]
    proof = "unproven" if one.get("proof") == "none" else f"proof: {one.get('proof')}"
    return f"{one.get('path')} {one.get('value', hashed)} ({proof})"


def _approved(approval: Mapping[str, Any] | None) -> str:
    if approval is None:
        return "nobody was asked"
    if approval["answer"] is None:
        return f"nobody has answered yet ({approval['id']})"
    word = "by" if approval["answer"] == "allowed" else "no:"
    note = f' "{approval["note"]}"' if approval["note"] else ""
    return f"{word} {approval['by']} at {approval['at'][:19]}Z ({approval['id']}){note}"


def _policy(row: Mapping[str, Any]) -> str:
    since = f", in force since {row['policy_since'][:19]}Z" if row["policy_since"] else ""
    why = ", ".join(row["rules"]) or row["code"] or ""
    return f"{cell(row['policy_digest'])}{since}{why and ': ' + why}"


def _signed(row: Mapping[str, Any]) -> str:
    state = "signed" if row["signed"] else "not signed yet"
    return f"leaf {row['leaf_index']}, {state}"
