"""What commands print: tables for people, one JSON object a line for programs."""

import json
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from gateway.domain._value import value
from gateway.pins.visible import visible

PLAIN_COLUMNS = 80
"""Of a line where there is no terminal that says how many it has."""

_GAP = "  "
_DIGEST_CHARACTERS = len("sha256:") + 12
_NARROWEST = 6
"""Columns of a screen that a column of a table keeps, whatever else there is to show."""
_CUT = "\u2026"


@value
class Column:
    """One of a table's."""

    name: str
    """Of the member of a row that it shows; its head in capitals, unless there is a `head`."""
    head: str = ""
    of: Callable[[Mapping[str, Any]], Any] | None = None
    """What it shows of a row, where that is more than one member."""
    told: Callable[[Any], str] | None = None
    """How a person reads it: ages for times, with --wide the content itself."""
    whole: bool = False
    """Whether it is cut last: somebody pastes it into the next command."""
    wide: bool = False
    """Whether only --wide shows it."""

    @property
    def title(self) -> str:
        return (self.head or self.name).upper()

    def text(self, row: Mapping[str, Any], *, wide: bool) -> str:
        """Return what stands in the cell of `row`, safe to print."""
        content = row.get(self.name) if self.of is None else self.of(row)
        return cell(self.told(content) if self.told is not None and not wide else content)


def print_rows(
    rows: Iterable[Mapping[str, Any]],
    columns: Sequence[Column | str],
    *,
    as_json: bool,
    wide: bool = False,
) -> None:
    """Print `rows`: whole as JSON lines, or their `columns` as a table.

    The table is as wide as the terminal, or where there is none as 80 columns, at most, its widest
    columns cut; `wide` it shows everything. A line never wraps by itself.
    """
    if as_json:
        for row in rows:
            print_json(row)
        return
    named = [one if isinstance(one, Column) else Column(name=one) for one in columns]
    shown = [one for one in named if wide or not one.wide]
    cells = [[one.text(row, wide=wide) for one in shown] for row in rows]
    if not cells:
        click.echo("nothing to show", err=True)
        return
    for line in table([one.title for one in shown], cells, room(wide=wide), _last(shown)):
        click.echo(line)


def _last(columns: Sequence[Column]) -> frozenset[int]:
    return frozenset(number for number, one in enumerate(columns) if one.whole)


def room(*, wide: bool = False) -> int | None:
    """Return how many columns a line may take: of the terminal, or 80; `None` for any number."""
    if wide:
        return None
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PLAIN_COLUMNS


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    most: int | None,
    whole: frozenset[int] = frozenset(),
) -> Iterator[str]:
    """Yield the lines of a table that is `most` columns of a screen wide, if it can be.

    The columns whose numbers are in `whole` are cut last.
    """
    widths = [max(map(screen_columns, column)) for column in zip(heads, *rows, strict=True)]
    if most is not None:
        widths = fitting(widths, most, whole)
    for line in (heads, *rows):
        padded = (cut(text, width) for text, width in zip(line, widths, strict=True))
        yield _GAP.join(padded).rstrip()


def fitting(widths: Sequence[int], most: int, whole: frozenset[int] = frozenset()) -> list[int]:
    """Return widths that with their gaps fit into `most`, taken from the widest ones.

    Those of the columns in `whole` are taken last.
    """
    fitted = list(widths)
    over = sum(fitted) + len(_GAP) * (len(fitted) - 1) - most
    first = [number for number in range(len(fitted)) if number not in whole]
    for numbers in (first, range(len(fitted))):
        while over > 0 and max((fitted[each] for each in numbers), default=0) > _NARROWEST:
            widest = max(numbers, key=lambda each: fitted[each])
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
    """Print one object: as a JSON line, or a member a line; what is long and nested on several."""
    if as_json:
        print_json(row)
        return
    width = max(map(len, row), default=0)
    for name, content in row.items():
        for number, line in enumerate(_lines(content, PLAIN_COLUMNS - width - len(_GAP))):
            click.echo(f"{('' if number else name).ljust(width)}{_GAP}{line}")


def _lines(content: Any, most: int) -> Sequence[str]:
    """Return what stands beside a name: structures that are wider than `most` member by member."""
    text = cell(content, whole=True)
    if not isinstance(content, dict | list) or _is_names(content) or screen_columns(text) <= most:
        return [text]
    if isinstance(content, list):
        lines = [cell(item, whole=True) for item in content]
    else:
        lines = [f"{visible(name)}: {cell(inner, whole=True)}" for name, inner in content.items()]
    if max(map(screen_columns, lines)) <= most:
        return lines
    indented = json.dumps(content, ensure_ascii=False, indent=2)
    return [visible(line) for line in indented.split("\n")]


def _is_names(content: Any) -> bool:
    return isinstance(content, list) and all(isinstance(item, str) for item in content)


def print_json(row: Any) -> None:
    """Print one line of ASCII, so that no upstream's text can speak to the terminal."""
    click.echo(json.dumps(row, ensure_ascii=True, separators=(",", ":")))


def cell(content: Any, *, whole: bool = False) -> str:
    """Return `content` as text that is safe to print; digests are shortened unless `whole`."""
    if content is None:
        return "-"
    if isinstance(content, bool):
        return "yes" if content else "no"
    if _is_names(content):
        return visible(", ".join(content)) or "-"
    if isinstance(content, dict | list):
        return visible(json.dumps(content, ensure_ascii=False))
    text = visible(str(content))
    if text.startswith("sha256:") and not whole:
        return text[:_DIGEST_CHARACTERS]
    return text
