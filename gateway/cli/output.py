"""What commands print: tables for people, one JSON object a line for programs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from gateway.pins.visible import visible

_GAP = "  "
_DIGEST_CHARACTERS = len("sha256:") + 12


def print_rows(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    """Print `rows`: whole as JSON lines, or their `columns` as a table."""
    if as_json:
        for row in rows:
            print_json(row)
        return
    cells = [[cell(row.get(column)) for column in columns] for row in rows]
    if not cells:
        click.echo("nothing to show", err=True)
        return
    heads = [column.upper() for column in columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    for line in (heads, *cells):
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        click.echo(_GAP.join(padded).rstrip())


def print_fields(row: Mapping[str, Any], *, as_json: bool) -> None:
    """Print one object: as a JSON line, or a member a line."""
    if as_json:
        print_json(row)
        return
    width = max(map(len, row), default=0)
    for name, content in row.items():
        click.echo(f"{name.ljust(width)}{_GAP}{cell(content, whole=True)}")


def print_json(row: Any) -> None:
    """Print one line of ASCII, so that no upstream's text can speak to the terminal."""
    click.echo(json.dumps(row, ensure_ascii=True, separators=(",", ":")))


def cell(content: Any, *, whole: bool = False) -> str:
    """Return `content` as text that is safe to print; digests are shortened unless `whole`."""
    if content is None:
        return "-"
    if isinstance(content, bool):
        return "yes" if content else "no"
    if isinstance(content, list) and all(isinstance(item, str) for item in content):
        return visible(", ".join(content)) or "-"
    if isinstance(content, dict | list):
        return visible(json.dumps(content, ensure_ascii=False))
    text = visible(str(content))
    if text.startswith("sha256:") and not whole:
        return text[:_DIGEST_CHARACTERS]
    return text
