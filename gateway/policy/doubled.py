"""Keys that stand twice in a data document: OPA keeps one of the two, and says nothing."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

import yaml

_YAML = frozenset({".yaml", ".yml"})
_LARGEST_BYTES = 1024**2
"""Of a document that people write; a larger one was made by a program."""


def doubled(files: Mapping[str, bytes]) -> list[str]:
    """Return each key that stands twice in one mapping of a YAML document, as `file:line: text`."""
    found = []
    for path, content in sorted(files.items()):
        if PurePosixPath(path).suffix in _YAML and len(content) <= _LARGEST_BYTES:
            found += [f"{path}:{line}: {text}" for line, text in _twice(content)]
    return found


def _twice(content: bytes) -> Iterator[tuple[int, str]]:
    try:
        root = yaml.compose(content, Loader=yaml.CSafeLoader)
    except yaml.YAMLError:
        return  # OPA says what is wrong with it
    waiting = [root]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            lines: dict[str, int] = {}
            for key, inner in node.value:
                waiting.append(inner)
                line = key.start_mark.line + 1
                if isinstance(key, yaml.ScalarNode) and key.value in lines:
                    first = lines[key.value]
                    yield line, f"`{key.value}` stands in line {first} already; write into that"
                elif isinstance(key, yaml.ScalarNode):
                    lines[key.value] = line
