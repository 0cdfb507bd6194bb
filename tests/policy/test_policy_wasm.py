"""The engine in this process: its limits, its built-ins, what it does after a failure."""

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import ConfigError, PolicyUnavailable, RateLimited
from gateway.policy.bundle import compile_wasm, export, prepare
from gateway.policy.host import Aborted
from gateway.policy.instance import Seat
from gateway.policy.opa import Opa
from gateway.policy.settings import FUEL
from gateway.policy.sources import Sources
from gateway.policy.wasm import MissingBuiltins, WasmEngine
from gateway.turns import Turns

NOW = 1_800_000_000.25


def engine_of(
    opa: Opa, rego: str, *, data: dict[str, Any] | None = None, fuel: int = FUEL
) -> WasmEngine:
    policy = prepare(opa, Sources(files={"p.rego": rego.encode()}), {})
    return WasmEngine(
        compile_wasm(opa, policy),
        {**policy.data, **(data or {})},
        digest=policy.digest,
        clock=lambda: NOW,
        new_id=lambda: "d_1",
        fuel=fuel,
    )


def deciding(body: str) -> str:
    return f"package douane\n\ndecision := {body}\n"


RUNAWAY = """package douane

decision := {"verdict": "allow", "reasons": []} if input.target.name == "good"

decision := {"verdict": "deny", "reasons": []} if {
	input.target.name == "bad"
	count([1 | some a in numbers.range(1, 3000); some b in numbers.range(1, 3000); a == b]) == 0
}
"""


async def test_a_runaway_policy_is_refused_and_the_next_question_answered(opa: Opa) -> None:
    engine = engine_of(opa, RUNAWAY)
    for _ in range(2):
        instance = engine._here.instance
        with pytest.raises(PolicyUnavailable, match="fuel"):
            await engine.evaluate({"target": {"name": "bad"}})
        assert engine._here.instance is not instance
        decision = await engine.evaluate({"target": {"name": "good"}})
        assert (decision.id, decision.verdict) == ("d_1", "allow")


async def test_a_policy_that_wants_too_much_memory_is_refused(opa: Opa) -> None:
    many = 'decision := {"verdict": "allow", "reasons": []} if count(numbers.range(1, input.arguments.n)) > 0'
    engine = engine_of(opa, f"package douane\n\n{many}\n", fuel=2**60)
    assert (await engine.evaluate({"arguments": {"n": 1_000}})).verdict == "allow"
    with pytest.raises(PolicyUnavailable):
        await engine.evaluate({"arguments": {"n": 3_000_000}})


async def test_an_undefined_decision_is_refused(opa: Opa) -> None:
    engine = engine_of(opa, RUNAWAY)
    with pytest.raises(PolicyUnavailable):
        await engine.evaluate({"target": {"name": "neither"}})


async def test_two_rules_that_contradict_each_other_are_refused(opa: Opa) -> None:
    rego = (
        'package douane\n\ndecision := {"verdict": "allow", "reasons": []} if input.method\n\n'
        'decision := {"verdict": "deny", "reasons": []} if input.phase\n'
    )
    engine = engine_of(opa, rego)
    assert (await engine.evaluate({"method": "x"})).verdict == "allow"
    with pytest.raises(PolicyUnavailable, match="conflict"):
        await engine.evaluate({"method": "x", "phase": "call"})


@pytest.mark.parametrize("question", [{"x": "\ud800"}, {"x": 2**70}, {1: 2}, {"x": object()}])
async def test_a_question_that_is_no_json_is_refused(opa: Opa, question: dict[Any, Any]) -> None:
    engine = engine_of(opa, deciding('{"verdict": "allow", "reasons": []}'))
    with pytest.raises(PolicyUnavailable):
        await engine.evaluate(question)


async def test_a_policy_that_does_not_speak_of_pins_has_them_held(opa: Opa) -> None:
    engine = engine_of(opa, deciding('{"verdict": "allow", "reasons": []}'))
    assert await engine.judge_pin({"change": {"tier": "T0"}}) == "hold"


async def test_a_pin_rule_that_says_something_else_has_it_held(opa: Opa) -> None:
    rego = deciding('{"verdict": "allow", "reasons": []}') + '\npin := {"approve": true}\n'
    assert await engine_of(opa, rego).judge_pin({}) == "hold"


async def test_data_is_there_in_every_evaluation(opa: Opa) -> None:
    rego = deciding('{"verdict": data.words[input.method], "reasons": []}')
    engine = engine_of(opa, rego, data={"words": {"a": "allow", "b": "ask"}})
    for _ in range(50):
        assert (await engine.evaluate({"method": "a"})).verdict == "allow"
        assert (await engine.evaluate({"method": "b"})).verdict == "ask"


