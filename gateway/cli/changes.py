"""What changed, for a person who decides: worst first, on one screen, with the commands to go on."""

from collections.abc import Iterator, Sequence
from typing import Any

import click

from gateway.admin.pin_rows import alike_in_profiles
from gateway.cli.labels import in_one_line
from gateway.cli.output import cell
from gateway.cli.pasted import command
from gateway.domain.tools import PinStatus
from gateway.pins.tiers import Tier

SCREEN_LINES = 40
_BLOCK_DIFFERENCES = 2
_MOST_HINTS = 40
_MOST_UNDONE = 3
_CONTEXT = 30
"""Characters of what did not change that stand before and after what did."""
_LONGEST = 400
_RISKS = frozenset({Tier.CONTRACT.value, Tier.RISK.value})


def is_risky(row: dict[str, Any]) -> bool:
    """Whether nobody should approve it unseen: it carries hints, or is T2 or T3."""
    return bool(row["findings"]) or row["tier"] in _RISKS


def print_review(rows: Sequence[dict[str, Any]], *, whole: bool = False) -> None:
    """Print what waits, worst first, on one screen, or `whole`; what does not fit is counted.

    What both families of revisions show alike is told once.
    """
    waiting = alike_in_profiles(rows)
    drifted = sum(row["status"] == PinStatus.DRIFTED for row in waiting)
    lines = [f"{len(waiting)} wait for a decision, {drifted} of them drifted; worst first"]
    shown = 0
    for row in waiting:
        block = [*_block(row, whole=whole), f"  approve: {_approve(row)}"]
        if not whole and shown and len(lines) + len(block) >= SCREEN_LINES:
            break
        lines += block
        shown += 1
    if rest := waiting[shown:]:
        worst = ", ".join(sorted({row["tier"] for row in rest}, reverse=True))
        lines.append(f"and {len(rest)} more ({worst}): decide on these first, or see all by --all")
    for line in lines:
        click.echo(line)


def print_differences(rows: Sequence[dict[str, Any]]) -> None:
    """Print how a target differs from what was approved, or all of it if it never was.

    A change is one screen; milder differences that do not fit are counted.
    """
    for row in alike_in_profiles(rows):
        lines = [*_head(row), *_hints(row, SCREEN_LINES // 4)]
        left = SCREEN_LINES - len(lines) - len(_tail(row)) - 1
        new = _whole_definition(row)
        for line in (*lines, *new, *_differences(row, left // 3), *_labels(row), *_tail(row)):
            click.echo(line)


def print_risks(rows: Sequence[dict[str, Any]]) -> None:
    """Print, beside a command's result, what nobody should approve unseen."""
    for row in rows:
        for line in _block(row):
            click.echo(line, err=True)


def _block(row: dict[str, Any], *, whole: bool = False) -> list[str]:
    if whole:
        new = [*_hints(row, _MOST_HINTS), *_whole_definition(row)]
    else:
        codes = [f"  ! {', '.join(row['findings'])}"] if row["findings"] else []
        new = [*codes, *_definition_in_short(row)]
    return [*_head(row), *new, *_differences(row, _BLOCK_DIFFERENCES), *_labels(row)]


def _whole_definition(row: dict[str, Any]) -> Iterator[str]:
    """Yield every part of what nobody approved yet: to be read, so nothing is cut."""
    for part in row["parts"]:
        said = f": {part['said']}" if part["said"] else ""
        yield f"  {part['name']}: {part['text']}{said}"


def _definition_in_short(row: dict[str, Any]) -> Iterator[str]:
    lists: dict[str, list[str]] = {}
    for part in row["parts"]:
        kind, _, name = part["name"].partition(" ")
        if name and kind in _LISTED:
            lists.setdefault(kind, []).append(f"{name}: {part['text']}")
        else:
            yield f"  {part['name']}: {_cut(part['text'])}"
    for kind, told in lists.items():
        yield f"  {kind}s: {_cut('; '.join(told))}"


_LISTED = frozenset({"parameter", "argument", "annotation"})


def _labels(row: dict[str, Any]) -> Iterator[str]:
    """Yield what the call of a new tool would count as, and what its definition suggests."""
    if labels := row["labels"]:
        named = [f"{m} {cell(labels[m])}" for m in ("destination", "payload") if labels[m]]
        result = "/".join(labels["result"].values())
        told = "; ".join([f"effect {labels['effect']}", *named, f"results {result}"])
        yield f"  labels that would apply: {_cut(told)}"
    if row["suggestion"]:
        yield f"  labels it suggests: {_cut(in_one_line(row['suggestion']))}"


def _head(row: dict[str, Any]) -> Iterator[str]:
    profiles = " and ".join(row.get("profiles", [row["profile"]]))
    where = f"{row['server']}/{row['kind']}/{row['name']} ({profiles})"
    yield f"{cell(where)}: {cell(row['status'])}, {_summary(row)}"
    if row["digest"] is None and row["observed_address"]:
        yield f"  the server is at {cell(row['observed_address'])}"
    if row["moved_to"]:
        # Without an address: approved before addresses were part of a pin.
        before = cell(row["moved_from"] or "no address on file")
        yield f"  the server is at {cell(row['moved_to'])}, and was approved at {before}"
    for filed in row["filed"]:
        yield f"  approved by {cell(filed['by'])}; another person must, too"


def _summary(row: dict[str, Any]) -> str:
    if row["digest"] is None:
        return "never approved; all of it is new, and says:"
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
        f"  revoke:  {decide('revoke', row)}",
    ]


def _approve(row: dict[str, Any]) -> str:
    address = ["--address", cell(row["observed_address"])] if row["observed_address"] else []
    return decide("approve", row, "--digest", row["observed_digest"], *address)


def decide(verb: str, row: dict[str, Any], *more: str) -> str:
    """Return the command that approves or revokes what `row` is about, as it can be pasted."""
    options = [] if row["kind"] == "tool" else ["--kind", row["kind"]]
    options += ["--profile", row["profile"]] if row["profile"] else []
    name = cell(row["name"])
    if name.startswith("-"):  # it is the upstream's, and must be no option of ours
        return command("pins", verb, *options, *more, "--", row["server"], name)
    return command("pins", verb, row["server"], name, *options, *more)


def say_undo(verb: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print the commands that undo what was decided about `rows`; of many, the first ones."""
    told = [decide(verb, row) for row in alike_in_profiles(rows)]
    for text in told[:_MOST_UNDONE]:
        click.echo(f"undo: {text}")
    if (more := len(told) - _MOST_UNDONE) > 0:
        click.echo(f"and {more} more like that, by their names")
