"""Recorded tasks played as programs get the answers that they get as calls of an agent's own."""

import pytest

from benchmarks.code.parity import RECORDED, Parity, comparable, compare, strict_policies
from benchmarks.code.twice import Part, program, typescript_program
from benchmarks.flow.report import OWN
from benchmarks.flow.traces import Step, Suite, Trace, read_suite, trace_files
from gateway.domain.programs import Language

FEW, FEW_IN_TYPESCRIPT = 6, 3
STEP = Step(
    server="bank",
    tool="send-money",
    arguments={"to": 'a "b"\n'},
    result={},
    of_user=True,
    harmful=False,
)
TRACE = Trace(id="t", is_attack=False, user_task="t", goal="", prompt="", steps=[STEP, STEP, STEP])
ALLOWED = {"verdict": "allow", "code": None}
ASKED = {"verdict": "ask", "code": "approval_required"}
DENIED = {"verdict": "deny", "code": "denied"}


@pytest.fixture(scope="module")
def banking() -> Suite:
    return read_suite("banking", trace_files(OWN)["banking"])


async def test_calls_of_programs_are_answered_as_direct_ones(banking: Suite) -> None:
    found = Parity()
    await compare(found, banking, FEW)
    assert found.failures == []
    assert (found.traces, found.same) == (FEW, found.calls)
    assert found.asked > 0
    assert found.programs > found.traces, "what waits for a person ends its program"


@pytest.mark.full
async def test_programs_go_on_after_a_denial(banking: Suite) -> None:
    found = Parity()
    with strict_policies() as policies:
        await compare(found, banking, FEW, declared=True, policies=policies)
    assert found.failures == []
    assert (found.same, found.asked) == (found.calls, 0)
    assert found.denied > 0
    assert found.programs == found.traces


@pytest.mark.full
async def test_calls_of_programs_in_typescript_are_answered_as_direct_ones(
    banking: Suite,
) -> None:
    found = Parity()
    await compare(found, banking, FEW_IN_TYPESCRIPT, language=Language.TYPESCRIPT)
    assert found.failures == []
    assert (found.traces, found.same) == (FEW_IN_TYPESCRIPT, found.calls)
    assert found.asked > 0
    assert found.programs == found.traces, "what waits for a person is refused, and it goes on"


async def test_denials_are_the_same_in_typescript(banking: Suite) -> None:
    found = Parity()
    with strict_policies() as policies:
        await compare(
            found,
            banking,
            FEW_IN_TYPESCRIPT,
            language=Language.TYPESCRIPT,
            declared=True,
            policies=policies,
        )
    assert found.failures == []
    assert (found.same, found.asked) == (found.calls, 0)
    assert found.denied > 0


@pytest.mark.parametrize("name", RECORDED)
def test_what_is_on_record_is_compared(name: str) -> None:
    assert comparable({name: "one"}) != comparable({name: "another"})


def test_reasons_and_proofs_are_compared_and_words_are_not() -> None:
    record = {
        "reasons": [{"code": "b", "message": "at 12:00"}, {"code": "a", "message": "x"}],
        "destinations": [{"path": "$.to", "proof": "user", "integrity": "trusted", "from": 7}],
    }
    found = comparable(record)
    assert found["reasons"] == ["a", "b"]
    assert found["destinations"] == [("$.to", "user", "trusted")]


def test_calls_are_counted_and_differences_told_without_what_was_sent() -> None:
    found = Parity()
    found.add(TRACE, [ALLOWED, ASKED, DENIED], [ALLOWED, ALLOWED, DENIED])
    assert found.figures == {
        "parity.traces": 1,
        "parity.programs": 0,
        "parity.calls": 3,
        "parity.asked": 1,
        "parity.denied": 1,
        "parity.same": 2,
        "parity.same_percent": 66.667,
    }
    assert found.failures == [
        "parity: t, step 1: ask directly, allow inside; differing: verdict, code"
    ]


def test_a_trace_of_which_a_call_is_missing_counts_as_different() -> None:
    found = Parity()
    found.add(TRACE, [ALLOWED, ALLOWED, ALLOWED], [ALLOWED, ALLOWED])
    assert (found.calls, found.same) == (3, 0)
    assert found.failures == [
        "parity: t: of 3 calls 3 are known directly and 2 inside programs",
    ]


def test_of_many_differences_the_first_are_told() -> None:
    found = Parity(different=[str(number) for number in range(23)])
    assert found.failures[-2:] == ["parity: 19", "parity: 3 more like these"]


def test_without_calls_nothing_is_the_same() -> None:
    assert Parity().figures["parity.same_percent"] == 0.0


def test_what_is_not_on_record_is_not_known() -> None:
    part = Part(client="c", told=[None, "denied"], arrived=[True, False])
    assert part.answered([ALLOWED]) == []
    assert part.answered([ALLOWED, DENIED]) == [
        {**ALLOWED, "told": None, "arrived": True},
        {**DENIED, "told": "denied", "arrived": False},
    ]


def test_a_program_in_typescript_makes_each_call_too() -> None:
    assert (
        typescript_program([STEP, STEP]).splitlines()
        == ['try { await tools.bank.send__money({"to": "a \\"b\\"\\n"}) } catch { }'] * 2
    )


def test_a_program_makes_each_call_whatever_becomes_of_the_others() -> None:
    assert program([STEP]).splitlines() == [
        "import json",
        "import tools",
        "try:",
        '    await tools.bank.send__money(**json.loads(\'{"to": "a \\\\"b\\\\"\\\\n"}\'))',
        "except RuntimeError:",
        "    pass",
    ]
