"""Reading answers: only the agreed shape is an answer."""

from typing import Any

import pytest

from gateway.domain.decisions import Decision, Duty, Obligation, Reason, Verdict
from gateway.errors import PolicyUnavailable
from gateway.policy.answer import read_decision, read_disposition


def read(result: Any) -> Decision:
    return read_decision(result, id_="d_1", policy_digest="sha256:1")


def obliging(**obligation: Any) -> dict[str, Any]:
    return {"verdict": "allow", "reasons": [], "obligations": [obligation]}


def test_a_whole_answer_is_read() -> None:
    answer = {
        "verdict": "ask",
        "reasons": [{"code": "untrusted_run", "message": "look first"}],
        "obligations": [{"duty": "truncate", "bytes": 10}],
    }
    assert read(answer) == Decision(
        id="d_1",
        verdict=Verdict.ASK,
        reasons=(Reason(code="untrusted_run", message="look first"),),
        obligations=(Obligation(duty=Duty.TRUNCATE, detail={"bytes": 10}),),
        policy_digest="sha256:1",
    )


@pytest.mark.parametrize("verdict", ["allow", "ask", "deny"])
def test_reasons_may_be_empty_and_obligations_left_out(verdict: str) -> None:
    decision = read({"verdict": verdict, "reasons": []})
    assert (decision.verdict, decision.reasons, decision.obligations) == (Verdict(verdict), (), ())


@pytest.mark.parametrize(
    "result",
    [
        None,
        True,
        "allow",
        ["allow"],
        {},
        {"verdict": "allow"},
        {"reasons": []},
        {"verdict": "Allow", "reasons": []},
        {"verdict": True, "reasons": []},
        {"verdict": ["allow"], "reasons": []},
        {"verdict": "permit", "reasons": []},
        {"verdict": "allow", "reasons": {}},
        {"verdict": "allow", "reasons": None},
        {"verdict": "allow", "reasons": ["because"]},
        {"verdict": "allow", "reasons": [{"code": "x"}]},
        {"verdict": "allow", "reasons": [{"code": "", "message": "x"}]},
        {"verdict": "allow", "reasons": [{"code": 1, "message": "x"}]},
        {"verdict": "allow", "reasons": [{"code": "x", "message": None}]},
        {"verdict": "allow", "reasons": [{"code": "x", "message": "x", "more": 1}]},
        {"verdict": "allow", "reasons": [], "obligations": None},
        {"verdict": "allow", "reasons": [], "obligations": {}},
        {"verdict": "allow", "reasons": [], "obligations": ["redact"]},
        {"verdict": "allow", "reasons": [], "allow": True},
    ],
)
def test_any_other_shape_is_no_answer(result: Any) -> None:
    with pytest.raises(PolicyUnavailable):
        read(result)


@pytest.mark.parametrize(
    "obligation",
    [
        {"duty": "redact", "paths": ["$.a"]},
        {"duty": "redact", "patterns": ["x"]},
        {"duty": "redact", "paths": ["$.a"], "patterns": ["x"]},
        {"duty": "truncate", "bytes": 1},
        {"duty": "drop_structured"},
        {"duty": "rate_limit", "calls_per_minute": 5},
        {"duty": "require_step_up", "scopes": ["tools:write"]},
        {"duty": "label", "integrity": "untrusted"},
        {"duty": "label", "integrity": "trusted", "confidentiality": "secret"},
    ],
)
def test_every_duty_is_read_with_its_members(obligation: dict[str, Any]) -> None:
    detail = {name: member for name, member in obligation.items() if name != "duty"}
    assert read(obliging(**obligation)).obligations == (
        Obligation(duty=Duty(obligation["duty"]), detail=detail),
    )


@pytest.mark.parametrize(
    "obligation",
    [
        {},
        {"duty": None},
        {"duty": ["redact"]},
        {"duty": "encrypt"},
        {"duty": "redact"},
        {"duty": "redact", "paths": []},
        {"duty": "redact", "paths": "$.a"},
        {"duty": "redact", "paths": [""]},
        {"duty": "redact", "paths": [1]},
        {"duty": "redact", "paths": ["$.a"], "with": "x"},
        {"duty": "truncate"},
        {"duty": "truncate", "bytes": 0},
        {"duty": "truncate", "bytes": -1},
        {"duty": "truncate", "bytes": True},
        {"duty": "truncate", "bytes": 1.5},
        {"duty": "truncate", "bytes": "1"},
        {"duty": "truncate", "bytes": 1, "lines": 1},
        {"duty": "drop_structured", "paths": ["$.a"]},
        {"duty": "rate_limit"},
        {"duty": "rate_limit", "calls_per_minute": 0},
        {"duty": "require_step_up", "scopes": []},
        {"duty": "require_step_up", "scopes": "tools:write"},
        {"duty": "label"},
        {"duty": "label", "integrity": "high"},
        {"duty": "label", "confidentiality": 3},
        {"duty": "label", "confidentiality": ["secret"]},
        {"duty": "label", "integrity": "trusted", "owner": "x"},
    ],
)
def test_an_obligation_that_is_not_wholly_understood_spoils_the_answer(
    obligation: dict[str, Any],
) -> None:
    with pytest.raises(PolicyUnavailable):
        read(obliging(**obligation))


@pytest.mark.parametrize("word", ["approve", "hold", "serve_approved"])
def test_a_disposition_is_one_of_three_words(word: str) -> None:
    assert read_disposition(word) == word


@pytest.mark.parametrize("result", [None, True, "", "APPROVE", "yes", ["approve"], {}])
def test_any_other_disposition_is_hold(result: Any) -> None:
    assert read_disposition(result) == "hold"
