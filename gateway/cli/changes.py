"""What changed, for a person who decides: worst first, on one screen, with the commands to go on."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import click

from gateway.cli.labels import in_one_line
from gateway.cli.output import cell
from gateway.domain.tools import PinStatus
from gateway.pins.tiers import Tier

SCREEN_LINES = 40
_BLOCK_DIFFERENCES = 2
_CONTEXT = 30
"""Characters of what did not change that stand before and after what did."""
_LONGEST = 400
_RISKS = frozenset({Tier.CONTRACT.value, Tier.RISK.value})


def is_risky(row: dict[str, Any]) -> bool:
    """Whether nobody should approve it unseen: it carries hints, or is T2 or T3."""
    return bool(row["findings"]) or row["tier"] in _RISKS


def print_review(rows: Sequence[dict[str, Any]]) -> None:
    """Print what waits, worst first, on one screen; what does not fit is counted."""
    drifted = sum(row["status"] == PinStatus.DRIFTED for row in rows)
    lines = [f"{len(rows)} wait for a decision, {drifted} of them drifted; worst first"]
    shown = 0
    for row in rows:
        block = [*_block(row), f"  approve: {_approve(row)}"]
        if len(lines) + len(block) >= SCREEN_LINES:
            break
        lines += block
        shown += 1
    if rest := rows[shown:]:
        worst = ", ".join(sorted({row["tier"] for row in rest}, reverse=True))
        lines.append(
            f"and {len(rest)} more ({worst}): decide on these first, or see them by --json"
        )
    for line in lines:
        click.echo(line)


def print_difference(row: dict[str, Any]) -> None:
    """Print one pin's change on one screen; milder differences that do not fit are counted."""
    lines = [*_head(row), *_hints(row, SCREEN_LINES // 4)]
    left = SCREEN_LINES - len(lines) - len(_tail(row)) - 1
    for line in (*lines, *_differences(row, left // 3), *_tail(row)):
        click.echo(line)


def print_risks(rows: Sequence[dict[str, Any]]) -> None:
    """Print, beside a command's result, what nobody should approve unseen."""
    for row in rows:
        for line in _block(row):
            click.echo(line, err=True)


def _block(row: dict[str, Any]) -> list[str]:
    codes = [f"  ! {', '.join(row['findings'])}"] if row["findings"] else []
    return [*_head(row), *codes, *_differences(row, _BLOCK_DIFFERENCES)]


def _head(row: dict[str, Any]) -> Iterator[str]:
    where = f"{row['server']}/{row['kind']}/{row['name']} ({row['profile']})"
    yield f"{cell(where)}: {cell(row['status'])}, {_summary(row)}"
    if row["moved_to"]:
        # Without an address: approved before addresses were part of a pin.
        before = cell(row["moved_from"] or "no address on file")
        yield f"  the server is at {cell(row['moved_to'])}, and was approved at {before}"
    for filed in row["filed"]:
        yield f"  approved by {cell(filed['by'])}; another person must, too"
    if row["suggestion"]:
        yield f"  labels it suggests: {_cut(in_one_line(row['suggestion']))}"


def _summary(row: dict[str, Any]) -> str:
    if row["digest"] is None:
        return "never approved: all of it is new"
    if not row["changed"]:
        ended = row["status"] == PinStatus.PENDING
        return "as it was approved; the approval has run out" if ended else "as it was approved"
    if row["version_changed"]:
        return f"changed ({row['tier']}) with a new version of the server"
    return f"changed ({row['tier']}) WITHOUT a new version of the server: no release explains it"


def _hints(row: dict[str, Any], most: int) -> Iterator[str]:
    # The gateway has made these texts visible; doing it again would double their escapes.
    for hint in row["hints"][:most]:
        yield f"  ! {hint['code']} at {hint['path']}: {hint['excerpt']}"
    if more := row["hints"][most:]:
        yield f"  ! and {len(more)} more findings"


def _differences(row: dict[str, Any], most: int) -> Iterator[str]:
    found = [each for each in row["differences"] if not _has_members(each, row["differences"])]
    for each in found[:most]:
        yield f"  {each['tier']} {each['path']}"
        old, new = _trimmed(each["old"], each["new"])
        if old is not None:
            yield f"    - {old}"
        if new is not None:
            yield f"    + {new}"
    if more := found[most:]:
        yield f"  and {len(more)} more, none worse than {more[0]['tier']}: see --json"


def _has_members(each: dict[str, Any], differences: Sequence[dict[str, Any]]) -> bool:
    """Whether its members, which came or went with it, have differences of their own."""
    inside = (f"{each['path']}.", f"{each['path']}[")
    return any(other["path"].startswith(inside) for other in differences)


def _trimmed(old: str | None, new: str | None) -> tuple[str | None, str | None]:
    """Leave out what is alike at both ends, so that what was added to a long text is seen."""
    if old is None or new is None:
        return _cut(old), _cut(new)
    start = max(0, _alike(old, new) - _CONTEXT)
    limit = min(len(old), len(new)) - start
    alike = _alike(old[::-1], new[::-1])
    end = max(0, min(alike, limit) - _CONTEXT)
    return _cut(_window(old, start, end)), _cut(_window(new, start, end))


def _alike(one: str, other: str) -> int:
    """Return how many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, its) in pairs if mine != its), min(len(one), len(other)))


def _window(text: str, start: int, end: int) -> str:
    kept = text[start : len(text) - end]
    return f"{'...' if start else ''}{kept}{'...' if end else ''}"


def _cut(text: str | None) -> str | None:
    if text is None or len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}... and {len(text) - _LONGEST} more characters"


def _tail(row: dict[str, Any]) -> list[str]:
    if not row["changed"] and row["status"] == PinStatus.APPROVED:
        return []
    return [
        f"  observed {row['observed_digest']}",
        f"  approve: {_approve(row)}",
        f"  revoke:  douane pins revoke {_place(row)}",
    ]


def _approve(row: dict[str, Any]) -> str:
    return f"douane pins approve {_place(row)} --digest {row['observed_digest']}"


def _place(row: dict[str, Any]) -> str:
    # A name is the upstream's: it must not end the command that a person copies.
    name = shlex.quote(cell(row["name"]))
    kind = "" if row["kind"] == "tool" else f" --kind {row['kind']}"
    return f"{row['server']} {name}{kind} --profile {row['profile']}"
