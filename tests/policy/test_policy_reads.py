"""A remembered decision is honest only if its key is everything that the policy reads."""

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.domain.decisions import Verdict
from gateway.domain.question import Circumstances, Question
from gateway.errors import PolicyUnavailable
from gateway.policy.bundle import Policy, compile_wasm, prepare
from gateway.policy.opa import Opa
from gateway.policy.reads import Reads, reads_of
from gateway.policy.settings import PolicySettings
from gateway.policy.sources import read_sources
from gateway.policy.wasm import WasmEngine
from tests.policy.policy_questions import CONFIG, POLICIES, cases, question

ALL = list(cases())


def prepared(opa: Opa, path: Path) -> Policy:
    return prepare(opa, read_sources(PolicySettings(path=str(path)), opa), CONFIG)


def read_by(opa: Opa, folder: Path, body: str) -> Reads | None:
    (folder / "more.rego").write_text(f"package douane\n\n{body}\n")
    return reads_of(prepared(opa, folder).modules)


def remembering(opa: Opa, folder: Path) -> WasmEngine:
    """Return the engine of a folder's policy, which remembers by what the policy reads."""
    policy = prepared(opa, folder)
    wasm, reads = compile_wasm(opa, policy), reads_of(policy.modules)
    return WasmEngine(wasm, policy.data, digest="d", clock=lambda: 0.0, reads=reads)


@pytest.fixture(scope="module")
def engines(opa: Opa) -> tuple[WasmEngine, WasmEngine]:
    """The shipped policy, evaluated every time and remembered."""
    shipped = prepared(opa, POLICIES)
    wasm = compile_wasm(opa, shipped)
    reads = reads_of(shipped.modules)
    assert reads is not None
    fresh = WasmEngine(wasm, shipped.data, digest="d", clock=lambda: 0.0)
    return fresh, WasmEngine(wasm, shipped.data, digest="d", clock=lambda: 0.0, reads=reads)


def test_policy_is_shown_what_it_reads_of_what_may_be_large(
    engines: tuple[WasmEngine, WasmEngine],
) -> None:
    asked = question({"arguments": {"body": object(), "grants": []}, "result": {"x": object()}})
    fresh, remembered = engines
    assert remembered.decide(asked).verdict is Verdict.ALLOW
    with pytest.raises(PolicyUnavailable):
        fresh.decide(asked)


def test_what_is_read_as_a_whole_is_shown_as_a_whole() -> None:
    reads = Reads(paths=(("arguments", "a"), ("arguments", "b", "c"), ("result",)))
    assert reads.below("arguments") == frozenset({"a", "b"})
    assert reads.below("result") is None
    assert reads.below("flow") == frozenset()


LEAVES: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        "",
        "allow",
        "trusted",
        "untrusted",
        "private",
        "read",
        "pay",
        "list",
        "call",
        [],
        {},
        0,
        True,
    ]
)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    changes=st.lists(st.tuples(st.integers(0, 10**6), LEAVES), max_size=4),
    which=st.sampled_from(ALL),
)
async def test_a_remembered_decision_is_the_evaluated_one(
    engines: tuple[WasmEngine, WasmEngine], changes: Any, which: Any
) -> None:
    asked = copy.deepcopy(which[1])
    for where, leaf in changes:
        put(asked, where, leaf)
    fresh, remembered = engines
    expected = await fresh.evaluate(asked)
    for _ in range(2):
        found = await remembered.evaluate(asked)
        assert (found.verdict, found.reasons, found.obligations) == (
            expected.verdict,
            expected.reasons,
            expected.obligations,
        )


def put(node: Any, where: int, leaf: Any) -> None:
    """Replace one member somewhere below `node`."""
    while True:
        keys = sorted(node) if isinstance(node, dict) else range(len(node))
        key = list(keys)[where % len(keys)]
        if not isinstance(node[key], dict | list) or not node[key] or where % 3 == 0:
            node[key] = leaf
            return
        node, where = node[key], where // 7


