"""What a late call proves is told of the run that made it, and not of whichever asks for its answer."""

from typing import Any

import pytest

from gateway.domain.flow import Source
from gateway.domain.labels import BOTTOM, Effect, Label, ToolRule
from gateway.wire.extensions import TASKS
from tests.pipeline.house import ALICE, PRIVATE, TRUSTED, UNHINTED, House, result, text
from tests.pipeline.late_house import ASKS, META, Works, about, begin, look

EVIL = "evil@x.example"
READ = Source(server="mail", tool="search", record="r1", label=PRIVATE)
ORDERS = {"content": [], "structuredContent": {"orders": [{"order_id": "W2378"}]}}


async def built(late: Label = PRIVATE) -> tuple[House, Works]:
    """Return a house with a tool whose answers, which may be late, are labelled so."""
    search = ToolRule(effect=Effect.READ, result=late)
    send = ToolRule(effect=Effect.EGRESS, destination=("to",))
    house = House(tools={"search": search, "send": send}, extensions=frozenset({TASKS}))
    await house.approve_all()
    return house, Works(house)


async def is_led(house: House) -> None:
    """Let the run that there is have read what an outsider wrote."""
    run = await house.runs.of(ALICE, UNHINTED)
    await house.runs.raise_label(run.id, PRIVATE, READ)


async def ends(house: House) -> None:
    """End the run that there is; the next one has read nothing."""
    await house.runs.end((await house.runs.of(ALICE, UNHINTED)).id)
    assert (await house.runs.of(ALICE, UNHINTED)).label == BOTTOM


async def placed(house: House, to: str) -> dict[str, Any]:
    """Return what policy is told of a message to somebody, from a run that may be led by then."""
    await is_led(house)
    house.server.answer = lambda permit: result(permit, text("sent"))
    await house.handle(house.call("send", {"to": to}))
    asked = [q for q in house.rule.asked if q["phase"] == "call" and q["target"]["name"] == "send"]
    (found,) = asked[-1]["flow"]["destinations"]
    return dict(found)


async def test_what_a_led_call_was_made_with_is_no_word_of_the_users_in_a_later_run() -> None:
    house, server = await built()
    await is_led(house)
    handle = await begin(house, who=EVIL)
    await ends(house)
    server.completes(text("nobody is found"))
    assert (await look(house, handle))["status"] == "completed"
    assert (await placed(house, EVIL))["proof"] == "none"


async def test_nor_is_it_in_its_own_run_whoever_lowers_that_meanwhile() -> None:
    house, server = await built()
    await is_led(house)
    handle = await begin(house, who=EVIL)
    run = await house.runs.of(ALICE, UNHINTED)
    look_at = await house.runs.look_at(run.id)
    assert await house.runs.lower_label(run.id, run.label, BOTTOM, look=look_at)
    server.completes(text("nobody is found"))
    await look(house, handle)
    assert (await placed(house, EVIL))["proof"] == "none"


@pytest.mark.parametrize("ended", [False, True])
async def test_what_a_clean_call_was_made_with_is_the_users_in_its_own_run_alone(
    ended: bool,
) -> None:
    house, server = await built()
    handle = await begin(house, who="kim@c.example")
    if ended:
        await ends(house)
    else:
        await is_led(house)
    server.completes(text("nobody is found"))
    await look(house, handle)
    assert (await placed(house, "kim@c.example"))["proof"] == ("none" if ended else "task")


@pytest.mark.parametrize("led", [False, True])
async def test_what_is_given_out_late_was_looked_up_where_nobody_can_have_led_the_call(
    led: bool,
) -> None:
    house, server = await built()
    if led:
        await is_led(house)
    handle = await begin(house)
    await ends(house)
    server.completes(ORDERS)
    await look(house, handle)
    origin = (await placed(house, "W2378"))["from"]
    assert (origin["minted"], origin["clean"]) == (True, not led)


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("remembered", [False, True])
async def test_nor_was_it_once_the_run_that_made_the_call_may_have_written_it(
    *, ended: bool, remembered: bool
) -> None:
    """Whichever run asks for it, and also after a start of ours, which the call outlives."""
    house, server = await built()
    handle = await begin(house)
    await is_led(house)
    house.server.answer = lambda permit: result(permit, text("sent"))
    await house.handle(house.call("send", {"to": "W2378"}))
    house.server.answer = server.answer
    if not remembered:
        house.memory._runs._of.clear()
    if ended:
        await ends(house)
    server.completes(ORDERS)
    await look(house, handle)
    origin = (await placed(house, "W2378"))["from"]
    assert origin["clean"] is False


async def answered(house: House, server: Works, handle: str, address: str) -> None:
    """Answer the question that a task asks."""
    server.status, server.more = "input_required", {"inputRequests": {"who": ASKS}}
    await look(house, handle)
    answer = {"who": {"action": "accept", "content": {"who": address}}}
    await about(house, "tasks/update", handle, inputResponses=answer)
    assert [method for method, _ in server.saw].count("tasks/update") == 1


async def test_what_a_led_run_answers_a_tasks_question_with_leads_the_call() -> None:
    house, server = await built()
    handle = await begin(house)
    await is_led(house)
    await answered(house, server, handle, EVIL)
    await ends(house)
    server.completes(ORDERS)
    await look(house, handle)
    assert (await placed(house, "W2378"))["from"]["clean"] is False


async def test_what_a_led_run_answered_proves_nothing_when_the_late_answer_repeats_it() -> None:
    house, server = await built(TRUSTED)
    handle = await begin(house)
    await is_led(house)
    await answered(house, server, handle, EVIL)
    server.completes(text(f"Found {EVIL}, as you said."))
    await look(house, handle)
    assert (await placed(house, EVIL))["proof"] == "none"


async def test_nor_what_it_answered_before_the_task_began() -> None:
    house, server = await built(TRUSTED)
    await is_led(house)
    needed = {"resultType": "input_required", "inputRequests": {"who": ASKS}}
    house.server.answer = lambda permit: result(permit, needed)
    await house.handle(house.call(_meta=META))
    house.server.answer = server.answer
    answer = {"who": {"action": "accept", "content": {"who": EVIL}}}
    seen = await house.handle(house.call(_meta=META, inputResponses=answer))
    server.completes(text(f"Found {EVIL}, as you said."))
    await look(house, seen.json["result"]["taskId"])
    assert (await placed(house, EVIL))["proof"] == "none"
