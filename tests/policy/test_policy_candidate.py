"""A candidate is asked beside the policy in force, and nothing depends on it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.decisions import Decision, Duty, Obligation, Reason, Verdict
from gateway.errors import ConfigError, PolicyUnavailable
from gateway.policy.candidate import MOST_FAILURES, Shadowed
from gateway.policy.reload import load
from gateway.policy.settings import PolicyEvent, PolicySettings
from tests.policy.policy_questions import ONE_RULE

WATCHING_S = 0.5
"""Until a watcher of files has begun."""
GOOD = {"target": {"name": "good"}}


def decided(verdict: Verdict, *codes: str, obligations: Sequence[Obligation] = ()) -> Decision:
    return Decision(
        id="d_1",
        verdict=verdict,
        reasons=tuple(Reason(code=code, message="told to nobody") for code in codes),
        obligations=tuple(obligations),
        policy_digest="sha256:of",
    )


@dataclass
class Engine:
    """Answers as it is told, and counts how often it is asked."""

    says: Decision | Exception | None = None
    digest: str = "sha256:of"
    asked: list[Any] = field(default_factory=list)

    def holds(self, digest: str) -> bool:
        return digest == self.digest

    async def evaluate(self, question: Mapping[str, Any]) -> Decision:
        self.asked.append(question)
        if self.says is None:
            await asyncio.sleep(60)
        if isinstance(self.says, Exception):
            raise self.says
        assert self.says is not None
        return self.says

    async def evaluate_many(self, questions: Sequence[Mapping[str, Any]]) -> Sequence[Decision]:
        return [await self.evaluate(question) for question in questions]

    async def judge_pin(self, question: Mapping[str, Any]) -> str:
        self.asked.append(question)
        return "approve"

    async def pin_approvals(self, question: Mapping[str, Any]) -> int:
        self.asked.append(question)
        return 2

    async def self_approval(self, question: Mapping[str, Any]) -> bool:
        self.asked.append(question)
        return True


def shadowed(live: Engine, candidate: Engine, told: list[tuple[str, str]]) -> Shadowed:
    return Shadowed(live, candidate, deadline_s=0.05, on_answer=lambda *answer: told.append(answer))


async def test_its_answer_stands_beside_the_one_that_counts() -> None:
    told: list[tuple[str, str]] = []
    live = Engine(decided(Verdict.ALLOW))
    duty = Obligation(duty=Duty.TRUNCATE, detail={"bytes": 9})
    candidate = Engine(decided(Verdict.ASK, "why", obligations=[duty]), digest="sha256:new")
    decision = await shadowed(live, candidate, told).evaluate(GOOD)
    assert (decision.verdict, decision.policy_digest) == (Verdict.ALLOW, "sha256:of")
    assert decision.candidate == {
        "policy_digest": "sha256:of",
        "verdict": "ask",
        "reasons": ["why"],
        "obligations": [{"duty": "truncate", "bytes": 9}],
    }
    assert told == [("ask", "allow")]


@pytest.mark.parametrize(
    ("candidate", "error"),
    [
        (Engine(PolicyUnavailable("no", detail="out of fuel")), "out of fuel"),
        (Engine(ConfigError("it cannot be run")), "it cannot be run"),
        (Engine(None), "it gave no answer in time"),
    ],
    ids=["fails", "breaks", "hangs"],
)
async def test_one_that_fails_or_hangs_is_an_error_on_record(candidate: Engine, error: str) -> None:
    told: list[tuple[str, str]] = []
    live = Engine(decided(Verdict.ALLOW))
    decision = await shadowed(live, candidate, told).evaluate(GOOD)
    assert decision.verdict is Verdict.ALLOW
    assert decision.candidate == {"policy_digest": "sha256:of", "error": error}
    assert told == [("error", "allow")]


async def test_one_that_could_not_be_loaded_is_not_asked() -> None:
    candidate = Engine(decided(Verdict.DENY), digest="")
    decision = await shadowed(Engine(decided(Verdict.ALLOW)), candidate, []).evaluate(GOOD)
    assert decision.candidate == {"error": "no candidate could be loaded"}
    assert candidate.asked == []


async def test_one_that_fails_again_and_again_is_left_alone() -> None:
    candidate = Engine(PolicyUnavailable("no"))
    engine = shadowed(Engine(decided(Verdict.ALLOW)), candidate, [])
    for _ in range(MOST_FAILURES + 2):
        await engine.evaluate(GOOD)
    decision = await engine.evaluate(GOOD)
    assert len(candidate.asked) == MOST_FAILURES
    assert "rests" in (decision.candidate or {})["error"]


async def test_failures_between_answers_are_no_row_of_failures() -> None:
    candidate = Engine()
    engine = shadowed(Engine(decided(Verdict.ALLOW)), candidate, [])
    for number in range(3 * MOST_FAILURES):
        answer = decided(Verdict.DENY, "d")
        candidate.says = answer if number % MOST_FAILURES == 0 else PolicyUnavailable("no")
        await engine.evaluate(GOOD)
    assert len(candidate.asked) == 3 * MOST_FAILURES


async def test_where_the_policy_in_force_has_no_answer_there_is_none() -> None:
    candidate = Engine(decided(Verdict.ALLOW))
    live = Engine(PolicyUnavailable("no"))
    with pytest.raises(PolicyUnavailable):
        await shadowed(live, candidate, []).evaluate(GOOD)


async def test_lists_pins_and_people_are_the_policy_in_forces_alone() -> None:
    live, candidate = Engine(decided(Verdict.ALLOW)), Engine(decided(Verdict.DENY))
    engine = shadowed(live, candidate, [])
    assert [one.candidate for one in await engine.evaluate_many([GOOD, GOOD])] == [None, None]
    assert await engine.judge_pin({}) == "approve"
    assert await engine.pin_approvals({}) == 2
    assert await engine.self_approval({}) is True
    assert (candidate.asked, engine.digest) == ([], "sha256:of")


async def test_one_that_cannot_be_used_is_taken_up_once_it_can(folder: Path) -> None:
    events: list[PolicyEvent] = []
    (folder / "decision.rego").write_text("package douane\n\nnonsense")
    settings = PolicySettings(path=str(folder), poll=0.05)
    holder = await load(settings, {}, on_change=events.append, required=False)
    try:
        assert (holder.digest, [event.ok for event in events]) == ("", [False])
        await asyncio.sleep(WATCHING_S)
        (folder / "decision.rego").write_text(ONE_RULE)
        for _ in range(400):
            if holder.digest:
                break
            await asyncio.sleep(0.05)
        assert (await holder.evaluate(GOOD)).verdict is Verdict.ALLOW
    finally:
        await holder.close()


async def test_one_whose_folder_comes_later_is_taken_up(folder: Path) -> None:
    later = folder.parent / "later"
    settings = PolicySettings(path=str(later / "policy"), poll=0.05)
    holder = await load(settings, {}, on_change=lambda _: None, required=False)
    try:
        assert holder.digest == ""
        await asyncio.sleep(WATCHING_S)
        later.mkdir()
        folder.rename(later / "policy")
        for _ in range(400):
            if holder.digest:
                break
            await asyncio.sleep(0.05)
        assert holder.digest
    finally:
        await holder.close()
