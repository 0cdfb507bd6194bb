"""Keys that stand twice in a data document: OPA keeps one of the two, and says nothing."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import cycle, repeat
from pathlib import PurePosixPath

import yaml

_YAML = frozenset({".yaml", ".yml"})
_LARGEST_BYTES = 1024**2
"""Of a document that people write; a larger one was made by a program."""
_DEEPEST = 1000
"""Levels of a document. No deeper one comes into force, and to go on takes time quadratic in them."""


def doubled(files: Mapping[str, bytes]) -> list[str]:
    """Return each key that stands twice in one mapping of a YAML document, as `file:line: text`."""
    found = []
    for path, content in sorted(files.items()):
        if PurePosixPath(path).suffix in _YAML and len(content) <= _LARGEST_BYTES:
            with suppress(yaml.YAMLError):  # OPA says what is wrong with it
                found += [f"{path}:{line}: {text}" for line, text in _twice(content)]
    return found


def _twice(content: bytes) -> Iterator[tuple[int, str]]:
    # Event by event: PyYAML puts nodes together in C, level within level, and too many end the process.
    around: list[tuple[Iterator[bool], dict[str, int]]] = [(repeat(False), {})]
    for event in yaml.parse(content, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            around.pop()
        elif isinstance(event, yaml.NodeEvent):
            is_key, lines = around[-1]
            if next(is_key) and isinstance(event, yaml.ScalarEvent) and event.start_mark:
                line = event.start_mark.line + 1
                if first := lines.get(event.value):
                    yield line, f"`{event.value}` stands in line {first} already; write into that"
                lines.setdefault(event.value, line)
            if isinstance(event, yaml.CollectionStartEvent):
                if len(around) > _DEEPEST:
                    return
                is_mapping = isinstance(event, yaml.MappingStartEvent)
                around.append((cycle((True, False)) if is_mapping else repeat(False), {}))
