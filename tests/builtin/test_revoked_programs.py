"""A program that somebody ends: it stops at once, wherever it is, and never goes on."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.calls import Permit, RawAnswer
from gateway.domain.decisions import Decision, Verdict
from gateway.domain.programs import SandboxLimits
from gateway.sandbox.monty import monty_engine
from tests.builtin.answering import answer
from tests.builtin.front import Site, speaks
from tests.pipeline.house import Seen, decision

FAST = SandboxLimits(wall_s=20.0, interpreter_s=5.0)


class Slow:
    """A server that is told when to answer, and says when it was reached."""

    def __init__(self, site: Site) -> None:
        self.reached = asyncio.Event()
        server = site.house.server
        forward = server.forward

        async def waits(permit: Permit) -> RawAnswer:
            if permit.call.message.method == "tools/call":
                self.reached.set()
                await asyncio.Event().wait()
            return await forward(permit)

        server.forward = waits  # type: ignore[method-assign]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with monty_engine(FAST, tmp_path, warm=0, type_check=False) as engine:
        made = await Site(engine=engine).furnish()
        made.house.server.answer = speaks()
        yield made
        await made.aclose()


async def run(site: Site, **arguments: Any) -> Seen:
    return await site.ask("tools/call", {"name": "run_code", "arguments": arguments})


async def revoked(site: Site) -> None:
    (script,) = site.house.scripts.live(now=site.house.now)
    assert await site.house.scripts.end(script.id)


def ended(seen: Seen) -> list[str]:
    refusal = seen.json["result"]["_meta"]["douane/refusal"]
    return [refusal["code"], *(one["code"] for one in refusal["reasons"])]


async def under_way(slow: Slow, running: "asyncio.Task[Seen]") -> None:
    """Return once the program's call is at its server; one that has ended by then tells how."""
    reached = asyncio.create_task(slow.reached.wait())
    await asyncio.wait({reached, running}, return_when=asyncio.FIRST_COMPLETED, timeout=60)
    assert reached.done(), running.result().json if running.done() else "nothing came of it"


async def test_one_that_runs_is_stopped_and_what_it_has_under_way_is_cut_off(site: Site) -> None:
    slow = Slow(site)
    running = asyncio.create_task(run(site, code="import tools\nawait tools.mail.search(q='x')"))
    await under_way(slow, running)
    await revoked(site)
    async with asyncio.timeout(60):
        assert ended(await running) == ["denied", "script_ended"]
    inner = [one.fields for one in site.house.audit.records if one.fields.get("target") == "search"]
    assert inner[-1]["code"] == "client_gone"


async def test_one_that_only_computes_is_stopped(site: Site) -> None:
    running = asyncio.create_task(run(site, code="while True:\n    pass"))
    while not site.house.scripts.live(now=site.house.now):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    await revoked(site)
    async with asyncio.timeout(60):
        assert ended(await running) == ["denied", "script_ended"]


async def test_one_that_waits_for_a_person_goes_on_no_more(site: Site) -> None:
    def asks(question: Mapping[str, Any]) -> Verdict | Decision:
        sends = question["phase"] == "call" and question["target"]["name"] == "send"
        if not sends or isinstance(question["approval"], dict):
            return Verdict.ALLOW
        return decision(Verdict.ASK, "outside")

    site.house.rule.says = asks
    seen = await run(site, code="import tools\nawait tools.mail.send(to='bob')")
    name = json.loads(seen.json["result"]["content"][0]["text"])["run"]
    await answer(site, allow=True)
    await revoked(site)
    resumed = await run(site, resume=name)
    assert "of yours waits in this conversation" in resumed.json["result"]["content"][0]["text"]
    assert site.house.server.saw == []


async def test_the_next_program_is_not_concerned(site: Site) -> None:
    slow = Slow(site)
    running = asyncio.create_task(run(site, code="import tools\nawait tools.mail.search(q='x')"))
    await under_way(slow, running)
    await revoked(site)
    await running
    found = json.loads((await run(site, code="1 + 1")).json["result"]["content"][0]["text"])
    assert (found["status"], found["value"]) == ("ok", 2)