async def test_what_is_remembered_is_not_evaluated_again_and_has_its_own_id(
    engines: tuple[WasmEngine, WasmEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, remembered = engines
    first = await remembered.evaluate(question())
    monkeypatch.setattr(remembered, "_run", None)
    second = await remembered.evaluate(question({"arguments": {"other": 1}}))
    assert second.verdict is first.verdict
    assert second.id != first.id


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        (
            "a if input.target.name == input.principal.sub",
            {("target", "name"), ("principal", "sub")},
        ),
        ("a if { input.target; input.target.name }", {("target",)}),
        ("a if input.arguments[_] == 1", {("arguments",), ("target", "name")}),
        (
            "a if data.douane.config[input.target.server]",
            {("target", "server"), ("target", "name")},
        ),
        ('import input.principal as p\n\na if p.sub == "x"', {("principal",), ("target", "name")}),
    ],
)
def test_what_a_policy_reads_is_found(opa: Opa, folder: Path, body: str, paths: set[Any]) -> None:
    found = read_by(opa, folder, body)
    assert found is not None
    assert set(found.paths) == paths | ({("target", "name")} if ("target",) not in paths else set())


HEADS = (
    'split(input.arguments.to, "/")[_] == ".."',
    'split(input.arguments.to, "@")[1] == "example.com"',
    '[input.arguments.to, "a"][_] == "b"',
    '{"a": input.arguments.to}["a"] == "b"',
    '{input.arguments.to}["b"]',
    'union({{input.arguments.to}, {"a"}})["b"]',
    '[x | x := input.arguments.to][_] == "b"',
    'object.get(input.arguments.to, "a", {}).b == true',
    "json.unmarshal(input.arguments.to).a == 1",
    'data.douane.config[split(input.arguments.to, "/")[0]]',
    'data.douane.config[{"a": input.arguments.to}["a"]]',
    'array.concat([input.arguments.to], [])[_].by == "nobody"',
    "made(input.arguments.to).b",
)
"""What stands before the brackets of a reference, or within them, and is none itself."""


@pytest.mark.parametrize("head", HEADS)
def test_what_a_reference_is_made_of_is_read(opa: Opa, folder: Path, head: str) -> None:
    found = read_by(opa, folder, f'made(x) := {{"b": x}}\n\na if {head}')
    assert found is not None
    assert set(found.paths) == {("arguments", "to"), ("target", "name")}


async def test_what_is_taken_apart_is_shown_and_nobodys_answer_is_anothers(
    opa: Opa, folder: Path
) -> None:
    (folder / "decision.rego").write_text(
        "package douane\n\n"
        'default decision := {"verdict": "deny", "reasons": []}\n\n'
        'decision := {"verdict": "allow", "reasons": []} if not bad\n\n'
        'bad if split(input.principal.sub, "@")[1] != "example.com"\n\n'
        'bad if split(input.arguments.path, "/")[_] == ".."\n'
    )
    engine = remembering(opa, folder)
    verdicts = [
        engine.decide(question({"principal": {"sub": sub}, "arguments": {"path": path}})).verdict
        for sub, path in (
            ("emma@example.com", "notes/a"),
            ("eve@evil.example", "notes/a"),
            ("emma@example.com", "notes/../a"),
        )
    ]
    assert verdicts == [Verdict.ALLOW, Verdict.DENY, Verdict.DENY]


@pytest.mark.parametrize(
    "body",
    [
        "a if time.clock(time.now_ns())[0] > 1",
        "a if data.douane.config.x[input]",
        "a if [input][0].target",
        'a if object.get(input, "arguments", {}).to',
        "a if { walk(input, [_, x]); x == 1 }",
        "a if { some k; input[k] == 1 }",
        "a if { k := data.douane.config.x; input[k] }",
        "a if { z := input; z.target }",
        "a if time.now_ns() > 1",
        'b if input.target.name\n\na if b with input as {"target": {"name": 1}}',
    ],
)
def test_a_policy_that_cannot_be_followed_is_never_remembered(
    opa: Opa, folder: Path, body: str
) -> None:
    assert read_by(opa, folder, body) is None


def test_nothing_and_null_are_two_keys() -> None:
    reads = Reads(paths=(("flow", "label"),))
    asked: list[dict[str, Any]] = [
        {},
        {"flow": None},
        {"flow": {"label": None}},
        {"flow": {"label": []}},
    ]
    keys = [reads.key(one) for one in asked]
    assert keys[0] == keys[1]  # a policy finds nothing below either
    assert len(set(keys)) == 3


