"""The picture of a run: an SVG with the agent in the middle, servers around it, flows as arrows."""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

from gateway.domain._value import value
from gateway.flow.story import Step, Story, Words

_COLOURS = {
    "public": "#5f6b7a",
    "internal": "#1f6fb2",
    "private": "#b26a00",
    "secret": "#7b3fa0",
    "refused": "#c62828",
}
_WIDTH = 1000
_BOX = 170
_MARGIN = 20
_AGENT_X = (_WIDTH - _BOX) // 2
_ROW = 40
_HEAD = 70
_GAP = 18
_FOOT = 100
_TIP = 10
"""How far an arrow's head reaches beyond its line."""
_MOST_ARROWS = 80
"""Kinds of flows in a picture; of more, the calls are counted."""
_LONGEST = 36
"""Characters that fit beside an arrow."""
_LONGEST_NAME = 20
_DASHED = ' stroke-dasharray="6 4"'

Sources = Mapping[tuple[str, str], Words]
"""The label of each tool's own results."""


@value
class _Flow:
    """Calls that look alike in a picture."""

    server: str
    name: str
    inward: bool
    """From the server to the agent."""
    confidentiality: str
    untrusted: bool
    refused: str
    """The code, if it was."""

    @property
    def colour(self) -> str:
        look = "refused" if self.refused else self.confidentiality
        return look if look in _COLOURS else "public"

    @property
    def words(self) -> str:
        return f"{'untrusted' if self.untrusted else 'trusted'}, {self.confidentiality}"


@value
class _Arrow:
    flow: _Flow
    first: int
    """`seq` of the first of these calls."""
    times: int


_Side = Mapping[str, Sequence[_Arrow]]


def picture(story: Story, sources: Sources) -> str:
    """Return `story` as SVG text: no script, nothing from elsewhere, all text escaped.

    An arrow towards the agent is what it read, in the colour of the result's own label, as
    `sources` give it; one towards a server is a call that does something, in the colour of what the
    run had seen by then. Untrusted is dashed; what was refused is red, with the reason's code.
    """
    arrows = _grouped(story, sources)
    left, right = _sides(arrows[:_MOST_ARROWS])
    height = max(_tall(left), _tall(right), 2 * _ROW)
    uncounted = sum(arrow.times for arrow in arrows[_MOST_ARROWS:])
    lines = [
        *_title(story),
        *_box(_AGENT_X, _HEAD, height, "agent", fill="#eef2f7"),
        *_drawn(left, _MARGIN, leftward=True),
        *_drawn(right, _WIDTH - _MARGIN - _BOX, leftward=False),
        *_legend(_HEAD + height + 2 * _GAP, uncounted),
    ]
    return _document(_HEAD + height + _FOOT, story, lines)


def _grouped(story: Story, sources: Sources) -> list[_Arrow]:
    found: dict[_Flow, list[int]] = {}
    for _, step in story.walk():
        if step.server:
            found.setdefault(_flow(step, sources), []).append(step.seq)
    return [_Arrow(flow=flow, first=seqs[0], times=len(seqs)) for flow, seqs in found.items()]


def _flow(step: Step, sources: Sources) -> _Flow:
    inward = step.effect in {"", "read"} and not step.refused
    words = sources.get((step.server, step.name), step.label_after) if inward else step.label_before
    known = words or {}
    return _Flow(
        server=step.server,
        name=step.name,
        inward=inward,
        confidentiality=known.get("confidentiality") or "unknown",
        untrusted=known.get("integrity") != "trusted",
        refused=step.why if step.refused else "",
    )


def _sides(arrows: Sequence[_Arrow]) -> tuple[_Side, _Side]:
    """Put each server where there is more room, in the order in which they were called."""
    servers: dict[str, list[_Arrow]] = {}
    for arrow in arrows:
        servers.setdefault(arrow.flow.server, []).append(arrow)
    left: dict[str, Sequence[_Arrow]] = {}
    right: dict[str, Sequence[_Arrow]] = {}
    for server, its in servers.items():
        (left if _tall(left) <= _tall(right) else right)[server] = its
    return left, right


def _tall(side: _Side) -> int:
    return sum(len(arrows) * _ROW for arrows in side.values()) + _GAP * max(0, len(side) - 1)


