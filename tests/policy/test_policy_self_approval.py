"""`data.douane.self_approval`: true says yes, and whatever else is said or not said is a no."""

from typing import Any

import pytest

from gateway.policy.answer import read_self_approval
from gateway.policy.bundle import compile_wasm, prepare
from gateway.policy.managed import ManagedEngine
from gateway.policy.opa import Opa
from gateway.policy.refusing import RefusingEngine
from gateway.policy.sources import Sources
from gateway.policy.wasm import WasmEngine

DECISION = 'package douane\n\ndecision := {"verdict": "ask", "reasons": []}\n'
RULE = f"""{DECISION}
self_approval if input.target.effect == "write"

self_approval := "true" if input.target.effect == "egress"

self_approval := false if input.target.effect == "pay"
"""
EFFECTS = {"write": True, "egress": False, "pay": False, "destroy": False}


def engine_of(opa: Opa, rego: str) -> WasmEngine:
    policy = prepare(opa, Sources(files={"p.rego": rego.encode()}), {})
    return WasmEngine(
        compile_wasm(opa, policy), policy.data, digest=policy.digest, clock=lambda: 0.0
    )


def of(effect: str) -> dict[str, Any]:
    return {"target": {"effect": effect}}


async def test_only_a_rule_that_says_true_lets_people_answer_for_themselves(opa: Opa) -> None:
    engine = engine_of(opa, RULE)
    assert {effect: await engine.self_approval(of(effect)) for effect in EFFECTS} == EFFECTS


async def test_a_policy_without_the_rule_lets_nobody(opa: Opa) -> None:
    assert await engine_of(opa, DECISION).self_approval(of("write")) is False


async def test_an_opa_server_is_asked_alike(opa: Opa) -> None:
    policy = prepare(opa, Sources(files={"p.rego": RULE.encode()}), {})
    engine = await ManagedEngine.start(opa, policy, deadline=5.0)
    try:
        assert {effect: await engine.self_approval(of(effect)) for effect in EFFECTS} == EFFECTS
    finally:
        await engine.close()


async def test_an_opa_server_without_the_rule_lets_nobody(opa: Opa) -> None:
    policy = prepare(opa, Sources(files={"p.rego": DECISION.encode()}), {})
    engine = await ManagedEngine.start(opa, policy, deadline=5.0)
    try:
        assert await engine.self_approval(of("write")) is False
    finally:
        await engine.close()


async def test_where_there_is_no_policy_nobody_answers_for_themselves() -> None:
    assert await RefusingEngine(digest="").self_approval(of("write")) is False


@pytest.mark.parametrize("answer", [None, 1, "true", [True], {"allow": True}, False], ids=repr)
def test_anything_but_true_is_a_no(answer: Any) -> None:
    assert read_self_approval(answer) is False
