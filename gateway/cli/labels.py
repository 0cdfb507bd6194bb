"""Suggested labels as people read them: a fragment of the configuration, or one line."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from gateway.cli.connection import connect
from gateway.cli.context import Place, as_json, place
from gateway.cli.output import cell, print_json
from gateway.domain.labels import Effect

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,127}", re.ASCII)
_WORDS_OF_YAML = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_LONGEST_REASON = 160
_MEMBERS = ("effect", "destination", "payload", "typed", "result")


@click.command("suggest-labels")
@click.argument("server")
@click.option("--all", "everything", is_flag=True, help="Tools that have labels, too.")
@click.option(
    "--accept-lowering",
    is_flag=True,
    help="Write out also what trusts a tool more than no label does: only after a review.",
)
@as_json
@place
def suggest_labels(
    place: Place, /, *, server: str, everything: bool, accept_lowering: bool, as_json: bool
) -> None:
    """Suggest labels for the tools of SERVER that have none, as a piece of the configuration.

    What trusts a tool more than no label does is a question and commented out. The server itself
    chose the words that this comes from.
    """
    with connect(place.config) as gateway:
        rows = gateway.call("servers.suggest_labels", server=server, everything=everything)
    if as_json:
        for row in rows:
            print_json(row)
    elif rows:
        for line in fragment(server, rows, accept_lowering=accept_lowering):
            click.echo(line)
    else:
        click.echo(f"every tool of {cell(server)} has labels", err=True)


def fragment(
    server: str, rows: Sequence[Mapping[str, Any]], *, accept_lowering: bool
) -> Iterator[str]:
    """Yield the lines of a fragment of `douane.yaml`; `rows` are of `servers.suggest_labels`."""
    waiting = sum(row["definition"] != "approved" for row in rows)
    yield f"# {len(rows)} tools, {waiting} of them as they wait for approval."
    if not accept_lowering:
        yield "# A line after `#` is a question: it trusts the tool more than no label does."
    yield "servers:"
    yield f"  {scalar(server)}:"
    yield "    tools:"
    for row in rows:
        yield f"      # {_reasons(row)}"
        yield f"      {scalar(row['name'])}:"
        yield from _members(row, accept_lowering=accept_lowering)


def _reasons(row: Mapping[str, Any]) -> str:
    waits = "" if row["definition"] == "approved" else "not approved yet; "
    told = "; ".join(row["because"]) or "nothing speaks for an effect"
    text = _ascii(cell(waits + told))
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."


def _members(row: Mapping[str, Any], *, accept_lowering: bool) -> Iterator[str]:
    live = 0
    for member in _MEMBERS:
        content = row[member]
        if not content:
            continue
        line = f"{member}: {_flow(content)}"
        if member in row["lowers"] and not accept_lowering:
            yield f"        # {line}   # {_question(member, content)}"
        else:
            live += 1
            yield f"        {line}"
    if not live:
        # Something must stand there, so that taking a `#` away is all there is to do.
        yield "        payload: []"


def _question(member: str, content: Any) -> str:
    if member == "destination":
        return "lowers the default: with proof of these a call need not wait"
    if member == "typed":
        return "proves destinations: uncomment if no free text is in them"
    if content == Effect.READ:
        return "lowers the default; uncomment if this tool only reads"
    return "lowers the default; uncomment if this tool does nothing worse"


def _flow(content: Any) -> str:
    if isinstance(content, dict):
        return f"{{{', '.join(f'{name}: {scalar(text)}' for name, text in content.items())}}}"
    if isinstance(content, list):
        return f"[{', '.join(map(scalar, content))}]"
    return scalar(content)


def scalar(text: str) -> str:
    """Return `text` as YAML that cannot mean anything else, whoever chose it."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS_OF_YAML:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_ascii(escaped)}"'


def _ascii(text: str) -> str:
    return "".join(c if " " <= c <= "~" else f"\\U{ord(c):08x}" for c in text)


def in_one_line(suggestion: Mapping[str, Any]) -> str:
    """Return a suggestion for a list: `effect egress?, destination to, payload body`.

    A question mark stands after what trusts the tool more than no label does.
    """
    parts = [
        f"{member} {_told(suggestion[member])}{'?' if member in suggestion['lowers'] else ''}"
        for member in _MEMBERS
        if suggestion[member]
    ]
    return "; ".join(parts) or "none"


def _told(content: Any) -> str:
    if isinstance(content, dict):
        return "/".join(map(cell, content.values()))
    return cell(content)