def _drawn(side: _Side, x: int, *, leftward: bool) -> Iterator[str]:
    """Draw one side's servers, and the arrows between them and the agent."""
    y = _HEAD
    for server, arrows in side.items():
        yield from _box(x, y, len(arrows) * _ROW, server, fill="#f8f8f5")
        for row, arrow in enumerate(arrows):
            near, far = (x + _BOX, _AGENT_X) if leftward else (x, _AGENT_X + _BOX)
            ends = (near, far) if arrow.flow.inward else (far, near)
            yield from _line(arrow, ends, y + row * _ROW + _ROW // 2)
        y += len(arrows) * _ROW + _GAP


def _line(arrow: _Arrow, ends: tuple[int, int], y: int) -> Iterator[str]:
    flow, (start, end) = arrow.flow, ends
    tip = end - _TIP if end > start else end + _TIP
    times = f" ({arrow.times} calls)" if arrow.times > 1 else ""
    above = f"{arrow.first}. {_clipped(flow.name, _LONGEST - len(times) - 5)}{times}"
    below = f"refused: {flow.refused}" if flow.refused else flow.words
    colour, middle = _COLOURS[flow.colour], (start + end) // 2
    yield (
        f'<line x1="{start}" y1="{y}" x2="{tip}" y2="{y}" stroke="{colour}" stroke-width="2"'
        f'{_DASHED if flow.untrusted else ""} marker-end="url(#to-{flow.colour})"/>'
    )
    yield _text(middle, y - 6, above, size=11)
    yield _text(middle, y + 14, _clipped(below, _LONGEST), size=10, fill=colour)


def _box(x: int, y: int, height: int, name: str, *, fill: str) -> Iterator[str]:
    yield (
        f'<rect x="{x}" y="{y}" width="{_BOX}" height="{height}" rx="8" fill="{fill}"'
        ' stroke="#39424e"/>'
    )
    words = _clipped(name, _LONGEST_NAME)
    yield _text(x + _BOX // 2, y + height // 2 + 5, words, size=14, weight="bold")


def _title(story: Story) -> Iterator[str]:
    refused = sum(step.refused and bool(step.server) for _, step in story.walk())
    steps = sum(1 for _ in story.walk())
    told = f"{steps} steps, {refused} refused"
    if story.left_out:
        told += "; earlier steps are left out"
    yield _text(_WIDTH // 2, 28, f"Run {_clipped(story.run, 64)}", size=16, weight="bold")
    yield _text(_WIDTH // 2, 48, told, size=12)


def _legend(y: int, uncounted: int) -> Iterator[str]:
    x = _MARGIN
    for name, colour in _COLOURS.items():
        yield f'<line x1="{x}" y1="{y}" x2="{x + 30}" y2="{y}" stroke="{colour}" stroke-width="3"/>'
        yield _text(x + 38, y + 4, name, size=11, anchor="start")
        x += 120
    yield (
        f'<line x1="{x}" y1="{y}" x2="{x + 30}" y2="{y}" stroke="#39424e" stroke-width="2"'
        f"{_DASHED}/>"
    )
    yield _text(x + 38, y + 4, "untrusted", size=11, anchor="start")
    told = "To the agent: what it read. From the agent: what it did, with all it had read by then."
    if uncounted:
        told += f" {uncounted} more calls are not drawn."
    yield _text(_MARGIN, y + 26, told, size=11, anchor="start")


def _document(height: int, story: Story, lines: Sequence[str]) -> str:
    heads = [
        f'<marker id="to-{name}" viewBox="0 0 10 10" refX="0" refY="5" markerWidth="{_TIP}"'
        f' markerHeight="{_TIP}" markerUnits="userSpaceOnUse" orient="auto">'
        f'<path d="M0 0L10 5L0 10z" fill="{colour}"/></marker>'
        for name, colour in _COLOURS.items()
    ]
    opened = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}"'
        f' width="{_WIDTH}" height="{height}" role="img" font-family="sans-serif">'
    )
    return "\n".join(
        [
            opened,
            f"<title>{_safe(f'Run {story.run}')}</title>",
            f"<defs>{''.join(heads)}</defs>",
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            *lines,
            "</svg>",
            "",
        ]
    )


def _text(
    x: int,
    y: int,
    words: str,
    *,
    size: int,
    fill: str = "#1c232b",
    anchor: str = "middle",
    weight: str = "normal",
) -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" fill="{fill}" text-anchor="{anchor}"'
        f' font-weight="{weight}">{_safe(words)}</text>'
    )


def _clipped(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 1] + "\u2026"


def _safe(words: str) -> str:
    """Return `words` as XML 1.0 text (section 2.2) that shows in the order in which it stands.

    Every control, format, surrogate and unassigned character becomes a replacement character.
    """
    plain = (c if unicodedata.category(c)[0] != "C" else "\ufffd" for c in words)
    return escape("".join(plain), {'"': "&quot;"})
