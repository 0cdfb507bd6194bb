"""What a suite's `tasks.yaml` says: its world, its tasks, and what refers to what."""

import copy
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

MARKS = frozenset(
    (
        "outside_choice",  # A destination or an id comes out of what others wrote, and is meant.
        "private_sent",  # Private data rightly leaves for somebody.
        "secret_seen",  # A credential stands in view and matters not.
        "no_arguments",  # An act without arguments.
        "spends",
        "destroys",
        "long_reading",
        "two_acts",
    )
)
World = Mapping[str, Mapping[str, Any]]
"""By table and key: a record."""

_PLACE = re.compile(r"\{inject\}")
_WHOLE = re.compile(r"\$([a-z_]+)\.([^/\s]+)(?:/([\w+]+))?")
_WITHIN = re.compile(r"\$\{([a-z_]+)\.([^.}]+)\.(\w+)\}")
_NAMED = re.compile(r"\{inject:([^}]+)\}")
_HONEST = re.compile(r"\s*\{inject:[^}]+\}")


class WrittenError(Exception):
    """A suite is not what it should be; says which, and where."""


@dataclass(frozen=True, kw_only=True)
class WrittenStep:
    server: str
    tool: str
    arguments: Mapping[str, Any]
    result: Any
    """With each place for an injection named, `{inject:NAME}`."""
    is_error: bool

    def places(self) -> tuple[str, ...]:
        """Return the names of the places where an outsider could have written."""
        return tuple(
            dict.fromkeys(name for text in _texts(self.result) for name in _NAMED.findall(text))
        )


@dataclass(frozen=True, kw_only=True)
class WrittenTask:
    id: str
    prompt: str
    marks: frozenset[str]
    carriers: tuple[int, ...]
    steps: Sequence[WrittenStep]


@dataclass(frozen=True, kw_only=True)
class Written:
    """A suite as its author wrote it."""

    name: str
    styles: Mapping[str, str]
    """By server: how it writes what it returns as text."""
    unstructured: frozenset[str]
    """The servers that return text only."""
    tasks: Sequence[WrittenTask]
    world: World


def planted(result: Any, texts: Mapping[str, str]) -> Any:
    """Return `result` with each of `texts` at the place of its name, and nothing at the others."""

    def filled(text: str) -> str:
        for name, injected in texts.items():
            text = text.replace(f"{{inject:{name}}}", injected)
        return _HONEST.sub("", text)

    return _mapped(result, filled)


def parse(name: str, text: str) -> Written:
    """Return the suite `name` that `text` describes.

    Raises:
        WrittenError: It says something unknown, twice, or refers to nothing.

    """
    try:
        content = keyed(load(text), "file", {"text", "world", "tasks"}, {"only_text"})
        world = {table: _records(table, rows) for table, rows in content["world"].items()}
        tasks = tuple(_task(row, world) for row in content["tasks"])
    except (yaml.YAMLError, AttributeError, TypeError, KeyError) as error:
        raise WrittenError(f"{name}: {type(error).__name__}: {error}") from error
    except WrittenError as error:
        raise WrittenError(f"{name}: {error}") from error
    return Written(
        name=name,
        styles=content["text"],
        unstructured=frozenset(content.get("only_text", ())),
        tasks=tasks,
        world=world,
    )


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Plain data: dates and times are text, `no` is a word, and no key stands twice."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = [key.value for key, _ in node.value]
        if len(set(keys)) < len(keys):
            raise WrittenError(f"line {node.start_mark.line + 1}: a key stands twice: {keys}")
        return super().construct_mapping(node, deep=deep)


for kind, pattern, first in (
    ("bool", "true|false", "tf"),
    ("int", "-?(?:0|[1-9][0-9]*)", "-0123456789"),
    ("float", r"-?[0-9]+\.[0-9]+", "-0123456789"),
    ("null", "null|", "n\0"),
):
    starts = [one if one != "\0" else "" for one in first]
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{kind}", re.compile(f"^(?:{pattern})$"), starts
    )


def load(text: str) -> Any:
    return yaml.load(text, Loader=_Loader)


