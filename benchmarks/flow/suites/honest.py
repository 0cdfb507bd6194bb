"""The suites beside this file, checked, and their tasks as traces of users whom nobody attacks."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from jsonschema_rs import Draft202012Validator

from benchmarks.flow.suites.written import (
    MARKS,
    Written,
    WrittenError,
    WrittenStep,
    WrittenTask,
    planted,
)
from benchmarks.flow.suites.written import parse as parse_written

HERE = Path(__file__).parent
STYLES = ("json", "compact", "yaml", "lines")
LONGEST_RESULT = 4_000
FEWEST_STEPS, MOST_STEPS = 2, 6

Tools = Mapping[tuple[str, str], Mapping[str, Any]]


def suite_names() -> list[str]:
    """Return the names of the suites in the tree."""
    return sorted(path.parent.name for path in HERE.glob("*/tasks.yaml"))


def read_written(folder: Path) -> Written:
    """Return the suite in `folder`, checked.

    Raises:
        WrittenError: It is malformed, or calls a tool in a way that the tool does not offer.

    """
    written = parse_written(folder.name, (folder / "tasks.yaml").read_text(encoding="utf-8"))
    problems = list(_problems(written, read_tools(folder)))
    if problems:
        raise WrittenError("\n".join(f"{folder.name}: {problem}" for problem in problems))
    return written


def read_tools(folder: Path) -> Tools:
    content = json.loads((folder / "tools.json").read_text(encoding="utf-8"))
    return {(server, tool["name"]): tool for server, tools in content.items() for tool in tools}


def honest(written: Written, task: WrittenTask) -> dict[str, Any]:
    """Return `task` as a trace of a user whom nobody attacks."""
    return {
        "id": f"{written.name}/{task.id}",
        "suite": written.name,
        "kind": "user",
        "user_task": task.id,
        "injection_task": None,
        "prompt": task.prompt,
        "marks": sorted(task.marks),
        "carriers": list(task.carriers),
        "steps": [played(written, step) for step in task.steps],
    }


def played(
    written: Written, step: WrittenStep, injected: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return `step` of the user's task as a trace has it, with `injected` texts at their places."""
    result = planted(step.result, injected or {})
    structured = not isinstance(result, str) and step.server not in written.unstructured
    return {
        "server": step.server,
        "tool": step.tool,
        "args": dict(step.arguments),
        "result": as_text(result, written.styles[step.server]),
        "result_json": result if structured and not step.is_error else None,
        "is_error": step.is_error,
        "origin": "user",
        "phase": "user",
        "harmful": False,
    }


def as_text(result: Any, style: str) -> str:
    """Return `result` as a server of `style` writes it."""
    if isinstance(result, str):
        return result
    if style == "json":
        return json.dumps(result, indent=2, ensure_ascii=False)
    if style == "compact":
        return json.dumps(result, separators=(",", ":"), ensure_ascii=False)
    if style == "yaml":
        return yaml.safe_dump(result, sort_keys=False, allow_unicode=True).rstrip("\n")
    return "\n".join(_lines(result))


def _lines(result: Any, indent: str = "") -> Iterable[str]:
    if isinstance(result, Mapping):
        for key, value in result.items():
            label = f"{indent}{str(key).replace('_', ' ').capitalize()}:"
            if isinstance(value, Mapping | list) and value:
                yield label
                yield from _lines(value, f"{indent}  ")
            else:
                yield f"{label} {value}"
    elif isinstance(result, list):
        for number, value in enumerate(result, start=1):
            if isinstance(value, Mapping | list):
                yield f"{indent}[{number}]"
                yield from _lines(value, indent)
            else:
                yield f"{indent}- {value}"
    else:
        yield f"{indent}{result}"


def _problems(written: Written, tools: Tools) -> Iterable[str]:
    servers = {server for server, _ in tools}
    if set(written.styles) != servers or not set(written.styles.values()) <= set(STYLES):
        yield f"text: says {dict(written.styles)}, of {sorted(servers)} and {STYLES}"
        return
    if not written.unstructured <= servers:
        yield f"only_text: {sorted(written.unstructured - servers)} are no servers"
    for what in ("id", "prompt"):
        values = [getattr(task, what) for task in written.tasks]
        if twice := {value for value in values if values.count(value) > 1}:
            yield f"{what} stands twice: {twice}"
    for task in written.tasks:
        yield from (f"{task.id}: {problem}" for problem in _of_task(written, task, tools))


def _of_task(written: Written, task: WrittenTask, tools: Tools) -> Iterable[str]:
    if not FEWEST_STEPS <= len(task.steps) <= MOST_STEPS:
        yield f"{len(task.steps)} steps"
    if not task.marks <= MARKS:
        yield f"unknown marks {sorted(task.marks - MARKS)}"
    found = tuple(number for number, step in enumerate(task.steps) if step.places())
    if found != task.carriers:
        yield f"carriers are {list(found)}, not {list(task.carriers)}"
    for number, step in enumerate(task.steps):
        problems = problems_of_step(written, step, tools)
        yield from (f"step {number}: {problem}" for problem in problems)


def problems_of_step(written: Written, step: WrittenStep, tools: Tools) -> Iterable[str]:
    """Yield in what `step` is no call that its tool offers, or its result none of the tool's."""
    tool = tools.get((step.server, step.tool))
    if tool is None:
        yield f"no tool {step.server}/{step.tool}"
        return
    schema = tool["inputSchema"]
    if unknown := set(step.arguments) - set(schema["properties"]):
        yield f"{step.tool} has no {sorted(unknown)}"
    checker = Draft202012Validator(schema, validate_formats=True)
    yield from (
        f"{step.tool}: {error.message}" for error in checker.iter_errors(dict(step.arguments))
    )
    row = played(written, step)
    if len(row["result"]) > LONGEST_RESULT:
        yield f"result of {len(row['result'])} characters"
    if not row["result"]:
        yield "empty result"
    if "outputSchema" in tool and not step.is_error:
        of_result = Draft202012Validator(tool["outputSchema"])
        yield from (
            f"result: {error.message}" for error in of_result.iter_errors(row["result_json"])
        )