def test_what_is_no_webassembly_is_refused() -> None:
    with pytest.raises(ConfigError):
        WasmEngine(b"not wasm", {}, digest="", clock=lambda: NOW)


def test_a_built_in_that_we_lack_is_named(opa: Opa) -> None:
    rego = deciding(
        '{"verdict": http.send({"method": "get", "url": "http://x"}).body, "reasons": []}'
    )
    with pytest.raises(MissingBuiltins) as caught:
        engine_of(opa, rego)
    assert caught.value.names == ("http.send",)


EXPRESSIONS = [
    'sprintf("%s has %d of %v", [input.sub, 3, {"b": [1, "x"], "a": null}])',
    'sprintf("%5d|%-5d|%05d|%x|%.2f|%f|%q|100%%", [42, 42, 42, 255, 1.5, 2.25, "a\\"b"])',
    'sprintf("%v %v %v %v", ["x", 1.5, true, ["x"]])',
    'time.parse_rfc3339_ns("2026-11-21T17:00:00.123456789Z")',
    'time.parse_rfc3339_ns("2026-11-21T17:00:00+02:00")',
    'time.parse_duration_ns("1h2m3.5s")',
    'time.parse_duration_ns("-1.5ms")',
    'time.clock(time.parse_rfc3339_ns("2026-11-21T17:00:01Z"))',
    'time.clock([time.parse_rfc3339_ns("2026-11-21T17:00:01Z"), "Europe/Zurich"])',
    'time.weekday(time.parse_rfc3339_ns("2026-11-21T17:00:00Z"))',
    '[x | x := time.parse_rfc3339_ns("yesterday")]',
    '[x | x := time.parse_duration_ns("an hour")]',
    '[x | x := time.clock([0, "Nowhere/Land"])]',
]


async def test_our_built_ins_give_what_opa_gives(opa: Opa, tmp_path: Path) -> None:
    reasons = [
        f'{{"code": "c{number}", "message": json.marshal({expression})}}'
        for number, expression in enumerate(EXPRESSIONS)
    ]
    answer = f'{{"verdict": "allow", "reasons": [{", ".join(reasons)}]}}'
    policy = prepare(
        opa,
        Sources(files={"p.rego": deciding(answer.replace("input.sub", "input.method")).encode()}),
        {},
    )
    export(policy, tmp_path)
    asked = {"method": "emma"}
    query = "data.douane.decision"
    ran = opa.run("eval", "-f", "raw", "-b", str(tmp_path), "-I", query, stdin=json.dumps(asked))
    theirs = [reason["message"] for reason in json.loads(ran.out)["reasons"]]
    assert len(theirs) == len(EXPRESSIONS)
    engine = WasmEngine(
        compile_wasm(opa, policy), policy.data, digest="sha256:1", clock=lambda: NOW
    )
    ours = [reason.message for reason in (await engine.evaluate(asked)).reasons]
    assert dict(zip(EXPRESSIONS, ours, strict=True)) == dict(zip(EXPRESSIONS, theirs, strict=True))


async def test_the_time_stands_still_during_an_evaluation(opa: Opa) -> None:
    ticks = iter(range(100))
    answer = '{"verdict": "allow", "reasons": [{"code": "t", "message": json.marshal([time.now_ns(), time.weekday(time.now_ns())])}]}'
    policy = prepare(opa, Sources(files={"p.rego": deciding(answer).encode()}), {})
    engine = WasmEngine(
        compile_wasm(opa, policy), {}, digest="sha256:1", clock=lambda: float(next(ticks))
    )
    for second in range(3):
        decision = await engine.evaluate({})
        assert json.loads(decision.reasons[0].message) == [second * 10**9, "Thursday"]


@pytest.mark.parametrize(
    "call",
    ['sprintf("%d", ["x"])', 'sprintf("%s", [])', 'sprintf("x", [1])', 'sprintf("%9999d", [1])'],
)
async def test_a_format_that_we_do_not_know_is_refused_not_ignored(opa: Opa, call: str) -> None:
    engine = engine_of(
        opa, deciding(f'{{"verdict": "allow", "reasons": [{{"code": "x", "message": {call}}}]}}')
    )
    with pytest.raises(PolicyUnavailable):
        await engine.evaluate({})


SLOW = """package douane

decision := {"verdict": "allow", "reasons": []} if {
	count([1 | some a in input.arguments.many; some b in input.arguments.many; a == b]) > 0
}
"""


class Noting(Turns):
    """Notes whose turn was taken."""

    def __init__(self) -> None:
        super().__init__(places=1)
        self.took: list[str] = []

    async def take(self, who: str, work: Callable[..., Any], *args: Any) -> Any:
        self.took.append(who)
        return await super().take(who, work, *args)


def noting(engine: WasmEngine) -> Noting:
    engine._turns = Noting()
    return engine._turns


