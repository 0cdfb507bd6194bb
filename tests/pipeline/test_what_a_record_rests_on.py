"""Whatever changes at whatever moment: what an intent says is so when it is written down."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.domain.audit import AuditRecord, LogEntry
from gateway.domain.labels import STRICTEST_DEFAULT
from gateway.domain.premises import Premise
from gateway.domain.tools import Kind, PinStatus, Profile, Target
from gateway.errors import Changed, LimitExceeded
from gateway.pipeline.recording import while_it_changes
from tests.pipeline.house import MAIL, House
from tests.pipeline.test_standing_answers import (
    EMMA,
    PUBLIC,
    TO_EVE,
    TOOLS,
    asks,
    definition,
    stands,
)

Change = Callable[[House], Any]
SEND = Target(server=MAIL, kind=Kind.TOOL, name="send")


async def _raised(house: House) -> None:
    for state in house.runs.all():
        await house.runs.raise_label(state.run.id, STRICTEST_DEFAULT, None)


async def _run_ended(house: House) -> None:
    for state in house.runs.all():
        await house.runs.end(state.run.id)


async def _another_policy(house: House) -> None:
    house.rule.digest += "'"


async def _revoked(house: House) -> None:
    await house.pins.revoke(SEND, Profile.MODERN, by="bob", note="")


async def _approved_anew(house: House) -> None:
    house.now += 1
    await _revoked(house)
    await house.approve(Kind.TOOL, "send")


async def _redefined(house: House) -> None:
    await house.show({**definition("send"), "description": f"Send, {house.now}."})


async def _withdrawn(house: House) -> None:
    for one in house.answers.all():
        await house.answers.end(one.id, "a person ended it")


async def _later(house: House) -> None:
    house.now += 600


CHANGES: list[Change] = [
    _raised, _run_ended, _another_policy, _revoked, _approved_anew, _redefined, _withdrawn, _later,
]  # fmt: skip
MOMENTS = ["put", "call", "list"]


class Witness:
    """Looks at everything as an intent is written, and at whatever goes out."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._append = house.audit.append
        self.intents = 0
        house.audit.append = self.append  # type: ignore[method-assign]

    async def append(self, record: AuditRecord) -> LogEntry:
        if record.kind == "intent":
            self._look(record.fields)
            self.intents += 1
        return await self._append(record)

    def _look(self, said: Mapping[str, Any]) -> None:
        house = self._house
        pin = house.pins.find(SEND, Profile.MODERN)
        assert pin is not None
        assert pin.status is PinStatus.APPROVED
        assert pin.approved is not None
        assert said["pin_digest"] == str(pin.approved.digest)
        assert said["policy_digest"] == house.rule.digest
        run = house.runs.find(said["run"])
        assert run is not None
        assert run.live
        assert said["label_before"] == run.run.label.words
        for place in said["destinations"]:
            if place["by"] == "standing":
                (answer,) = [one for one in house.answers.all() if one.id == place["answer"]]
                assert answer.expires_at > house.now
                assert (pin.approved_at or 0.0) <= answer.given_at


async def a_house() -> House:
    house = House(tools=TOOLS, default=PUBLIC)
    house.gate.people["emma"] = EMMA
    house.rule.says = asks
    await house.approve_all(Profile.MODERN)
    await house.show(*(definition(name) for name in TOOLS))
    for name in TOOLS:
        await house.approve(Kind.TOOL, name)
    await stands(house)
    return house


def disturbed(house: House, changes: Sequence[tuple[str, Change]]) -> None:
    """Have each change happen at the next moment of its kind."""
    left = list(changes)
    put, evaluate = house.ledger.put, house.rule.evaluate

    async def happen(moment: str) -> None:
        if left and left[0][0] == moment:
            await left.pop(0)[1](house)

    async def putting(*given: Any, **_: Any) -> Any:
        await happen("put")
        return await put(*given)

    async def evaluating(question: Mapping[str, Any]) -> Any:
        found = await evaluate(question)
        await happen(question["phase"])
        return found

    house.ledger.put = putting  # type: ignore[method-assign]
    house.rule.evaluate = evaluating  # type: ignore[method-assign]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(MOMENTS), st.sampled_from(CHANGES)), max_size=5))
async def test_what_an_intent_says_is_so_as_it_is_written(
    changes: list[tuple[str, Change]],
) -> None:
    house = await a_house()
    witness = Witness(house)
    disturbed(house, changes)
    for number in range(3):
        await house.handle(house.call("send", {**TO_EVE, "body": str(number)}, who="emma"))
    assert len(house.server.saw) == witness.intents


async def test_undisturbed_everything_goes_out() -> None:
    house = await a_house()
    witness = Witness(house)
    for number in range(3):
        await house.handle(house.call("send", {**TO_EVE, "body": str(number)}, who="emma"))
    assert (len(house.server.saw), witness.intents) == (3, 3)


async def test_a_budget_that_is_used_up_is_told_to_be_while_others_change_much() -> None:
    class Trail:
        intent_id = ""
        failed: frozenset[str] = frozenset()

        def anew(self, failed: frozenset[str]) -> None:
            self.failed = failed

    trail: Any = Trail()

    async def carry() -> None:
        if Premise.BUDGET in trail.failed:
            raise LimitExceeded("the calls that this program was given are used up")
        raise Changed([Premise.BUDGET])

    async def caught_up() -> bool:
        return True

    with pytest.raises(LimitExceeded):
        await while_it_changes(carry, trail, caught_up)
