"""Which members of a question an answer can depend on."""

import copy
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.decisions import Decision
from gateway.policy.building import wasm_engine
from gateway.policy.bundle import compile_plan, prepare
from gateway.policy.dataflow import looks_of
from gateway.policy.looks import EVERYTHING, Look, needed
from gateway.policy.opa import Opa
from gateway.policy.sources import Sources, read_folder
from gateway.policy.wasm import DECISION, WasmEngine
from tests.policy.policy_questions import CONFIG, POLICIES, cases, question

NOW = 1_800_000_000.0
VALUE = ("flow", "destinations", "*", "value")
PLACE = {
    "path": "$.to",
    "value": "a@b.example",
    "form": "email",
    "proof": "none",
    "integrity": "untrusted",
    "from": None,
}


def looks_at(opa: Opa, sources: Sources) -> frozenset[Look]:
    return looks_of(compile_plan(opa, prepare(opa, sources, CONFIG, tested=False)), DECISION)


def followed(opa: Opa, sources: Sources) -> tuple[frozenset[Look], WasmEngine]:
    policy = prepare(opa, sources, CONFIG, tested=False)
    return looks_at(opa, sources), wasm_engine(opa, policy, lambda: NOW)


@pytest.fixture(scope="module")
def shipped(opa: Opa) -> tuple[frozenset[Look], WasmEngine]:
    return followed(opa, read_folder(Path(POLICIES)))


