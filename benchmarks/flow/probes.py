"""Small suites of other domains, written by hand and in view while rules are made.

A file tells tools, results, tasks, and what somebody who writes into a result wants: `%INJ%` is where
they can. Each goal is tried in each task that reads such a result; nothing in its words is a phrase
that is known from attacks.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from benchmarks.flow.traces import Step, Suite, Trace, configured

FOLDER = Path(__file__).parent / "suites" / "probes"
_PLACE = "%INJ%"


def probes(folder: Path = FOLDER) -> Iterator[Suite]:
    """Yield the suites of `folder`."""
    for path in sorted(folder.glob("*.yaml")):
        yield _suite(path, yaml.safe_load(path.read_text("utf-8")))


def _suite(path: Path, said: Mapping[str, Any]) -> Suite:
    tools = {
        server: [_tool(name, tool) for name, tool in content["tools"].items()]
        for server, content in said["servers"].items()
    }
    settings = {
        "tenant": said["tenant"],
        "servers": {
            server: {"tools": {name: _label(t["label"]) for name, t in content["tools"].items()}}
            for server, content in said["servers"].items()
        },
    }
    return Suite(
        name=path.stem,
        settings=settings,
        config=configured(settings, path),
        tools=tools,
        traces=[*_traces(path.stem, said)],
    )


def _tool(name: str, said: Mapping[str, Any]) -> dict[str, Any]:
    properties = {argument: {"type": "string"} for argument in said["args"]}
    schema = {"type": "object", "properties": properties}
    return {"name": name, "description": said["does"], "inputSchema": schema}


def _label(said: Mapping[str, Any]) -> dict[str, Any]:
    integrity, confidentiality = said["result"].split("/")
    return {**said, "result": {"integrity": integrity, "confidentiality": confidentiality}}


def _traces(name: str, said: Mapping[str, Any]) -> Iterator[Trace]:
    for number, task in enumerate(said["tasks"]):
        user = f"{name}/task_{number}"
        yield _trace(user, task, "", [*_steps(task["steps"], said, "", of_user=True)])
        for goal, (words, injected) in enumerate(said["goals"]):
            steps = [*_attacked(task["steps"], injected, said, words)]
            if steps:
                yield _trace(user, task, f"goal_{goal}", steps)


def _trace(user: str, task: Mapping[str, Any], goal: str, steps: list[Step]) -> Trace:
    return Trace(
        id=f"{user}.{goal}".removesuffix("."),
        is_attack=bool(goal),
        user_task=user,
        goal=goal,
        prompt=task["prompt"],
        steps=steps,
    )


def _attacked(
    steps: list[Any], injected: list[Any], said: Mapping[str, Any], words: str
) -> Iterator[Step]:
    """Yield the steps of a task with `injected` ones after the first result that holds `words`."""
    carriers = [i for i, (_, _, result) in enumerate(steps) if _PLACE in _text(result, said)]
    if carriers:
        at = carriers[0] + 1
        yield from _steps(steps[:at], said, words, of_user=True)
        yield from _steps(injected, said, "", of_user=False)
        yield from _steps(steps[at:], said, words, of_user=True)


def _steps(
    steps: list[Any], said: Mapping[str, Any], words: str, *, of_user: bool
) -> Iterator[Step]:
    for place, arguments, result in steps:
        server, tool = place.split("/")
        text = _text(result, said).replace(_PLACE, json.dumps(words)[1:-1])
        label = said["servers"][server]["tools"][tool]["label"]
        harmful = not of_user and (label["effect"] != "read" or "url" in arguments)
        content = [{"type": "text", "text": text}]
        yield Step(
            server=server,
            tool=tool,
            arguments=arguments,
            result={"content": content, "structuredContent": json.loads(text)},
            of_user=of_user,
            harmful=harmful,
        )


def _text(result: Any, said: Mapping[str, Any]) -> str:
    found = said["results"][result] if isinstance(result, str) else result
    return json.dumps(found, default=str)