async def test_a_decision_on_arguments_is_made_on_these_arguments(opa: Opa, folder: Path) -> None:
    (folder / "decision.rego").write_text(
        "package douane\n\n"
        'default decision := {"verdict": "deny", "reasons": []}\n\n'
        'decision := {"verdict": "allow", "reasons": []} if input.arguments.amount < 10\n'
    )
    engine = remembering(opa, folder)
    verdicts = [
        (await engine.evaluate(question({"arguments": {"amount": amount}}))).verdict
        for amount in (1, 100, 1, 100)
    ]
    assert verdicts == [Verdict.ALLOW, Verdict.DENY] * 2
    same = Circumstances.of(question())
    verdicts = [
        (await engine.evaluate(Question(same, time="t", arguments={"amount": amount}))).verdict
        for amount in (1, 100, 1, 100)
    ]
    assert verdicts == [Verdict.ALLOW, Verdict.DENY] * 2


@pytest.mark.parametrize("body", ["input.arguments[_] < 10", 'input.context.time == "noon"'])
async def test_in_the_same_circumstances_a_policy_that_looks_at_the_rest_is_asked_anew(
    opa: Opa, folder: Path, body: str
) -> None:
    (folder / "decision.rego").write_text(
        "package douane\n\n"
        'default decision := {"verdict": "deny", "reasons": []}\n\n'
        f'decision := {{"verdict": "allow", "reasons": []}} if {body}\n'
    )
    policy = prepared(opa, folder)
    reads = reads_of(policy.modules)
    engine = WasmEngine(
        compile_wasm(opa, policy), policy.data, digest="d", clock=lambda: 0.0, reads=reads
    )
    same = Circumstances.of(question())
    verdicts = [
        (await engine.evaluate(Question(same, time=time, arguments={"amount": amount}))).verdict
        for amount, time in ((1, "noon"), (100, "night"), (1, "noon"))
    ]
    assert verdicts == [Verdict.ALLOW, Verdict.DENY, Verdict.ALLOW]


@pytest.mark.parametrize(("body", "beside"), [("input.target.name", 1), ("input.arguments[_]", 2)])
async def test_what_is_large_and_not_read_is_not_gone_through_to_know_a_decision_again(
    opa: Opa, folder: Path, monkeypatch: pytest.MonkeyPatch, body: str, beside: int
) -> None:
    (folder / "decision.rego").write_text(
        f'package douane\n\ndecision := {{"verdict": "allow", "reasons": []}} if {body}\n'
    )
    engine = remembering(opa, folder)
    take, took = engine._turns.take, []

    async def taking(who: str, *work: Any) -> Any:
        took.append(who)
        return await take(who, *work)

    monkeypatch.setattr(engine._turns, "take", taking)
    same, large = Circumstances.of(question()), {"many": [1] * 5_000}
    for _ in range(2):
        decision = await engine.evaluate(Question(same, time="t", arguments=large))
        assert decision.verdict is Verdict.ALLOW
    assert len(took) == beside


async def test_the_clients_of_a_person_have_one_turn_together(
    opa: Opa, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "decision.rego").write_text(
        'package douane\n\ndecision := {"verdict": "allow", "reasons": []} if input.arguments[_]\n'
    )
    engine = remembering(opa, folder)
    take, took = engine._turns.take, []

    async def taking(who: str, *work: Any) -> Any:
        took.append(who)
        return await take(who, *work)

    monkeypatch.setattr(engine._turns, "take", taking)
    for sub, client in (("emma", "one"), ("emma", "other"), ("noah", "one")):
        principal = {"iss": "https://gate", "sub": sub, "client": client}
        await engine.evaluate(
            question({"principal": principal, "arguments": {"many": [1] * 5_000}})
        )
    assert took[0] == took[1] != took[2]


async def test_what_one_policy_said_of_circumstances_is_not_anothers_word(
    opa: Opa, folder: Path
) -> None:
    engines = []
    for verdict in ("allow", "deny"):
        (folder / "decision.rego").write_text(
            "package douane\n\n"
            f'decision := {{"verdict": "{verdict}", "reasons": []}} if input.target.name\n'
        )
        policy = prepared(opa, folder)
        wasm, reads = compile_wasm(opa, policy), reads_of(policy.modules)
        engines.append(WasmEngine(wasm, policy.data, digest="d", clock=lambda: 0.0, reads=reads))
    asked = Question(Circumstances.of(question()), time="t", arguments={})
    said = [await engine.evaluate(asked) for engine in (*engines, engines[0])]
    assert [one.verdict for one in said] == [Verdict.ALLOW, Verdict.DENY, Verdict.ALLOW]
    assert said[0].id != said[2].id
