"""A small part of JSONPath (RFC 9535): `$`, `.name`, `['name']`, `[n]`, `[*]`."""

import re
from collections.abc import Iterator
from typing import Any

Path = tuple[str | int | None, ...]
"""Member names, array indexes, and `None` for every element or member."""

_STEP = re.compile(
    r"\.(?P<name>[A-Za-z_$][\w$-]*)|\['(?P<quoted>[^']*)'\]|\[(?P<index>\d+|\*)\]|(?P<star>\.\*)"
)


def parse_path(text: str) -> Path:
    """Return the steps of `text`.

    Raises:
        ValueError: It is no path of this small language.

    """
    if not text.startswith("$"):
        raise ValueError(f"a path starts with $: {text}")
    steps: list[str | int | None] = []
    at = 1
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise ValueError(f"cannot read this path from character {at} on: {text}")
        steps.append(_step(found))
        at = found.end()
    if not steps:
        raise ValueError("a path names something inside the document")
    return tuple(steps)


def _step(found: re.Match[str]) -> str | int | None:
    if found["index"] is not None:
        return None if found["index"] == "*" else int(found["index"])
    if found["star"] is not None:
        return None
    return found["name"] if found["name"] is not None else found["quoted"]


def selected(document: Any, path: Path) -> Iterator[tuple[Any, Any]]:
    """Yield the container and the key of everything that `path` selects in `document`."""
    nodes = [document]
    for step in path[:-1]:
        nodes = [node[key] for node in nodes for key in _keys(node, step)]
    for node in nodes:
        for key in _keys(node, path[-1]):
            yield node, key


def _keys(node: Any, step: str | int | None) -> list[Any]:
    if isinstance(node, dict):
        if step is None:
            return list(node)
        return [step] if isinstance(step, str) and step in node else []
    if isinstance(node, list):
        if step is None:
            return list(range(len(node)))
        return [step] if isinstance(step, int) and step < len(node) else []
    return []