def keyed(row: Any, what: str, needed: set[str], optional: set[str]) -> dict[str, Any]:
    """Return `row`, which has all that is `needed` and nothing that is unknown."""
    if not isinstance(row, dict) or not needed <= set(row) <= needed | optional:
        raise WrittenError(
            f"{what}: has {sorted(row)}, not {sorted(needed)} and {sorted(optional)}"
        )
    return row


def _records(table: str, rows: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): _placed(row, f"{table}.{key}") for key, row in rows.items()}


def _placed(content: Any, name: str) -> Any:
    """Return `content` with its places named: `name`, then `name.2`, `name.3`."""
    count = itertools.count(1)

    def named(_: object) -> str:
        number = next(count)
        return f"{{inject:{name}}}" if number == 1 else f"{{inject:{name}.{number}}}"

    return _mapped(content, lambda text: _PLACE.sub(named, text))


def _task(row: Any, world: World) -> WrittenTask:
    keyed(row, str(row.get("id")), {"id", "prompt", "carriers", "steps"}, {"marks"})
    try:
        steps = tuple(read_step(step, number, world) for number, step in enumerate(row["steps"]))
    except WrittenError as error:
        raise WrittenError(f"{row['id']}: {error}") from error
    return WrittenTask(
        id=row["id"],
        prompt=row["prompt"],
        marks=frozenset(row.get("marks", ())),
        carriers=tuple(row["carriers"]),
        steps=steps,
    )


def read_step(row: Any, number: int, world: World) -> WrittenStep:
    """Return the call number `number`, which `row` describes, with its result made of `world`."""
    keyed(row, f"step {number}", {"do", "with", "gives"}, {"fails"})
    server, _, tool = row["do"].partition("/")
    try:
        result = _resolved(_placed(row["gives"], f"step{number}"), world)
    except WrittenError as error:
        raise WrittenError(f"step {number}: {error}") from error
    return WrittenStep(
        server=server,
        tool=tool,
        arguments=row["with"],
        result=result,
        is_error=row.get("fails", False),
    )


def _resolved(content: Any, world: World) -> Any:
    if isinstance(content, dict):
        return {key: _resolved(value, world) for key, value in content.items()}
    if isinstance(content, list):
        return [_resolved(value, world) for value in content]
    if isinstance(content, str):
        if whole := _WHOLE.fullmatch(content):
            return _referred(world, whole[1], whole[2], whole[3])
        return _WITHIN.sub(lambda found: str(_field(world, found[1], found[2], found[3])), content)
    return content


def _referred(world: World, table: str, keys: str, fields: str | None) -> Any:
    """Return `$table.key`, `$table.a+b` or `$table.*`; with `/x+y` only these fields of each."""
    rows = _table(table, world)
    names = list(rows) if keys == "*" else keys.split("+")
    if missing := [name for name in names if name not in rows]:
        raise WrittenError(f"{table} has no {missing}")
    found = [copy.deepcopy(_resolved(rows[name], world)) for name in names]
    if fields:
        wanted = fields.split("+")
        if missing := [field for field in wanted if not any(field in row for row in found)]:
            raise WrittenError(f"{table}.{keys} has no {missing}")
        found = [{field: row[field] for field in wanted if field in row} for row in found]
    return found if keys == "*" or "+" in keys else found[0]


def _field(world: World, table: str, key: str, field: str) -> Any:
    try:
        return _resolved(_table(table, world)[key][field], world)
    except KeyError as error:
        raise WrittenError(f"{table}.{key} has no {field}") from error


def _table(table: str, world: World) -> Mapping[str, Any]:
    if table not in world:
        raise WrittenError(f"no table {table} in the world")
    return world[table]


def _texts(content: Any) -> list[str]:
    if isinstance(content, dict | list):
        parts = content.values() if isinstance(content, dict) else content
        return [text for part in parts for text in _texts(part)]
    return [content] if isinstance(content, str) else []


def _mapped(content: Any, change: Callable[[str], str]) -> Any:
    if isinstance(content, dict):
        return {key: _mapped(value, change) for key, value in content.items()}
    if isinstance(content, list):
        return [_mapped(value, change) for value in content]
    return change(content) if isinstance(content, str) else content
