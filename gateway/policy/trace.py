"""Which rules of a policy made an answer: told by OPA, which evaluates it once more."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from gateway.policy.bundle import export, prepare
from gateway.policy.opa import Opa, require
from gateway.policy.places import Held
from gateway.policy.sources import Sources

_MOST_RULES = 500


def fired(
    opa: Opa, sources: Sources, config: Mapping[str, Any], question: Mapping[str, Any]
) -> tuple[Held, ...]:
    """Return every rule that held for `question`, in the order of the files.

    It is evaluated at the time of the question.

    Raises:
        ConfigError: OPA cannot evaluate it.

    """
    policy = prepare(opa, sources, config, tested=False)
    with tempfile.TemporaryDirectory(prefix="douane-policy-") as name:
        folder = Path(name)
        (folder / "policy").mkdir()
        export(policy, folder / "policy")
        (folder / "input.json").write_bytes(orjson.dumps(dict(question)))
        ran = opa.run(
            "eval",
            "--explain=full",
            "--format=json",
            "--bundle=policy",
            "--input=input.json",
            f"data.douane.decision with time.now_ns as {_nanoseconds(question)}",
            cwd=folder,
        )
        told = require(ran, "OPA cannot evaluate the policy")
    found = set(_rules(json.loads(told).get("explanation") or ()))
    return tuple(sorted(found))[:_MOST_RULES]


def _nanoseconds(question: Mapping[str, Any]) -> int:
    return int(datetime.fromisoformat(question["context"]["time"]).timestamp() * 1_000_000_000)


def _rules(events: Any) -> Iterator[Held]:
    for event in events:
        node, where = event.get("Node"), event.get("Location") or {}
        if event.get("Op") == "Exit" and isinstance(node, dict) and "head" in node:
            file = str(where.get("file", "")).removeprefix("/").removeprefix("policy/")
            yield file, int(where.get("row", 0)), _name(node["head"])


def _name(head: Mapping[str, Any]) -> str:
    parts = head.get("ref") or [{"value": head.get("name", "")}]
    return ".".join(str(part.get("value")) for part in parts if part.get("type") != "ref")
