"""`douane audit ask`: ready-made questions about the log, one command each."""

import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from gateway.admin.names import Names
from gateway.cli.connection import Connection, connect
from gateway.cli.context import Place, as_json, in_full, place
from gateway.cli.lag import late
from gateway.cli.names import names_of
from gateway.cli.output import Column, cell, cut, print_rows, room
from gateway.cli.records import columns_of
from gateway.cli.runs import show as show_run
from gateway.cli.servers import say_unknown_server
from gateway.cli.units import age, clock

_COUNTED = ("calls", "refused", Column(name="last", head="last call", told=age))
_UNDER = 11
"""Columns before what a line of an answer says."""
_HASH_CHARACTERS = len("h1:") + 16
_MOST_DESTINATIONS = 2
"""That one answer shows of a call; the record has all."""

_Columns = Sequence[Column | str]

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


def _tabled(command: Any) -> Any:
    """Give a command the options of one that prints rows."""
    return as_json(in_full(place(command)))


@ask.command("sent-outside")
@click.option("--from", "source", required=True, metavar="SERVER", help="Whose data it is.")
@click.option("--verdict", type=click.Choice(["allowed", "refused"]), help="Only what was so.")
@_since
@_after
@_limit(3)
@_tabled
def sent_outside(
    place: Place, /, *, source: str, verdict: str | None, as_json: bool, wide: bool, **asked: Any
) -> None:
    """Say who sent data of a server outside, under which policy, and who approved it.

    Every call that does more than read, in a run that had seen results of SERVER; to another
    server, or as one that sends. Left out is only what is proven to stay with us.
    """
    allowed = None if verdict is None else verdict == "allowed"
    with connect(place.config) as gateway:
        said = {"source": source, "allowed": allowed, **asked}
        answer = _asked(gateway, "sent-outside", as_json=as_json, **said)
        names = Names([]) if as_json else names_of(gateway)
    if as_json or not answer["rows"]:
        print_rows(answer["rows"], (), as_json=as_json)
    else:
        for line in _sendings(answer, names, room(wide=wide)):
            click.echo(line)
    _say_rest(answer)


@ask.command("who-called")
@click.argument("server")
@click.argument("tool")
@_since
@_limit(20)
@_tabled
def who_called(place: Place, /, **asked: Any) -> None:
    """Say who called a tool, through which client, and how often."""

    def columns(names: Names) -> _Columns:
        client = Column(name="client", of=lambda row: names.client(row["client"]))
        return Column(name="principal", of=names.told()), client, *_COUNTED

    _tell(place, "who-called", columns, **asked)


@ask.command()
@click.option("--by-rule", is_flag=True, help="Count them by the rule that refused.")
@_since
@_after
@_limit(20)
@_tabled
def denied(place: Place, /, *, by_rule: bool, **asked: Any) -> None:
    """Show what was refused, newest first, or how often by which rule."""
    if not by_rule:
        _tell(place, "denied", columns_of, **asked)
        return
    columns = ("rule", "code", "verdict", "kind", "records", Column(name="last", told=age))
    _tell(place, "denied-by-rule", lambda _: columns, **asked)


@ask.command()
@click.option("--from", "source", required=True, metavar="SERVER", help="Whose data it is.")
@click.option("--to", "server", metavar="SERVER", help="Only to this server.")
@_since
@_limit(20)
@_tabled
def flows(place: Place, /, **asked: Any) -> None:
    """Count the calls of each tool in runs that had seen data of a server.

    Of calls that do more than read; `outside` counts those that are not proven to stay with us.
    """
    calls, refused, last = _COUNTED
    columns = ("server", "tool", "effect", calls, refused, "outside", last)
    _tell(place, "flows", lambda _: columns, **asked)


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
@_tabled
def top(place: Place, /, *, subject: str, **asked: Any) -> None:
    """Show who calls most, by which client, or which tool is called most."""

    def columns(names: Names) -> _Columns:
        if subject == "tool":
            return "server", "name", *_COUNTED
        known = names.client if subject == "client" else names.principal
        return Column(name="name", of=lambda row: known(row["name"])), *_COUNTED

    _tell(place, "top", columns, subject=subject, **asked)


@ask.command()
@_since
@_limit(20)
@_tabled
def undeclared(place: Place, /, **asked: Any) -> None:
    """Say which clients do not declare their users' tasks, those with most such calls first.

    `ignored` are calls that do, of a client that no administrator marked as a trusted host.
    """

    def columns(names: Names) -> _Columns:
        client = Column(name="client", of=lambda row: names.client(row["client"]))
        last = Column(name="last", head="last such call", told=age)
        return client, "calls", "undeclared", "ignored", last

    _tell(place, "undeclared", columns, **asked)


@ask.command("where-went")
@click.argument("content", metavar="VALUE")
@_limit(20)
@_tabled
def where_went(place: Place, /, *, content: str, **asked: Any) -> None:
    """Find the records in which VALUE stands: JSON, or else text.

    Found by its keyed hashes: as arguments or an answer as a whole, or as one value of either's.
    """
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError):
        parsed = content

    def columns(names: Names) -> _Columns:
        who = Column(name="principal", of=names.told())
        told = Column(name="time", told=clock, whole=True)
        return told, who, "server", "target", "verdict", "where", Column(name="record", wide=True)

    _tell(place, "where-went", columns, content=parsed, **asked)


