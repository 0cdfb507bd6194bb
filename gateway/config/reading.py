"""From `douane.yaml` to a `Config`, or to every problem in it at once."""

import difflib
import json
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gateway.config.model import Config
from gateway.config.nodes import NodePath, Tree, dotted, read
from gateway.config.registered import (
    FILE,
    is_shared,
    not_in_a_file,
    place_of_registered,
    read_registered,
    reused,
    servers_in,
    tree_of,
)
from gateway.errors import ConfigError

_TEXTS = {
    "missing": "is missing; add it",
    "bool_type": "write `true` or `false`",
    "int_type": "write a whole number",
    "int_from_float": "write a whole number",
    "string_type": "write text; put it in quotes if it looks like a number",
    "tuple_type": "write a list: `[one, two]`",
    "dict_type": "write a mapping of names to settings",
    "model_type": "write a mapping of settings",
    "model_attributes_type": "write a mapping of settings",
    "string_too_short": "must not be empty",
    "greater_than_equal": "write at least {ge}",
    "less_than_equal": "write at most {le}",
}
_TWICE = "is in {} as well; remove it there, or in this file"


def load(
    path: Path, environ: Mapping[str, str] | None = None, *, registered: str | None = None
) -> Config:
    """Read the configuration file at `path`, and the servers that are registered beside it.

    With `environ`, the environment's variables, every secret it refers to is tried as well.
    `registered` is what the file of registered servers is about to say, instead of what it says; or
    what gateways that share a database have registered there.

    Raises:
        ConfigError: With all problems, each as `file:line: text`.

    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        problem = f"{path}:1: cannot be read: {error.strerror}; `douane init` writes one"
        raise ConfigError("there is no configuration", problems=[problem]) from error
    except UnicodeDecodeError as error:
        problem = f"{path}:1: is not UTF-8 text; save it as such"
        raise ConfigError("the configuration cannot be read", problems=[problem]) from error
    tree = read(text, str(path))
    beside = place_of_registered(tree.content, path.parent)
    kept = read_registered(beside) if registered is None else registered
    others = tree_of(kept, beside, path.parent)
    if registered is None and is_shared(tree.content):
        others = not_in_a_file(others)
    return _config(tree, path, environ, others, beside)


def parse(text: str, *, file: Path, environ: Mapping[str, str] | None = None) -> Config:
    """Read `text`, the content of `file`, in whose folder relative paths start.

    Raises:
        ConfigError: As `load`.

    """
    tree, beside = read(text, str(file)), file.with_name(FILE)
    return _config(tree, file, environ, tree_of(None, beside, file.parent), beside)


def _config(
    tree: Tree, file: Path, environ: Mapping[str, str] | None, registered: Tree, beside: Path
) -> Config:
    """Read both files as one configuration; each problem is told with the file that it is in."""
    own, others = servers_in(tree.content), servers_in(registered.content)
    content = tree.content
    if others and isinstance(content.get("servers", {}), dict):
        content = {**content, "servers": {**others, **own}}
    problems = [(file, *problem) for problem in tree.problems]
    problems += [(beside, *problem) for problem in registered.problems]
    problems += [
        (beside, registered.line(("servers", name)), f"servers.{name}: {_TWICE.format(file)}")
        for name in others
        if name in own
    ]
    config: Config | None = None
    try:
        # Through JSON, so that pydantic's strict mode takes lists for tuples and words for enums.
        config = Config.model_validate_json(
            json.dumps(content), context={"folder": file.parent, "environ": environ}
        )
    except ValidationError as error:
        for details in error.errors(include_url=False):
            elsewhere = _is_of(details, others) and not _is_of(details, own)
            place = (beside, registered) if elsewhere else (file, tree)
            problems.append((place[0], *_problem(details, place[1])))
    if config is not None:
        problems += [(beside, *problem) for problem in reused(config, registered)]
    if problems or config is None:
        lines = [f"{where}:{line}: {what}" for where, line, what in sorted(set(problems))]
        raise ConfigError("the configuration is wrong", problems=lines)
    return config.read_from(file, others)


def _is_of(details: ErrorDetails, servers: Mapping[str, Any]) -> bool:
    """Whether a problem is about one of these `servers`."""
    return details["loc"][:1] == ("servers",) and not set(details["loc"][1:2]).isdisjoint(servers)


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of `douane.yaml`."""
    generated = Config.model_json_schema(by_alias=True)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **generated,
        "title": "douane.yaml",
    }


def _problem(details: ErrorDetails, tree: Tree) -> tuple[int, str]:
    # A mapping's key that is wrong itself is reported at `(..., key, "[key]")`.
    path: NodePath = tuple(step for step in details["loc"] if step != "[key]")
    return tree.line(path), f"{dotted(path)}: {_text(details, path)}"


def _text(details: ErrorDetails, path: NodePath) -> str:
    kind = details["type"]
    if kind == "extra_forbidden":
        return _unknown_key(path)
    if kind == "value_error":
        return str(details.get("ctx", {})["error"])
    if kind in {"literal_error", "enum"}:
        expected = str(details.get("ctx", {})["expected"]).replace("'", "`")
        return f"write {expected}"
    if kind in _TEXTS:
        return _TEXTS[kind].format(**details.get("ctx", {}))
    return details["msg"].removeprefix("Input ")


def _unknown_key(path: NodePath) -> str:
    known = sorted(_keys_at(path[:-1]))
    close = difflib.get_close_matches(str(path[-1]), known, n=1)
    hint = f"did you mean `{close[0]}`?" if close else f"known here: {', '.join(known)}"
    return f"unknown key; {hint}"


def _keys_at(path: NodePath) -> set[str]:
    """Return the keys that the section at `path` knows."""
    here: Any = Config
    for step in path:
        if isinstance(here, type) and issubclass(here, BaseModel):
            here = _section_in(_fields(here)[str(step)])
        else:  # a mapping of names to sections
            here = _section_in(typing.get_args(here)[1])
    return set(_fields(here))


def _fields(section: type[BaseModel]) -> dict[str, Any]:
    return {name: field.annotation for name, field in _named(section)}


def _named(section: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    for name, field in section.model_fields.items():
        yield field.alias or name, field


def _section_in(annotation: Any) -> Any:
    """Return what remains of `Section | None` without the `None`."""
    if isinstance(annotation, types.UnionType):
        return next(part for part in annotation.__args__ if part is not types.NoneType)
    return annotation