def leaves(node: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(node, dict) and node:
        for name, inner in node.items():
            yield from leaves(inner, (*path, name))
    elif isinstance(node, list) and node:
        for index, inner in enumerate(node):
            yield from leaves(inner, (*path, index))
    else:
        yield path


def abstract(path: tuple[str | int, ...]) -> tuple[str, ...]:
    return tuple("*" if isinstance(step, int) else step for step in path)


def changed(asked: dict[str, Any], path: tuple[str | int, ...], content: Any) -> dict[str, Any]:
    """Return `asked` with something else at `path`, or with nothing there."""
    other = copy.copy(asked)
    node: Any = other
    for step in path[:-1]:
        node[step] = copy.copy(node[step])
        node = node[step]
    if content is None and isinstance(path[-1], str):
        del node[path[-1]]
    else:
        node[path[-1]] = content
    return other


def told(decision: Decision) -> tuple[Any, ...]:
    return decision.verdict, decision.reasons, decision.obligations


def test_what_the_shipped_rules_do_not_look_at_changes_no_answer(
    shipped: tuple[frozenset[Look], WasmEngine],
) -> None:
    looks, engine = shipped
    contents = itertools.cycle([(None, "something else"), ({"a": ["thing"]}, False)])
    tried = 0
    for _, asked, _ in cases():
        try:
            before = told(engine.decide(asked))
        except Exception:  # noqa: BLE001 - a case without any usable answer
            continue
        for path in leaves(asked):
            if needed(looks, asked, [abstract(path)]):
                continue
            for content in next(contents):
                assert told(engine.decide(changed(asked, path, content))) == before, path
                tried += 1
    assert tried > 1_000


def test_the_shipped_rules_look_at_no_argument_of_an_ordinary_call(
    shipped: tuple[frozenset[Look], WasmEngine],
) -> None:
    looks, _ = shipped
    asked = question({"flow.destinations": [PLACE]}, remove=("arguments",))
    unknown = [("arguments",), VALUE, ("approval", "note"), ("task", "prompt"), ("result",)]
    assert needed(looks, asked, unknown) == ()
    program = question({"target.server": "", "target.name": "run_code"}, remove=("arguments",))
    assert needed(looks, program, [("arguments",)]) == (("arguments",),)


RULES = [
    ('input.arguments.to == "x"', {("arguments", "to")}),
    ('input.target.name == "other"; input.arguments.to == "x"', set()),
    ('input.target.name == "{name}"; input.arguments.to == "x"', {("arguments", "to")}),
    ('not input.target.name == "other"; input.arguments.to == "x"', {("arguments", "to")}),
    ('object.get(input.arguments, "to", "") == "x"', {("arguments", "to")}),
    ('some name, _ in input.arguments; name == "to"', {("arguments", "to")}),
    ("count(input.arguments) > 3", {("arguments", "to")}),
    ("is_object(input.arguments)", set()),
    ('input.arguments[input.target.name] == "x"', {("arguments", "to")}),
    ("walk(input, [_, leaf]); leaf == 7", {("arguments", "to"), VALUE}),
    ("x := input; x.arguments.to == 1", {("arguments", "to")}),
    ('contains(json.marshal(input.arguments), "x")', {("arguments", "to")}),
    ('some d in input.flow.destinations; d.proof == "none"', set()),
    ("count(input.flow.destinations) > 5", set()),
    ('some d in input.flow.destinations; d.value == "x"', {VALUE}),
    ('some d in input.flow.destinations; d[_] == "x"', {VALUE}),
    ('input.flow.destinations[0].value == "x"', {VALUE}),
    ("bad(input.flow.destinations[_])", {VALUE}),
    ("some d in input.flow.destinations; d == input.flow.links[0]", {VALUE}),
    ('"x" in {d.value | some d in input.flow.destinations}', {VALUE}),
    ('"none" in {d.proof | some d in input.flow.destinations}', set()),
    ("count({d | some d in input.flow.destinations}) > 5", {VALUE}),
    ("count([1 | some _ in places]) > 5", {VALUE}),
    ('e := {"k": [d | some d in input.flow.destinations]}; e.k[0].value == "x"', {VALUE}),
    # What went through a container, or into a set, is not told apart any more.
    ('e := {"k": [d | some d in input.flow.destinations]}; e.k[0].proof == "x"', {VALUE}),
    ('every d in input.flow.destinations { d.value == "x" }', {VALUE}),
    ('every d in input.flow.destinations { d.form == "x" }', set()),
    ('places[_].value == "x"', {VALUE}),
    ('places[_].form == "x"', {VALUE}),
    ('closed with input.arguments as {"to": "x"}', {("arguments", "to"), VALUE}),
    # What may also be a constant says nothing of the input where it is one.
    ('tool == "run_code"; input.arguments.to == "x"', {("arguments", "to")}),
    ('is_code("run_code"); input.arguments.to == "x"', {("arguments", "to")}),
    ('name_of({"name": "x"}) == "x"; input.arguments.to == "x"', {("arguments", "to")}),
    ('some i in [1, 2]; nth(i) == "x"; input.arguments.to == "x"', {("arguments", "to")}),
    (
        'some i, _ in {"x": 1}; n := [i, input.target.name][_]; n == "x"; input.arguments.to == "x"',
        {("arguments", "to")},
    ),
    ('object.get(input.target, "name", "x") == "x"; input.arguments.to == "x"', set()),
    # Values that would be in conflict are compared, whatever becomes of them.
    ("only_to", {("arguments", "to")}),
    ("by_name.all", {("arguments", "to")}),
    ("is_object(by_name)", {("arguments", "to")}),
]
"""The body of a rule, and which of two members that are not recorded it looks at."""

MORE = """
bad(place) if place.value == "x"
places contains d if some d in input.flow.destinations
closed if input.target.name == "other"
tool := input.target.name if input.phase == "list"
else := "run_code"
is_code(name) if name == "run_code"
coded if is_code(input.target.name)
name_of(target) := target.name
named if name_of(input.target) == "other"
nth(1) := input.target.name
nth(2) := "x"
only_to := input.arguments
only_to := {"to": "x"}
by_name[key] := input.arguments if some key in ["all"]
by_name[key] := {"to": "x"} if some key in ["all"]
"""


@pytest.mark.parametrize(("body", "expected"), RULES, ids=[str(i) for i in range(len(RULES))])
def test_a_rule_looks_at(body: str, expected: set[tuple[str, ...]], opa: Opa) -> None:
    asked = question({"flow.destinations": [PLACE], "arguments": {"to": "a@b.example"}})
    rule = body.replace("{name}", asked["target"]["name"])
    rego = (
        'package douane\n\ndecision := {"verdict": "allow", "reasons": []} if not refused\n'
        f"\nrefused if {{\n\t{rule.replace('; ', chr(10) + chr(9))}\n}}\n{MORE}"
    )
    looks = looks_at(opa, Sources(files={"decision.rego": rego.encode()}))
    assert set(needed(looks, asked, [("arguments", "to"), VALUE])) == expected


def test_a_value_that_goes_into_the_answer_is_looked_at(opa: Opa) -> None:
    rego = (
        'package douane\n\ndecision := {"verdict": "deny", "reasons": [reason]} if '
        'reason := {"code": "c", "message": input.arguments.to}\n'
    )
    looks = looks_at(opa, Sources(files={"decision.rego": rego.encode()}))
    below = ("arguments", "to", "name")
    assert needed(looks, question(), [below]) == (below,)


def test_a_plan_with_what_is_not_known_here_is_taken_to_look_at_everything() -> None:
    statement = {"type": "FutureStmt", "stmt": {}}
    plan = {
        "static": {"strings": []},
        "funcs": {"funcs": []},
        "plans": {"plans": [{"name": DECISION, "blocks": [{"stmts": [statement]}]}]},
    }
    assert looks_of(plan, DECISION) == {EVERYTHING}
    assert EVERYTHING.meets(("arguments", "to"))


@pytest.mark.parametrize(
    ("look", "unknown", "meets"),
    [
        (Look(path=("a",), depth=0), ("a",), True),
        (Look(path=("a",), depth=0), ("a", "b"), False),
        (Look(path=("a",), depth=1), ("a", "b"), True),
        (Look(path=("a",), depth=1), ("a", "b", "c"), False),
        (Look(path=("a", "b", "c"), depth=0), ("a",), True),
        (Look(path=("a", "*"), depth=0), ("a", "b"), True),
        (Look(path=("a", "b"), depth=0), ("a", "c"), False),
    ],
)
def test_a_look_meets(look: Look, unknown: tuple[str, ...], meets: bool) -> None:
    assert look.meets(unknown) is meets


def test_a_condition_that_cannot_hold_is_a_look_that_is_not_taken() -> None:
    look = Look(path=("a",), depth=0, when=frozenset({(("b", "c"), "x")}))
    assert look.holds_for({"b": {"c": "x"}})
    assert look.holds_for({"b": {}})
    assert not look.holds_for({"b": {"c": "y"}})
    assert not look.holds_for({"b": {"c": None}})
