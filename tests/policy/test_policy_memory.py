"""What the engine in this process holds: instances that failed or grew, and decisions."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from gateway.domain.bounded import ENTRY
from gateway.errors import PolicyUnavailable
from gateway.policy import instance, wasm
from gateway.policy.opa import Opa
from gateway.policy.reads import Reads
from gateway.policy.wasm import WasmEngine
from tests.policy.test_policy_wasm import deciding, engine_of

HUNGRY = deciding(
    '{"verdict": "allow", "reasons": []} if count(numbers.range(1, input.arguments.n)) > 0'
)
WORDY = deciding('{"verdict": "deny", "reasons": [{"code": "x", "message": input.arguments.text}]}')


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nothing collects cycles meanwhile."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def held(engine: WasmEngine) -> "list[weakref.ref[object]]":
    assert engine._here.instance is not None
    return [weakref.ref(engine._here.instance), weakref.ref(engine._here.instance._store)]


@pytest.mark.usefixtures("uncollected")
def test_an_instance_that_failed_is_freed_at_once(opa: Opa):
    engine = engine_of(opa, HUNGRY, fuel=2**60)
    engine.decide({"arguments": {"n": 3}})
    seated = held(engine)
    with pytest.raises(PolicyUnavailable) as caught:
        engine.decide({"arguments": {"n": 3_000_000}})
    # Even while somebody still looks at what was raised.
    assert [each() for each in seated] == [None, None]
    assert caught.value.__context__ is None
    assert engine.decide({"arguments": {"n": 3}}).verdict == "allow"


@pytest.mark.usefixtures("uncollected")
def test_an_instance_that_grew_large_is_freed_once_it_has_answered(opa: Opa, monkeypatch):
    engine = engine_of(opa, HUNGRY, fuel=2**60)
    engine.decide({"arguments": {"n": 3}})
    seated = held(engine)
    engine.decide({"arguments": {"n": 1_000}})
    assert seated[0]() is not None
    monkeypatch.setattr(instance, "_LARGE", 1 << 20)
    assert engine.decide({"arguments": {"n": 100_000}}).verdict == "allow"
    assert [each() for each in seated] == [None, None]


def test_an_instance_that_cannot_be_made_is_no_answer(opa: Opa, monkeypatch):
    engine = engine_of(opa, HUNGRY)
    engine._here.let_go()
    monkeypatch.setattr(instance, "MEMORY_BYTES", 1)
    with pytest.raises(PolicyUnavailable):
        engine.decide({"arguments": {"n": 3}})
    monkeypatch.undo()
    assert engine.decide({"arguments": {"n": 3}}).verdict == "allow"


def test_decisions_are_remembered_by_digests_and_within_their_bytes(opa: Opa, monkeypatch):
    monkeypatch.setattr(wasm, "_OCTETS", 4 * (ENTRY + 50_000))
    engine = engine_of(opa, WORDY)
    engine._reads = Reads(paths=(("arguments",),))
    for number in range(20):
        engine.decide({"arguments": {"text": str(number) * 10_000}})
    assert 1 <= len(engine._answers) <= 5
    assert engine._answers.octets <= 4 * (ENTRY + 50_000)
    assert {len(key) for key in engine._answers} == {32}
