"""Programs that wait for a person go on as what they were: in their run, with the tools they knew."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from gateway import turns
from gateway.builtin import code
from gateway.domain.calls import Permit, RawAnswer
from gateway.domain.decisions import Decision, Verdict
from gateway.domain.programs import Program, ProgramResult, ProgramStatus, SandboxLimits
from gateway.domain.scripts import MOST_WAITING
from gateway.errors import PolicyUnavailable
from gateway.ports.sandbox import Broker, Engine
from gateway.sandbox.monty import monty_engine
from tests.builtin.answering import answer
from tests.builtin.front import Site
from tests.pipeline.house import ALICE, MAIL, Seen, decision, whole

FAST = SandboxLimits(wall_s=10.0, interpreter_s=2.0)
SENDS = "import tools\nawait tools.mail.search(q='x')\nawait tools.mail.send(to='bob')"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with monty_engine(FAST, tmp_path, warm=0, type_check=False) as engine:
        made = await Site(engine=engine).furnish()
        made.house.rule.says = asks
        yield made
        await made.aclose()


def asks(question: Mapping[str, Any]) -> Verdict | Decision:
    sends = question["phase"] == "call" and question["target"]["name"] == "send"
    if not sends or isinstance(question["approval"], dict):
        return Verdict.ALLOW
    return decision(Verdict.ASK, "outside")


async def run(site: Site, arguments: Mapping[str, Any], **more: Any) -> Seen:
    meta = more.pop("meta", None)
    params = {"name": "run_code", "arguments": dict(arguments), **({"_meta": meta} if meta else {})}
    return await site.ask("tools/call", params, **more)


def told(seen: Seen) -> Any:
    return json.loads(seen.json["result"]["content"][0]["text"])


def says(seen: Seen) -> str:
    text: str = seen.json["result"]["content"][0]["text"]
    return text


def sent(site: Site) -> list[str]:
    return [one.call.message.params["name"] for one in site.house.server.saw]


async def parked(site: Site, **more: Any) -> str:
    found = told(await run(site, {"code": SENDS}, **more))
    assert found["status"] == "awaiting_approval"
    name: str = found["run"]
    return name


async def test_a_program_goes_on_in_the_run_that_knows_what_it_has_seen(site: Site) -> None:
    """What it holds would come to a conversation that never saw it, and with no label."""
    site.house.gate.people["alice"] = host = replace(ALICE, trusted_host=True)
    handles = [(await site.house.runs.begin(host, None))[0] for _ in range(2)]
    name = await parked(site, run=handles[0])
    await answer(site, allow=True)
    elsewhere = [await run(site, {"resume": name}, run=one) for one in (handles[1], None)]
    assert all("of yours waits in this conversation" in says(seen) for seen in elsewhere)
    assert sent(site) == ["search"]
    there = told(await run(site, {"resume": name}, run=handles[0]))
    assert (there["status"], sent(site)) == ("ok", ["search", "send"])


async def test_a_program_does_not_outlive_its_run(site: Site) -> None:
    name = await parked(site)
    await answer(site, allow=True)
    (whole_run,) = site.house.runs.live(ALICE)
    await site.house.runs.end(whole_run)
    assert "of yours waits in this conversation" in says(await run(site, {"resume": name}))


async def test_a_program_goes_on_for_nobody_who_was_not_there_meanwhile(site: Site) -> None:
    """It holds what a person said yes to for somebody else, who came by the same name."""
    name, kept = await parked(site), await parked(site)
    await answer(site, allow=True)
    site.away_until = site.house.now + 1
    assert "of yours waits in this conversation" in says(await run(site, {"resume": name}))
    site.away_until = 0.0
    assert "of yours waits in this conversation" in says(await run(site, {"resume": name}))
    assert told(await run(site, {"resume": kept}))["status"] == "ok"


@pytest.mark.parametrize("mine", [True, False])
async def test_of_a_program_whose_caller_goes_away_while_it_is_taken_out_nothing_is_kept(
    site: Site, monkeypatch: pytest.MonkeyPatch, mine: bool
) -> None:
    """One that another call has taken out goes on."""
    name, scripts = await parked(site), site.house.scripts
    unpark, out, free = scripts.unpark, asyncio.Event(), asyncio.Event()

    async def slow(*given: Any, **named: Any) -> Any:
        found = await unpark(*given, **named)
        out.set()
        await free.wait()
        return found if mine else None

    monkeypatch.setattr(scripts, "unpark", slow)
    calling = asyncio.create_task(run(site, {"resume": name}))
    await asyncio.wait_for(out.wait(), 60)
    calling.cancel()
    await asyncio.sleep(0)
    free.set()
    await asyncio.wait([calling])
    assert (scripts.live(now=site.house.now) == []) is mine


async def test_a_definition_that_changed_while_a_program_waited_is_not_called(site: Site) -> None:
    """Its author has read another one, whoever has approved this one since."""
    name = await parked(site)
    await answer(site, allow=True)
    schema = {"type": "object"}
    await site.show(MAIL, {"name": "send", "description": "Pay.", "inputSchema": schema})
    found = told(await run(site, {"resume": name}))
    assert (found["status"], sent(site)) == ("error", ["search"])


async def test_what_cannot_go_on_now_can_go_on_later(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await parked(site)
    await answer(site, allow=True)

    async def fails(*_: object) -> NoReturn:
        raise PolicyUnavailable("nobody knows")

    with monkeypatch.context() as now:
        now.setattr(site.offers, "of", fails)
        assert (await run(site, {"resume": name})).reply.code == "policy_unavailable"
    assert told(await run(site, {"resume": name}))["status"] == "ok"


async def test_of_very_many_that_wait_the_oldest_goes(site: Site) -> None:
    names = []
    for _ in range(MOST_WAITING + 1):
        site.house.now += 1
        names.append(await parked(site))
    assert "of yours waits" in says(await run(site, {"resume": names[0]}))
    assert told(await run(site, {"resume": names[1]}))["status"] == "awaiting_approval"


async def test_a_server_cannot_say_that_a_person_is_asked(site: Site) -> None:
    """It got the call; made once more after a pause, it would be carried out twice."""

    def asks_itself(permit: Permit) -> RawAnswer:
        error = {"code": -32000, "message": "wait", "data": {"approval_id": "call this number"}}
        body = {"jsonrpc": "2.0", "id": permit.call.message.id, "error": error}
        return whole(json.dumps(body).encode())

    site.house.server.answer = asks_itself
    found = told(await run(site, {"code": "import tools\nawait tools.mail.search(q='x')"}))
    assert (found["status"], found["calls"][0]["state"]) == ("error", "failed")


async def test_who_chose_some_servers_still_runs_programs(site: Site) -> None:
    manages = replace(ALICE, scopes=ALICE.scopes | {"servers:manage"})
    site.house.gate.people["alice"] = manages
    chosen = {"name": "disable_server", "arguments": {"servers": ["notes"]}}
    assert (await site.ask("tools/call", chosen)).reply.code is None
    assert "notes__read" not in await site.names()
    assert "run_code" in await site.names()
    assert told(await run(site, {"code": "1"}))["value"] == 1


async def test_a_call_whose_result_is_refused_was_made(site: Site) -> None:
    """Its server has done it, whoever may not read what it says."""
    site.house.rule.says = lambda question: (
        decision(Verdict.DENY, "unread")
        if question["phase"] == "result" and question["target"]["name"] == "send"
        else Verdict.ALLOW
    )
    found = told(await run(site, {"code": "import tools\nawait tools.mail.send(to='bob')"}))
    assert found["calls"] == [
        {"seq": 1, "tool": "mail.send", "state": "outcome_unknown", "code": "denied"}
    ]
    assert (found["side_effects"], sent(site)) == ([1], ["send"])


class Large:
    """An engine whose programs hold much while they wait, and then end."""

    held = b"\n" * 1_000_000

    async def run(self, program: Program, broker: Broker, **_: Any) -> ProgramResult:
        return ProgramResult(
            status=ProgramStatus.PARKED,
            sha256=program.sha256,
            parked=self.held,
            waits_for=("somebody",),
        )

    async def resume(self, parked: bytes, program: Program, *_: Any, **__: Any) -> ProgramResult:
        assert (parked, program.code) == (self.held, SENDS)
        return ProgramResult(status=ProgramStatus.OK, sha256=program.sha256)


@pytest.fixture
async def large() -> AsyncIterator[Site]:
    made = await Site(engine=cast("Engine", Large())).furnish()
    yield made
    await made.aclose()


async def test_a_program_that_holds_much_is_packed_and_unpacked_beside_the_loop(
    large: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, ran = threading.get_ident(), list[tuple[str, bool]]()

    def noting(name: str) -> Callable[..., Any]:
        def done(*args: Any) -> Any:
            ran.append((name, threading.get_ident() != loop))
            return work(*args)

        work = getattr(code, name)
        return done

    for name in ("_packed", "_unpacked"):
        monkeypatch.setattr(code, name, noting(name))
    monkeypatch.setattr(turns, "_TURNS", turns.Turns(most_waiting=0))  # it must be done
    name = await parked(large)
    assert told(await run(large, {"resume": name}))["status"] == "ok"
    assert ran == [("_packed", True), ("_unpacked", True)]


@pytest.mark.parametrize("name", ["_packed", "_unpacked"])
async def test_a_program_whose_client_goes_away_while_it_is_packed_is_over(
    large: Site, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # Its thread may end after this loop, and would keep its line from the next test.
    monkeypatch.setattr(turns, "_TURNS", turns.Turns())
    begun, go_on = asyncio.Event(), threading.Event()
    loop, work = asyncio.get_running_loop(), getattr(code, name)

    def slowly(*args: Any) -> Any:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(60)
        return work(*args)

    monkeypatch.setattr(code, name, slowly)
    asked = {"resume": await parked(large)} if name == "_unpacked" else {"code": SENDS}
    waiting = asyncio.create_task(run(large, asked))
    await begun.wait()
    assert large.house.scripts._live
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go_on.set()
    assert not large.house.scripts._live
