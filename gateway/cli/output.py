"""What commands print: tables for people, one JSON object a line for programs."""

import json
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from gateway.pins.visible import visible

_GAP = "  "
_DIGEST_CHARACTERS = len("sha256:") + 12
_NARROWEST = 6
"""Columns of a screen that a column of a table keeps, whatever else there is to show."""
_CUT = "\u2026"


def print_rows(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    """Print `rows`: whole as JSON lines, or their `columns` as a table.

    On a terminal the table is as wide as that at most, its widest columns cut; a line never wraps.
    """
    if as_json:
        for row in rows:
            print_json(row)
        return
    cells = [[cell(row.get(column)) for column in columns] for row in rows]
    if not cells:
        click.echo("nothing to show", err=True)
        return
    heads = [column.upper() for column in columns]
    widths = [max(map(screen_columns, column)) for column in zip(heads, *cells, strict=True)]
    if sys.stdout.isatty():
        widths = fitting(widths, shutil.get_terminal_size().columns)
    for line in (heads, *cells):
        padded = (cut(text, width) for text, width in zip(line, widths, strict=True))
        click.echo(_GAP.join(padded).rstrip())


def fitting(widths: Sequence[int], room: int) -> list[int]:
    """Return widths that with their gaps fit into `room`, taken from the widest ones."""
    fitted = list(widths)
    over = sum(fitted) + len(_GAP) * (len(fitted) - 1) - room
    while over > 0 and max(fitted) > _NARROWEST:
        widest = fitted.index(max(fitted))
        fitted[widest] -= 1
        over -= 1
    return fitted


def cut(text: str, width: int) -> str:
    """Return `text` in exactly so many columns of a screen; what is cut off is an ellipsis."""
    if screen_columns(text) > width:
        while screen_columns(text) > max(width - 1, 0):
            text = text[:-1]
        text += _CUT
    return text + " " * (width - screen_columns(text))


def screen_columns(text: str) -> int:
    """Return how many columns of a screen `text` takes: letters of East Asia take two."""
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)


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