def asks(who: str, many: list[Any]) -> dict[str, Any]:
    return {"principal": {"iss": "i", "sub": who, "client": {}}, "arguments": {"many": many}}


async def test_what_policy_thinks_about_for_long_leaves_the_loop_and_is_answered_alike(opa: Opa):
    engine = engine_of(opa, SLOW)
    noted = noting(engine)
    assert (await engine.evaluate(asks("a", [1, 2]))).verdict == "allow"
    assert not noted.took
    assert (await engine.evaluate(asks("a", list(range(250))))).verdict == "allow"
    assert len(noted.took) == 1


async def test_what_takes_all_fuel_is_refused_beside_the_loop(opa: Opa):
    engine = engine_of(opa, SLOW, fuel=30_000_000)
    noted = noting(engine)
    with pytest.raises(PolicyUnavailable, match="fuel"):
        await engine.evaluate(asks("a", list(range(3900))))
    assert len(noted.took) == 1
    assert (await engine.evaluate(asks("a", [1]))).verdict == "allow"


async def test_what_stopped_another_threads_evaluation_is_not_taken_for_what_stopped_this_one(
    opa: Opa, monkeypatch: pytest.MonkeyPatch
):
    """wasmtime keeps what a function of ours raised in one place for all threads."""
    engine = engine_of(opa, SLOW)
    monkeypatch.setattr("wasmtime._func.LAST_EXCEPTION", Aborted("somebody else's"))
    assert (await engine.evaluate(asks("a", list(range(250))))).verdict == "allow"


async def test_what_stopped_this_evaluation_is_said_although_another_thread_took_it(
    opa: Opa, monkeypatch: pytest.MonkeyPatch
):
    engine = engine_of(
        opa, deciding('{"verdict": "allow", "reasons": [sprintf("%d", [input.arguments.many])]}')
    )
    monkeypatch.setattr("wasmtime._func.maybe_raise_last_exn", lambda: None)
    with pytest.raises(PolicyUnavailable) as refused:
        await engine.evaluate(asks("a", []))
    assert "sprintf" in refused.value.detail


async def test_no_instance_is_ever_used_by_two_threads(opa: Opa, monkeypatch: pytest.MonkeyPatch):
    engine = engine_of(opa, SLOW)
    using, used = dict[int, int](), dict[int, set[int]]()
    asked = Seat.asked

    def noting(seat: Seat, *args: Any) -> Any:
        assert using.setdefault(id(seat), threading.get_ident()) == threading.get_ident()
        used.setdefault(id(seat), set()).add(threading.get_ident())
        try:
            return asked(seat, *args)
        finally:
            del using[id(seat)]

    monkeypatch.setattr(Seat, "asked", noting)
    many = [[*range(200), who] for who in range(6)]
    await asyncio.gather(
        *(engine.evaluate(asks(str(who), large)) for who, large in enumerate(many)),
        *(engine.evaluate(asks(str(who), [1])) for who in range(50)),
    )
    here, beside = used.values()
    assert here == {threading.get_ident()}
    assert len(beside) == 1
    assert not here & beside


async def test_a_large_result_is_not_judged_on_the_loop(opa: Opa):
    engine = engine_of(opa, deciding('{"verdict": "allow", "reasons": []}'))
    noted = noting(engine)
    await engine.evaluate({**asks("a", []), "result": {"a": [{}] * 5_000}})
    assert len(noted.took) == 1


async def test_a_result_is_judged_however_much_waits_and_a_call_is_not(opa: Opa):
    engine = engine_of(opa, deciding('{"verdict": "allow", "reasons": []}'))
    engine._turns = Turns(places=1, most_waiting=0)
    large = {**asks("a", []), "result": {"a": [{}] * 5_000}}
    assert (await engine.evaluate({**large, "phase": "result"})).verdict == "allow"
    with pytest.raises(RateLimited):
        await engine.evaluate({**large, "phase": "call"})


async def test_a_large_question_is_not_even_begun_on_the_loop(opa: Opa):
    engine = engine_of(
        opa, deciding('{"verdict": "allow", "reasons": []}') + '\npin := "approve"\n'
    )
    noted = noting(engine)
    engine._here.let_go()
    for large in ([0] * 5_000, ["a" * 2_000_000]):
        assert (await engine.evaluate(asks("a", large))).verdict == "allow"
        assert await engine.judge_pin(asks("a", large)) == "approve"
    assert len(noted.took) == 4
    assert engine._here.instance is None


async def test_each_principal_waits_for_its_own_large_questions(opa: Opa):
    engine = engine_of(opa, deciding('{"verdict": "allow", "reasons": []}'))
    noted = noting(engine)
    for who in ("a", "b", "a"):
        await engine.evaluate(asks(who, [0] * 5_000))
    assert noted.took[0] == noted.took[2] != noted.took[1]
