"""YAML read strictly: plain data, no aliases, no duplicate keys, and the line of every node."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from gateway.domain._value import value
from gateway.errors import ConfigError

LARGEST_FILE_BYTES = 1 << 20
DEEPEST_NESTING = 32
_MOST_DIGITS = 20

NodePath = tuple[str | int, ...]
"""Where a node stands: the keys and indices that lead to it."""


@value
class Tree:
    """A configuration file as plain data, beside the line (from 1) of each of its nodes."""

    content: dict[str, Any]
    lines: Mapping[NodePath, int]
    problems: tuple[tuple[int, str], ...] = ()
    """Pairs of a line and what is wrong there, for what can be read all the same."""

    def line(self, path: NodePath) -> int:
        """Return the line of the node at `path`, or of the nearest node around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


class _Loader(yaml.CSafeLoader):
    """The YAML 1.2 core schema: `no` and `on` are words, `1:30` is no number, dates are text."""

    # A loader looks plain scalars up by their first character; PyYAML's own table is YAML 1.1's.
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


def _plain(kind: str, pattern: str, first: Sequence[str]) -> None:
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{kind}", re.compile(f"^(?:{pattern})$"), list(first)
    )


_plain("bool", "true|True|TRUE|false|False|FALSE", "tTfF")
_plain("int", "[-+]?[0-9]+", "-+0123456789")
_plain("float", r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?", "-+0123456789")
_plain("null", "~|null|Null|NULL|", ("~", "n", "N", ""))


def read(text: str, file: str) -> Tree:
    """Parse `text`, the content of a file that messages call `file`.

    Raises:
        ConfigError: It is not YAML, or uses more of YAML than a configuration needs.

    """
    if len(text.encode()) > LARGEST_FILE_BYTES:
        raise _refused(
            file, 1, f"the file is larger than {LARGEST_FILE_BYTES} bytes; make it smaller"
        )
    try:
        _refuse_cleverness(text, file)
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line if mark else 0  # what ends too early is found on the line after the last
        line = min(line, text.count("\n")) + 1
        advice = _advice(text.splitlines()[line - 1 : line])
        problem = f"not YAML: {error.problem or error.context}; {advice}"
        raise _refused(file, line, problem) from error
    except yaml.YAMLError as error:
        raise _refused(file, 1, f"not YAML: {error}".splitlines()[0]) from error
    if not isinstance(root, yaml.MappingNode):
        raise _refused(file, 1, "the file must be a mapping that begins with `version: 1`")
    builder = _Builder()
    content = builder.mapping(root, ())
    return Tree(content=content, lines=builder.lines, problems=tuple(builder.problems))


def _advice(line: Sequence[str]) -> str:
    """Return what to do about a line at which a parser stopped, which says what it met and not why."""
    if any("\t" in text[: len(text) - len(text.lstrip())] for text in line):
        return "indent with spaces, not with tabs"
    return "look at how it and the lines before it are indented, and at their quotes and brackets"


def _refused(file: str, line: int, text: str) -> ConfigError:
    return ConfigError("the configuration cannot be read", problems=[f"{file}:{line}: {text}"])


def _refuse_cleverness(text: str, file: str) -> None:
    """Refuse aliases (a small file that unfolds into a huge one), tags and deep nesting."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _refused(file, line, "anchors and aliases are not allowed; write the value out")
        if tag := getattr(event, "tag", None):
            raise _refused(file, line, f"the tag `{tag}` is not allowed; remove it")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST_NESTING:
            raise _refused(file, line, f"nested deeper than {DEEPEST_NESTING} levels; flatten it")


class _Builder:
    """Turns nodes into plain data and keeps where each of them stood."""

    def __init__(self) -> None:
        self.lines: dict[NodePath, int] = {}
        self.problems: list[tuple[int, str]] = []

    def mapping(self, node: yaml.MappingNode, path: NodePath) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for key_node, inner in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append((line, "a key must be a word, not a list or a mapping"))
                continue
            key = key_node.value
            here = (*path, key)
            if key in content:
                first = self.lines[here]
                self.problems.append(
                    (line, f"{dotted(here)}: written twice, first on line {first}; remove one")
                )
                continue
            self.lines[here] = line
            content[key] = self.node(inner, here)
        return content

    def node(self, node: yaml.Node, path: NodePath) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            for index, inner in enumerate(node.value):
                self.lines[(*path, index)] = inner.start_mark.line + 1
            return [self.node(inner, (*path, index)) for index, inner in enumerate(node.value)]
        return _scalar(node)


def _scalar(node: yaml.Node) -> Any:
    text: str = node.value
    match node.tag.rpartition(":")[2]:
        case "bool":
            return text.lower() == "true"
        case "int":
            # Python refuses to parse thousands of digits; no setting needs more than a few.
            return int(text) if len(text) < _MOST_DIGITS else text
        case "float":
            return float(text)
        case "null":
            return None
        case _:
            return text


def dotted(path: NodePath) -> str:
    """Return `path` the way people write it: `servers.mail.tools`, `allowed_origins[0]`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
