"""A plane's own configuration as it is written: YAML that may say a part once, and use it again."""

from collections.abc import Iterator
from typing import Any, Final

import yaml

_DEEPEST: Final = 200
_MOST_PARTS: Final = 1_000_000
"""Of the whole, each part counted wherever it is used: seconds to look through."""


def read(text: bytes) -> Any:
    """Return what `text` says: as deep and as large as can be looked through, and it ends.

    Raises:
        ValueError: It is no such YAML; the text says why.

    """
    try:
        if (found := next(_endless(text), None)) is None:
            return _loaded(text)
        line, problem = found
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, problem = mark.line + 1 if mark else 1, f"not YAML: {error.problem or error.context}"
    except yaml.YAMLError as error:
        line, problem = 1, f"not YAML: {error}".splitlines()[0]
    raise ValueError(f"line {line}: {problem}")


def _loaded(text: bytes) -> Any:
    try:
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # PyYAML takes apart what looks like a date, and lets whatever that ends with pass.
        raise yaml.YAMLError(f"a date or a number that is none ({error})") from error


def _endless(text: bytes) -> Iterator[tuple[int, str]]:
    """Yield where `text`, each alias replaced, would have no end or none that is near."""
    named: dict[str, int] = {}
    around: list[str | None] = [None]
    parts = [0]
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            whole = parts.pop()
            named[around.pop() or ""] = whole
            parts[-1] += whole
        elif isinstance(event, yaml.NodeEvent):
            parts[-1] += 1
            line = event.start_mark.line + 1 if event.start_mark else 1
            if isinstance(event, yaml.CollectionStartEvent):
                around.append(event.anchor)
                parts.append(0)
            elif isinstance(event, yaml.AliasEvent):
                parts[-1] += named.get(event.anchor or "", 0)
                if event.anchor in around:
                    yield line, f"`*{event.anchor}` stands within `&{event.anchor}` itself"
            if len(around) > _DEEPEST + 1:
                yield line, f"nested deeper than {_DEEPEST} levels"
            if sum(parts) > _MOST_PARTS:
                yield line, f"more than {_MOST_PARTS} parts, each counted where it is used"
