"""The cases beside the policies, and questions made from the one they begin with."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

POLICIES = Path(__file__).parents[2] / "policies"
CASES = POLICIES / "cases"
_BASE = yaml.safe_load((CASES / "base.yaml").read_text())
CONFIG: dict[str, Any] = _BASE["config"]

ONE_RULE = """package douane

default decision := {"verdict": "deny", "reasons": [], "obligations": []}

decision := {"verdict": "allow", "reasons": [], "obligations": []} if input.target.name == "good"
"""


def question(changes: dict[str, Any] | None = None, remove: tuple[str, ...] = ()) -> dict[str, Any]:
    """The base question with `changes` by dotted path."""
    asked: dict[str, Any] = copy.deepcopy(_BASE["input"])
    for path, content in (changes or {}).items():
        *parents, last = path.split(".")
        node = asked
        for parent in parents:
            node = node[parent]
        node[last] = content
    for name in remove:
        del asked[name]
    return asked


def cases() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Name, question, and what is expected: verdict, codes, duties."""
    for file in sorted(CASES.glob("*.yaml")):
        if file.stem in {"base", "pins"}:
            continue
        for case in yaml.safe_load(file.read_text()):
            asked = question(case.get("set"), tuple(case.get("remove", ())))
            expected = {"codes": [], "duties": [], **case["expect"]}
            yield f"{file.stem}: {case['name']}", asked, expected


def pin_cases() -> list[tuple[str, dict[str, Any], str]]:
    found = yaml.safe_load((CASES / "pins.yaml").read_text())
    return [(case["name"], case["pin"], case["expect"]) for case in found]
