"""The cases beside the policies: every engine gives the same answer to the same question."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway.domain.decisions import Decision
from gateway.policy.bundle import Policy, compile_wasm, export, prepare
from gateway.policy.managed import ManagedEngine
from gateway.policy.opa import Opa
from gateway.policy.settings import PolicySettings
from gateway.policy.sources import read_sources
from gateway.policy.wasm import WasmEngine
from gateway.ports import PolicyEngine
from tests.policy.policy_questions import CONFIG, POLICIES, cases, pin_cases

ALL = list(cases())


def told(decision: Decision) -> dict[str, Any]:
    """A decision in the words of the cases."""
    return {
        "verdict": decision.verdict.value,
        "codes": [reason.code for reason in decision.reasons],
        "duties": [
            {"duty": obligation.duty.value, **obligation.detail}
            for obligation in decision.obligations
        ],
    }


@pytest.fixture(scope="module")
def shipped(opa: Opa) -> Policy:
    return prepare(opa, read_sources(PolicySettings(path=str(POLICIES)), opa), CONFIG)


@pytest.fixture(scope="module")
def wasm(opa: Opa, shipped: Policy) -> WasmEngine:
    compiled = compile_wasm(opa, shipped)
    return WasmEngine(compiled, shipped.data, digest=shipped.digest, clock=lambda: 0.0)


@pytest_asyncio.fixture(loop_scope="function")
async def managed(opa: Opa, shipped: Policy) -> AsyncIterator[ManagedEngine]:
    engine = await ManagedEngine.start(opa, shipped, deadline=5.0)
    yield engine
    await engine.close()


async def answers(engine: PolicyEngine) -> list[dict[str, Any]]:
    return [
        told(decision) for decision in await engine.evaluate_many([asked for _, asked, _ in ALL])
    ]


@pytest.mark.parametrize(("name", "asked", "expected"), ALL, ids=[name for name, _, _ in ALL])
async def test_a_case_is_decided_in_process_as_it_says(
    wasm: WasmEngine, name: str, asked: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert told(await wasm.evaluate(asked)) == expected


async def test_the_managed_server_gives_the_same_answers(
    wasm: WasmEngine, managed: ManagedEngine
) -> None:
    assert await answers(managed) == [expected for _, _, expected in ALL]
    assert managed.digest == wasm.digest
    for _, asked, expected in pin_cases():
        assert await managed.judge_pin(asked) == expected


async def test_opa_itself_gives_the_same_answers_to_the_letter(
    opa: Opa, wasm: WasmEngine, shipped: Policy, tmp_path: Path
) -> None:
    export(shipped, tmp_path)
    questions = json.dumps([asked for _, asked, _ in ALL])
    query = "[d | some asked in input; d := data.douane.decision with input as asked]"
    ran = opa.run("eval", "-f", "raw", "-b", str(tmp_path), "--stdin-input", query, stdin=questions)
    assert ran.ok, ran.err
    mine = [
        {
            "verdict": decision.verdict.value,
            "reasons": [{"code": r.code, "message": r.message} for r in decision.reasons],
            "obligations": told(decision)["duties"],
        }
        for decision in await wasm.evaluate_many([asked for _, asked, _ in ALL])
    ]
    assert mine == json.loads(ran.out)


async def test_pins_are_judged_as_the_cases_say(wasm: WasmEngine) -> None:
    for name, asked, expected in pin_cases():
        assert await wasm.judge_pin(asked) == expected, name


async def test_no_evaluation_leaves_a_trace_in_the_next(wasm: WasmEngine) -> None:
    order = ALL * 20
    random.Random(7).shuffle(order)
    for _, asked, expected in order:
        assert told(await wasm.evaluate(asked)) == expected


async def test_a_very_large_question_is_answered_and_the_next_one_too(wasm: WasmEngine) -> None:
    _, asked, expected = ALL[0]
    large = {**asked, "arguments": {"text": "ä" * 3_000_000}}
    assert told(await wasm.evaluate(large)) == expected
    assert told(await wasm.evaluate(asked)) == expected


async def test_every_decision_has_an_id_of_its_own(wasm: WasmEngine) -> None:
    decisions = await wasm.evaluate_many([ALL[0][1]] * 100)
    assert len({decision.id for decision in decisions}) == 100
    assert all(decision.id.startswith("d_") for decision in decisions)
    assert {decision.policy_digest for decision in decisions} == {wasm.digest}


async def test_other_work_gets_its_turn_while_a_long_list_is_decided(wasm: WasmEngine) -> None:
    turns: list[int] = []

    async def other() -> None:
        while True:
            turns.append(1)
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await wasm.evaluate_many([ALL[0][1]] * 640)
    task.cancel()
    assert len(turns) >= 9
