"""`douane discovery`: which tools lists at `/mcp` begin with, and what lists cost a model."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from gateway.cli.connection import connect
from gateway.cli.context import Place, as_json, in_full, place
from gateway.cli.labels import scalar
from gateway.cli.output import cell, print_json, print_rows

_COLUMNS = ("name", "status", "tokens")


@click.group()
def discovery() -> None:
    """See what hosts are shown at /mcp, and what that costs their models."""


@discovery.command()
@click.option("--suggest", is_flag=True, help="From what was called, as configuration to paste.")
@click.option("--since", default="30d", show_default=True, help="A duration before now, or a time.")
@click.option(
    "--cover",
    default=90.0,
    show_default=True,
    type=click.FloatRange(min=0, max=100, min_open=True),
    help="Percent of all calls that the core is to be enough for.",
)
@click.option("--most", default=30, show_default=True, type=click.IntRange(min=1, max=1000))
@as_json
@in_full
@place
def core(place: Place, /, *, suggest: bool, as_json: bool, wide: bool, **asked: Any) -> None:
    """List the configured core with what it costs, or suggest one from the audit log.

    Suggested are the fewest tools that had so much of all calls; what a model would not think to
    search for belongs in the core as well, however rarely it is called. Tokens are an estimate.
    """
    with connect(place.config) as gateway:
        if not suggest:
            rows = gateway.call("discovery.core")
            print_rows(rows, _COLUMNS, as_json=as_json, wide=wide)
            return
        rows = gateway.call("discovery.suggest", **asked)
    since = asked["since"]
    if as_json:
        for row in rows:
            print_json(row)
    elif rows:
        for line in fragment(rows, since):
            click.echo(line)
    else:
        click.echo(f"no tool that is approved was called since {cell(since)}", err=True)


def fragment(rows: Sequence[Mapping[str, Any]], since: str) -> Iterator[str]:
    """Yield the lines of a fragment of `douane.yaml`; `rows` are of `discovery.suggest`."""
    calls, share, tokens = (sum(row[key] for row in rows) for key in ("calls", "share", "tokens"))
    yield f"# {len(rows)} tools had {share:.0f} % of all calls since {cell(since)} ({calls})."
    yield f"# They cost about {tokens} tokens."
    yield "discovery:"
    yield "  core:"
    for row in rows:
        yield f"    - {scalar(row['name'])}  # {row['calls']} calls, {row['share']} %"


@discovery.command()
@as_json
@place
def tokens(place: Place, /, *, as_json: bool) -> None:
    """Say what a list of all approved tools would cost, by server, as an estimate."""
    with connect(place.config) as gateway:
        rows = gateway.call("discovery.tokens")
    print_rows(rows, ("server", "tools", "tokens"), as_json=as_json)
    if not as_json and rows:
        click.echo(f"all: about {sum(row['tokens'] for row in rows)} tokens")
