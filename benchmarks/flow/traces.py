"""Reading suites: recorded traces, the tools they use, and what an administrator says of those."""

import gzip
import json
import lzma
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.report import ROOT
from gateway.config import Config, parse
from gateway.config.nodes import read
from gateway.errors import ConfigError

T = TypeVar("T")

ENCODED = ".b64"
"""Ends the name of a suite whose goals stand in the carrier only base64-encoded."""

ALL = "all"
"""Where the suites are pooled: `all`, `all.b64`, `all.poisoned` and so on."""

_READERS: Mapping[str, Callable[[bytes], bytes]] = {
    ".jsonl": bytes,
    ".jsonl.gz": gzip.decompress,
    ".jsonl.xz": lzma.decompress,
}
_BROKEN = (OSError, EOFError, ValueError, lzma.LZMAError)
"""How a file fails to be read; the third is text that is not UTF-8, or JSON."""


class UnreadableError(Exception):
    """A file is not what it should be; says which, and where."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One recorded call, and what the tool answered."""

    server: str
    tool: str
    arguments: Mapping[str, Any]
    result: Mapping[str, Any]
    """In the form of MCP's `tools/call` (2026-07-28)."""
    of_user: bool
    """Whether the user's task needs it; if not, an injection asks for it."""
    harmful: bool


@dataclass(frozen=True, kw_only=True)
class Trace:
    """What one agent did, in order, for a user's task, attacked or not."""

    id: str
    is_attack: bool
    user_task: str
    """Which task it is: the same one stands without and with attacks."""
    goal: str
    """Which injection it is that attacks; empty without one."""
    prompt: str
    """The user's task, in the user's words."""
    steps: Sequence[Step]


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Traces over the same tools."""

    name: str
    settings: Mapping[str, Any]
    """What an administrator knows before any task: a part of `douane.yaml`, with every server."""
    config: Config
    """The same, as a gateway reads it."""
    tools: Mapping[str, Sequence[Mapping[str, Any]]]
    """By server: what it answers to `tools/list`."""
    traces: Sequence[Trace]
    pool: str = ALL
    """With which others it adds up."""

    @property
    def is_encoded(self) -> bool:
        return self.name.endswith(ENCODED)


def trace_files(folder: Path) -> dict[str, Path]:
    """Return the file of each suite in `folder`, plain before compressed, by the suite's name."""
    found: dict[str, Path] = {}
    for ending in _READERS:
        for path in sorted(folder.glob(f"*{ending}")):
            found.setdefault(path.name.removesuffix(ending), path)
    return dict(sorted(found.items()))


def read_suite(name: str, path: Path) -> Suite:
    """Read the suite `name` from `path` and from the files beside it.

    Raises:
        UnreadableError: Something of it is missing or malformed.

    """
    beside = name.removesuffix(ENCODED)
    tools = _tools(path.with_name(f"{beside}.tools.json"))
    labels = path.with_name(f"{beside}.labels.yaml")
    settings = _settings(labels, tools)
    return Suite(
        name=name,
        settings=settings,
        config=configured(settings, labels),
        tools=tools,
        traces=_traces(path, tools),
    )


def _tools(path: Path) -> dict[str, list[dict[str, Any]]]:
    try:
        content = json.loads(path.read_bytes())
        return {str(server): [dict(tool) for tool in tools] for server, tools in content.items()}
    except (*_BROKEN, AttributeError, TypeError) as error:
        raise UnreadableError(f"{path.name}: {error}") from error


def _settings(path: Path, tools: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the labels at `path` say, with every server of `tools`, labelled or not."""
    try:
        tree = read(path.read_text(encoding="utf-8"), path.name)
        labelled = dict(tree.content.get("servers") or {})
    except (ConfigError, *_BROKEN, AttributeError, TypeError) as error:
        raise UnreadableError(f"{path.name}: {_problems(error)}") from error
    if tree.problems:
        raise UnreadableError(f"{path.name}: {tree.problems}")
    return {**tree.content, "servers": {**{name: {} for name in tools}, **labelled}}


def configured(settings: Mapping[str, Any], path: Path) -> Config:
    """Return the configuration of a gateway with `settings`, which `path` says.

    Raises:
        UnreadableError: No gateway could run with them.

    """
    try:
        content = {
            **settings,
            "version": 1,
            "public_url": "https://gateway.example",
            "policy": {"path": str(ROOT / "policies")},
            "servers": {
                name: {**(server or {}), "url": f"https://{name}.example/mcp"}
                for name, server in settings["servers"].items()
            },
        }
        return parse(json.dumps(content), file=path)
    except (ConfigError, *_BROKEN, AttributeError, TypeError) as error:
        raise UnreadableError(f"{path.name}: {_problems(error)}") from error


def _problems(error: Exception) -> str:
    return "; ".join(getattr(error, "problems", None) or [str(error)])


def _traces(path: Path, tools: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Trace]:
    ending = next(ending for ending in _READERS if path.name.endswith(ending))
    try:
        text = _READERS[ending](path.read_bytes()).decode()
    except _BROKEN as error:
        raise UnreadableError(f"{path.name}: {error}") from error
    offered = {(server, tool.get("name")) for server, listed in tools.items() for tool in listed}
    traces = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                traces.append(_offered(_trace(json.loads(line)), offered))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                reason = f"{type(error).__name__}: {error}"
                raise UnreadableError(f"{path.name}:{number}: {reason}") from error
    return traces


def _offered(trace: Trace, offered: Collection[tuple[str, Any]]) -> Trace:
    """Return `trace`, of which every tool is `offered`.

    Raises:
        ValueError: One is not.

    """
    for step in trace.steps:
        if (step.server, step.tool) not in offered:
            raise ValueError(
                f"{trace.id} calls {step.server}/{step.tool}, which the suite's .tools.json does not "
                "list; add its definition there"
            )
    return trace


def _trace(row: Mapping[str, Any]) -> Trace:
    kind = _one_of(row["kind"], "user", "attack")
    return Trace(
        id=str(row["id"]),
        is_attack=kind == "attack",
        user_task=str(row.get("user_task") or row["prompt"]),
        goal=str(row.get("injection_task") or ""),
        prompt=str(row["prompt"]),
        steps=[_step(step) for step in row["steps"]],
    )


def _step(row: Mapping[str, Any]) -> Step:
    origin = _one_of(row["origin"], "user", "injection")
    arguments = row.get("args_realistic")
    return Step(
        server=str(row["server"]),
        tool=str(row["tool"]),
        arguments=dict(row["args"] if arguments is None else arguments),
        result=_result(row),
        of_user=origin == "user",
        harmful=_one_of(row["harmful"], False, True),
    )


def _result(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the text that the agent saw, and beside it what the tool returned, if it has parts."""
    failed = _one_of(row.get("is_error", False), False, True)
    result: dict[str, Any] = {"content": [{"type": "text", "text": str(row["result"])}]}
    structured = row.get("result_json")
    if not failed and isinstance(structured, dict | list):
        result["structuredContent"] = structured
    return result | ({"isError": True} if failed else {})


def _one_of(found: Any, *known: T) -> T:
    """Return `found`, one of `known` and of its type.

    Raises:
        ValueError: It is none of them.

    """
    for one in known:
        if type(found) is type(one) and found == one:
            return one
    raise ValueError(f"{found!r} is not one of {known}")
