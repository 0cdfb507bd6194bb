"""No rule that is shipped or shown falls silent where a question does not tell what it negates.

OPA takes the operands of a built-in out of a negation: `not "staff" in input.principal.groups` is undefined,
and so is the rule around it, where there are no groups. `==` is none, and what a default stands behind is told.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.policy.opa import Opa

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```rego\n(.*?)^```", re.DOTALL | re.MULTILINE)
_NEGATED = re.compile(r"^[#\s]*(?:\w.*[;{]\s*)?not (?P<said>.+?)\s*}?$", re.MULTILINE)
_DEFAULTED = re.compile(r"object\.get\((?:[^()]|\([^()]*\))*\)")
_TOLD = re.compile(r"\b(?:input|data)\.")
_BARE = re.compile(r"[\w.]+(?:\[[^\]]*\])*(?:\s*==\s*[^\s]+)?")


def silent(text: str) -> Iterator[str]:
    """Yield what is negated in `text` and is undefined where the question does not tell it."""
    for found in _NEGATED.finditer(text):
        said = _DEFAULTED.sub("told", found["said"])
        if _TOLD.search(said) and not _BARE.fullmatch(said):
            yield found["said"]


def shown() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "policies").glob("*.rego")):
        if not path.name.endswith("_test.rego"):
            yield path.name, path.read_text()
    for path in sorted((ROOT / "docs").rglob("*.md")):
        yield from ((path.name, block) for block in _BLOCK.findall(path.read_text()))


@pytest.mark.parametrize(("name", "text"), shown())
def test_nothing_shipped_or_shown_negates_what_may_not_be_told(name: str, text: str) -> None:
    assert [*silent(text)] == [], (
        f"{name}: say what is allowed in a rule of its own, and negate that"
    )


TOLD_APART = {
    '"staff" in input.principal.groups': True,
    'startswith(input.arguments.to, "x")': True,
    "input.arguments.amount <= 1000": True,
    'input.target.effect == "read"': False,
    "input.task": False,
    'object.get(input.target, "effect", "destroy") in {"read"}': False,
    "is_staff": False,
}


def test_what_falls_silent_is_what_opa_leaves_undefined(opa: Opa, tmp_path: Path) -> None:
    rules = [f"r{at} if {{\n\tnot {negated}\n}}\n" for at, negated in enumerate(TOLD_APART)]
    (tmp_path / "p.rego").write_text("\n".join(("package p", "is_staff if input.a.b", *rules)))
    told = opa.run(
        "eval", "-d", "p.rego", "-I", "data.p", "-f", "values", cwd=tmp_path, stdin='{"target": {}}'
    )
    assert told.ok, told.err
    for at, (rule, falls_silent) in enumerate(zip(rules, TOLD_APART.values(), strict=True)):
        assert (f'"r{at}"' not in told.out) is falls_silent, rule
        assert bool([*silent(rule)]) is falls_silent, rule