@ask.command()
@click.argument("principal")
@_since
@_after
@_limit(20)
@_tabled
def timeline(place: Place, /, **asked: Any) -> None:
    """Show what a principal did, newest first; a client that acts for itself is one by its name."""
    _tell(place, "timeline", columns_of, **asked)


def _asked(gateway: Connection, question: str, *, as_json: bool, **asked: Any) -> Mapping[str, Any]:
    """Return the answer; where there is none, say which server is none either."""
    answer: Mapping[str, Any] = gateway.call("audit.ask", question=question, **asked)
    if not answer["rows"] and not as_json:
        for name in ("source", "server"):
            say_unknown_server(gateway, asked.get(name))
    return answer


def _tell(
    place: Place,
    question: str,
    columns: Callable[[Names], _Columns],
    *,
    as_json: bool,
    wide: bool,
    **asked: Any,
) -> None:
    """Ask `question`, and print its rows: people and clients by their names."""
    with connect(place.config) as gateway:
        given = asked.get("principal")
        names = Names([]) if as_json and given is None else names_of(gateway)
        if given is not None:
            asked["principal"] = names.id_of(given)
        answer = _asked(gateway, question, as_json=as_json, **asked)
    print_rows(answer["rows"], columns(names), as_json=as_json, wide=wide)
    _say_rest(answer)


def _say_rest(answer: Mapping[str, Any]) -> None:
    """Say on standard error what the rows leave out, if they do."""
    if not answer["complete"]:
        lag_s = answer.get("lag_s")
        why = "the index is being made" if lag_s is None else late(lag_s)
        click.echo(f"{why}: this answer goes up to record {answer['through']}", err=True)
    if answer["next"] is not None:
        click.echo(f"there may be more: --after {answer['next']}", err=True)


def _sendings(answer: Mapping[str, Any], names: Names, most: int | None) -> Sequence[str]:
    """Return what is told of each call that sent something, or was to; no line beyond `most`."""
    told = [f"since {answer['since'][:16]}Z, up to record {answer['through']}, newest first"]
    for row in answer["rows"]:
        for line in _sending(row, names, wide=most is None):
            told += [line] if most is None or not line else _folded(line, most)
    return told


def _folded(line: str, most: int) -> Sequence[str]:
    """Return `line` as two lines at most, the second one under what the first one says."""
    folded = textwrap.wrap(
        line,
        most,
        subsequent_indent=" " * _UNDER,
        break_on_hyphens=False,
        max_lines=2,
        placeholder=" \u2026",
    )
    return [cut(one, most).rstrip() for one in folded]


def _sending(row: Mapping[str, Any], names: Names, *, wide: bool) -> Sequence[str]:
    client = names.client(row["client"]) or "-"
    through = f"client {client}, from {row['source_ip'] or '-'}"
    seen = [_source(one, wide=wide) for one in row["seen"]]
    to = [_destination(one) for one in row["destinations"][:_MOST_DESTINATIONS]]
    left = len(row["destinations"]) - len(to)
    return [
        "",
        cell(f"{row['time'][:19]}Z {_ended(row)}: {names.principal(row['principal']) or '-'}"),
        _line("through", through),
        _line("data of", "; ".join(seen) + f"; run is {_label(row['label'])}"),
        _line("sent by", f"{row['server']}/{row['tool']} ({row['effect']})"),
        _line("to", "; ".join(to) + (f"; {left} more" if left > 0 else "") or "no argument says"),
        _line("policy", _policy(row)),
        _line("approved", _approved(row["approval"], wide=wide)),
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


def _source(seen: Mapping[str, Any], *, wide: bool) -> str:
    record = f" (record {seen.get('record')})" if wide else ""
    return f"{seen.get('server')}/{seen.get('tool')}{record}"


def _label(label: Mapping[str, Any] | None) -> str:
    words = label or {}
    return f"{words.get('integrity', '-')} {words.get('confidentiality', '-')}"


def _destination(one: Mapping[str, Any]) -> str:
    hashed = str(one.get("value_hmac", "value not kept"))[:_HASH_CHARACTERS]
    proof = "unproven" if one.get("proof") == "none" else f"proof: {one.get('proof')}"
    if one.get("by") == "standing":
        proof = f"standing answer {one.get('answer')}"
    return f"{one.get('path')} {one.get('value', hashed)} ({proof})"


def _approved(approval: Mapping[str, Any] | None, *, wide: bool) -> str:
    if approval is None:
        return "nobody was asked"
    if approval["answer"] is None:
        return f"nobody has answered yet ({approval['id']})"
    word = "by" if approval["answer"] == "allowed" else "no:"
    note = f' "{approval["note"]}"' if approval["note"] else ""
    id_ = f" ({approval['id']})" if wide else ""
    return f"{word} {approval['by']} at {approval['at'][:19]}Z{note}{id_}"


def _policy(row: Mapping[str, Any]) -> str:
    since = f" since {row['policy_since'][:19]}Z" if row["policy_since"] else ""
    why = ", ".join(row["rules"]) or row["code"] or ""
    return f"{cell(row['policy_digest'])}{since}{why and ': ' + why}"


def _signed(row: Mapping[str, Any]) -> str:
    state = "signed" if row["signed"] else "not signed yet"
    return f"leaf {row['leaf_index']}, {state}"
