"""What a whole document has of each class, and at which paths: what policy is told. Never a value."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain
from typing import Any, Final

from gateway.dlp.detector import Detector, Look, Work
from gateway.domain._value import value
from gateway.domain.document import item_path, member_path
from gateway.domain.rewriting import is_media, spellings, texts_of_blocks
from gateway.flow.content import Text, pieces, text_of

_MOST: Final = 256
"""Findings that policy is told of one document; what goes beyond is told at `$`."""
_MOST_VALUES: Final = 1024
"""Of one document; whose the others are is not looked at."""
_ONE_PIECE: Final = 64 * 1024
_AROUND: Final = 1024
"""Characters on each side of an edge; longer than anything but a private key's block."""


@value
class Finding:
    """Something of class `of` at `path`, `count` times."""

    of: str
    group: str
    path: str
    count: int
    values: tuple[str, ...] = field(default=(), repr=False)
    """What was found, as it stands there; of what is there in another form, nothing."""


def scan(
    detector: Detector, content: Any, named: Collection[str] = (), left: float = float("inf")
) -> tuple[Finding, ...]:
    """Return what stands in `content`: in its texts, numbers and names, and in what they encode.

    `named` are names of its own members that say what whoever reads it wants, and nothing of their
    values. `left` is how much it may take, as `Work` counts it.

    Raises:
        TooMuch: It takes more.

    """
    if not may_find(detector, content):
        return ()
    found = _Findings(detector, left)
    found.walk(content, "$", "", frozenset(named))
    return found.all()


def may_find(detector: Detector, content: Any, told: Text | None = None) -> bool:
    """Say quickly whether anything may be found in `content`, all of which is `told`; a no is certain."""
    text, whole = told or text_of(content)
    parts = [text]
    if len(text) > _ONE_PIECE:
        parts = [text[start:end] for start, end in pieces(text)]
    return not whole or any(map(detector.may_have, chain(parts, _edges_in(content))))


def _edges_in(content: Any) -> Iterator[str]:
    """Yield what stands around the edges of blocks of text, which readers put together: all of a list's."""
    waiting = [content]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
            texts = texts_of_blocks(node) if len(node) > 1 else []
            if len(texts) > 1:
                joined = "".join(map(_ends_of, texts))
                yield from (joined[start:end] for start, end in pieces(joined))


def _ends_of(text: str) -> str:
    return text if len(text) <= 2 * _AROUND else f"{text[:_AROUND]}\n{text[-_AROUND:]}"


class _Findings:
    def __init__(self, detector: Detector, left: float) -> None:
        self._detector, self._work = detector, Work()
        self._work.left = left
        self._groups = detector.groups
        self._counts: Counter[tuple[str, str]] = Counter()
        self._values: dict[tuple[str, str], list[str]] = {}
        self._kept = 0

    def walk(self, node: Any, path: str, name: str, named: frozenset[str]) -> None:
        waiting = [(node, path, name)]
        while waiting:
            node, path, name = waiting.pop()
            if isinstance(node, dict):
                aside = named if path == "$" else ()
                waiting += [
                    (inner, self._named(path, member), "" if member in aside else member)
                    for member, inner in node.items()
                    if not (member == "data" and is_media(node))
                ][::-1]
            elif isinstance(node, list):
                self._edges(node, path)
                waiting += [(inner, item_path(path, i), name) for i, inner in enumerate(node)][::-1]
            elif isinstance(node, str):
                self._look(node, path, name)
            elif node is not None and not isinstance(node, bool):
                for spelled in spellings(node):
                    if self._look(spelled, path, name):
                        break

    def add(self, of: str, path: str, values: Sequence[str]) -> None:
        if (of, path) not in self._counts and len(self._counts) >= _MOST:
            path = "$"
        self._counts[of, path] += max(1, len(values))
        kept = values[: _MOST_VALUES - self._kept]
        if kept:
            self._values.setdefault((of, path), []).extend(kept)
            self._kept += len(kept)

    def all(self) -> tuple[Finding, ...]:
        return tuple(
            Finding(
                of=of,
                group=self._groups.get(of, of),
                path=path,
                count=count,
                values=tuple(self._values.get((of, path), ())),
            )
            for (of, path), count in self._counts.items()
        )

    def _named(self, path: str, member: str) -> str:
        """Return the path of `member`; where its name is what was found, the path does not say it."""
        at = member_path(path, member)
        if self._detector.empty.get(member):
            return at
        look = self._detector.look_at_name(member, self._work)
        if not look.classes:
            return at
        at = member_path(path, f"[{min(look.classes)}]")
        self._note(look, member, at)
        return at

    def _look(self, text: str, path: str, name: str) -> bool:
        look = self._detector.look(text, name, self._work)
        if look.classes:
            self._note(look, text, path)
        return bool(look.classes)

    def _edges(self, items: list[Any], path: str) -> None:
        """Note what stands over the edge of two blocks of text, which readers put together."""
        texts = texts_of_blocks(items)
        if len(texts) < 2:  # noqa: PLR2004 - two have an edge
            return
        look = self._detector.look("".join(texts), work=self._work)
        for span in over_edges(look, texts):
            self.add(span.of, path, ())

    def _note(self, look: Look, text: str, path: str) -> None:
        octets = text.encode("utf-8", "surrogatepass")
        plain: dict[str, list[str]] = {}
        for span in look.spans:
            said = octets[span.start : span.end].decode("utf-8", "replace")
            plain.setdefault(span.of, []).append(said)
        for of in sorted(look.classes):
            if of in plain:
                self.add(of, path, plain[of])
            if of in look.hidden:
                self.add(of, path, ())


def over_edges(look: Look, texts: Sequence[str]) -> Iterator[Any]:
    """Yield the spans of `look`, which is of `texts` together, that stand in two of them."""
    edges, at = [], 0
    for text in texts[:-1]:
        at += len(text.encode("utf-8", "surrogatepass"))
        edges.append(at)
    for span in look.spans:
        after = bisect_right(edges, span.start)
        if after < len(edges) and edges[after] < span.end:
            yield span


def _nowhere(path: str, text: str) -> bool:  # noqa: ARG001 - what nobody reviewed says no place
    return False


def told(
    findings: Sequence[Finding],
    given: Mapping[str, str] | None = None,
    says_where: Callable[[str, str], bool] = _nowhere,
) -> list[dict[str, Any]]:
    """Return `findings` as policy is told them; with `given`, by whom each value was given.

    Then `says_where` tells of a path and a value whether this says where the call goes.
    """
    rows: list[dict[str, Any]] = []
    for finding in findings:
        row = {"class": finding.of, "group": finding.group, "path": finding.path}
        if given is None:
            rows.append({**row, "count": finding.count})
            continue
        path = finding.path
        counts = Counter((given.get(one, ""), says_where(path, one)) for one in finding.values)
        unseen = finding.count - len(finding.values)
        if unseen > 0:
            counts["", False] += unseen
        rows += [
            {**row, "count": n, "given": by, "place": place}
            for (by, place), n in sorted(counts.items())
        ]
    return rows
