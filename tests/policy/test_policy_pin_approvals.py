"""`data.douane.pin_approvals`: absent means one, and anything malformed means no."""

from typing import Any

import pytest

from gateway.errors import PolicyUnavailable
from gateway.policy.answer import read_pin_approvals
from gateway.policy.bundle import compile_wasm, prepare
from gateway.policy.managed import ManagedEngine
from gateway.policy.opa import Opa
from gateway.policy.refusing import RefusingEngine
from gateway.policy.sources import Sources
from gateway.policy.wasm import WasmEngine

DECISION = 'package douane\n\ndecision := {"verdict": "allow", "reasons": []}\n'
RULE = f"""{DECISION}
pin_approvals := 2 if input.change.tier == "T3"

pin_approvals := null if input.change.tier == "T2"

pin_approvals := "2" if input.change.tier == "T1"
"""
UNUSABLE = [None, "2", 0, -1, 2.0, True, [2], {"people": 2}]


def engine_of(opa: Opa, rego: str) -> WasmEngine:
    policy = prepare(opa, Sources(files={"p.rego": rego.encode()}), {})
    return WasmEngine(
        compile_wasm(opa, policy), policy.data, digest=policy.digest, clock=lambda: 0.0
    )


def of_tier(tier: str) -> dict[str, Any]:
    return {"change": {"tier": tier}}


async def test_the_rule_says_how_many_and_where_it_says_nothing_it_is_one(opa: Opa) -> None:
    engine = engine_of(opa, RULE)
    assert await engine.pin_approvals(of_tier("T3")) == 2
    assert await engine.pin_approvals(of_tier("T0")) == 1


async def test_a_policy_without_the_rule_wants_one(opa: Opa) -> None:
    assert await engine_of(opa, DECISION).pin_approvals(of_tier("T3")) == 1


@pytest.mark.parametrize("tier", ["T1", "T2"])
async def test_a_malformed_answer_is_none(opa: Opa, tier: str) -> None:
    with pytest.raises(PolicyUnavailable):
        await engine_of(opa, RULE).pin_approvals(of_tier(tier))


@pytest.mark.parametrize("rule", ["pin_approvals contains 2", "pin_approvals.people := 2"])
async def test_a_rule_of_another_shape_is_no_rule_that_says_one(opa: Opa, rule: str) -> None:
    with pytest.raises(PolicyUnavailable):
        await engine_of(opa, f"{DECISION}\n{rule}\n").pin_approvals(of_tier("T3"))


async def test_an_opa_server_is_read_alike(opa: Opa) -> None:
    policy = prepare(opa, Sources(files={"p.rego": RULE.encode()}), {})
    engine = await ManagedEngine.start(opa, policy, deadline=5.0)
    try:
        assert await engine.pin_approvals(of_tier("T3")) == 2
        assert await engine.pin_approvals(of_tier("T0")) == 1
        for tier in ("T1", "T2"):
            with pytest.raises(PolicyUnavailable):
                await engine.pin_approvals(of_tier(tier))
    finally:
        await engine.close()


async def test_our_own_opa_server_without_the_rule_wants_one(opa: Opa) -> None:
    policy = prepare(opa, Sources(files={"p.rego": DECISION.encode()}), {})
    engine = await ManagedEngine.start(opa, policy, deadline=5.0)
    try:
        assert await engine.pin_approvals(of_tier("T3")) == 1
    finally:
        await engine.close()


async def test_without_a_policy_nothing_says_that_one_is_enough() -> None:
    with pytest.raises(PolicyUnavailable):
        await RefusingEngine(digest="").pin_approvals(of_tier("T0"))


@pytest.mark.parametrize("answer", UNUSABLE)
def test_only_a_whole_number_above_zero_is_read(answer: Any) -> None:
    with pytest.raises(PolicyUnavailable, match="usable answer"):
        read_pin_approvals(answer)
    assert read_pin_approvals(3) == 3
