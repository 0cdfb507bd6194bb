"""A program whose call is answered late waits for the answer, and knows of no task."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest

from gateway.domain.calls import Call, Permit, RawAnswer, Reply
from gateway.domain.decisions import Verdict
from gateway.ports.sandbox import Broker, Engine, ToolRefused
from gateway.wire.extensions import TASKS
from tests.builtin.front import Site
from tests.builtin.test_program_calls import CAPABILITIES, Played, run
from tests.pipeline.house import ALICE, result, text
from tests.pipeline.late_house import UPSTREAM, Works, outcomes

PROGRAMMER = replace(ALICE, scopes=ALICE.scopes | {"code:run"}, user_id="u_alice")
META: dict[str, Any] = {CAPABILITIES: {"sampling": {}}}


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.fixture
async def site(played: Played, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    made = await Site(engine=cast("Engine", played), extensions=frozenset({TASKS})).furnish()
    made.house.gate.people["alice"] = PROGRAMMER
    carried = made.aggregate.handle

    async def later(call: Call) -> Reply:
        # Each look is later than half of what its client is told to wait.
        made.house.now += 5
        return await carried(call)

    monkeypatch.setattr(made.aggregate, "handle", later)
    yield made
    await made.aclose()


@pytest.fixture
def server(site: Site) -> Works:
    return Works(site.house)


async def test_it_gets_the_answer_when_that_has_come(
    site: Site, server: Works, played: Played
) -> None:
    def answer(permit: Permit) -> RawAnswer:
        if [method for method, _ in server.saw].count("tasks/get") == 1:
            server.completes({"content": [], "structuredContent": {"found": 1}})
        return server.answer(permit)

    site.house.server.answer = answer
    await run(site, META)
    assert played.said == {"found": 1}
    assert [one["code"] for one in outcomes(site.house) if one["target"] == "search"] == [
        "task_completed"
    ]
    assert {r.fields["origin"] for r in site.house.audit.records if "parent" in r.fields} == {
        "sandbox"
    }


@pytest.mark.parametrize(
    ("status", "more"),
    [
        ("failed", {"error": {"code": -32603, "message": "no disk"}}),
        ("cancelled", {}),
        ("completed", {"result": {**text("no"), "isError": True}}),
    ],
)
async def test_what_has_no_result_is_told_as_a_failure(
    site: Site, server: Works, played: Played, status: str, more: dict[str, Any]
) -> None:
    server.status, server.more = status, more
    await run(site, META)
    assert isinstance(played.said, ToolRefused)
    assert (played.said.code, played.said.reached) == ("failed", True)
    assert UPSTREAM not in str(played.said)


async def test_a_question_of_the_servers_is_for_nobody_and_the_task_is_cancelled(
    site: Site, server: Works, played: Played
) -> None:
    ask = {"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema": {}}}
    server.status, server.more = "input_required", {"inputRequests": {"one": ask}}
    await run(site, META)
    assert played.said.code == "input_required"
    for _ in range(20):
        await asyncio.sleep(0.01)
    assert server.saw[-1] == ("tasks/cancel", {**server.saw[-1][1], "taskId": UPSTREAM})


async def test_a_program_whose_time_is_over_has_its_task_cancelled(
    site: Site, server: Works, played: Played
) -> None:
    async def impatient(broker: Broker) -> Any:
        async with asyncio.timeout(60) as patience:
            asked = asyncio.create_task(broker.call("mail", "search", {}, seq=1))
            while not server.saw:
                await asyncio.sleep(0.01)
            patience.reschedule(asyncio.get_running_loop().time() + 0.1)
            return await asked

    async def play(broker: Broker) -> Any:
        try:
            return await impatient(broker)
        except TimeoutError:
            return "over"

    played.play = play
    await run(site, META)
    assert played.said == "over"
    async with asyncio.timeout(60):
        while server.saw[-1][0] != "tasks/cancel":
            await asyncio.sleep(0.01)


async def test_what_is_withheld_is_told_with_its_reason(
    site: Site, server: Works, played: Played
) -> None:
    site.house.rule.says = lambda q: (
        Verdict.DENY
        if q["phase"] == "result" and q["target"]["name"] == "search"
        else Verdict.ALLOW
    )
    server.completes(text("found"))
    await run(site, META)
    assert played.said.code == "denied"
    assert "found" not in str(played.said)


async def test_a_task_of_the_older_revisions_is_no_result_either(
    site: Site, played: Played
) -> None:
    begun = {"taskId": UPSTREAM, "status": "working", "ttl": 60_000}
    site.house.server.answer = lambda permit: result(permit, {"task": begun})
    await run(site, META)
    assert isinstance(played.said, ToolRefused)
    assert played.said.code == "upstream_failed"
    assert UPSTREAM not in str(played.said)


async def test_where_no_server_may_answer_late_none_hears_of_it(played: Played) -> None:
    site = await Site(engine=cast("Engine", played)).furnish()
    site.house.gate.people["alice"] = PROGRAMMER
    site.house.server.answer = lambda permit: result(permit, text("hello"))
    await run(site, META)
    (permit,) = site.house.server.saw
    assert permit.call.message.params["_meta"][CAPABILITIES] == {}
    await site.aclose()
