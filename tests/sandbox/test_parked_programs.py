"""A program that waits for a person goes on where it stopped, in whichever process."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway import turns
from gateway.domain.programs import CallState, ProgramResult, ProgramStatus, SandboxLimits
from gateway.errors import RateLimited
from gateway.ports.sandbox import NeedsApproval, ToolRefused
from gateway.sandbox import parking
from gateway.sandbox.monty import MontyEngine, monty_engine
from gateway.sandbox.parking import ParkedRun
from tests.sandbox.brokers import TOOLS, Scripted, program, unchanged

ROOMY = SandboxLimits(wall_s=60.0, interpreter_s=60.0)
CODE = """print("before")
local = {"rows": [1, 2]}
made = await asyncio.gather(
    git.create_issue(title="ask"), git.list(), git.create_issue(title="ask too")
)
print("after")
(len(local["rows"]), made)"""


class Person:
    """Has not answered yet, or said yes to some titles."""

    def __init__(self, *yes: str) -> None:
        self._yes = yes

    async def __call__(self, tool: str, arguments: Mapping[str, Any], seq: int) -> Any:
        title = {"create_issue": arguments.get("title"), "read": "ask"}.get(tool)
        if title is not None and title not in self._yes:
            raise NeedsApproval(f"question about {title}")
        return {"number": seq}


async def parked(engine: MontyEngine, code: str = CODE) -> ProgramResult:
    return await engine.run(program(code), Scripted(Person()), redact=unchanged)


@pytest.fixture
async def roomy(tmp_path: Path) -> AsyncIterator[MontyEngine]:
    """Whose programs have the time for much, also on a machine that has other work."""
    async with monty_engine(ROOMY, tmp_path, warm=0, type_check=False) as running:
        yield running


def encoded(run: ParkedRun) -> bytes:
    found = run.encoded(SandboxLimits().parked_bytes)
    assert found is not None
    return found


def many(calls: int) -> str:
    """Return a program of which as many calls wait, each with nearly as much as a call may have."""
    one = "logs.read(v=v)"
    return f"v: list = [1] * 99_000\nlen(await asyncio.gather({', '.join([one] * calls)}))"


async def test_a_program_waits_when_nothing_else_can_go_on(engine: MontyEngine) -> None:
    broker = Scripted(Person())
    result = await engine.run(program(CODE), broker, redact=unchanged)
    assert result.status is ProgramStatus.PARKED
    assert result.waits_for == ("question about ask", "question about ask too")
    assert result.console == "before\n"
    assert [call.state for call in result.calls] == [
        CallState.WAITING,
        CallState.DONE,
        CallState.WAITING,
    ]
    assert result.side_effects == ()
    assert "parked" not in repr(result).replace("awaiting", "")


async def test_it_goes_on_in_another_process_once_a_person_has_answered(
    engine: MontyEngine, tmp_path: Path
) -> None:
    waiting = (await parked(engine)).parked
    broker = Scripted(Person("ask", "ask too"))
    async with monty_engine(SandboxLimits(), tmp_path, warm=1) as other:
        result = await other.resume(waiting, program(CODE), broker, refused={}, redact=unchanged)
    assert (result.status, result.value) == (
        ProgramStatus.OK,
        [2, [{"number": 1}, {"number": 2}, {"number": 3}]],
    )
    assert result.console == "before\nafter\n"
    assert sorted((seq, arguments["title"]) for seq, _, arguments in broker.made) == [
        (1, "ask"),
        (3, "ask too"),
    ]
    assert [call.seq for call in result.side_effects] == [1, 3]


async def test_it_waits_again_for_what_is_not_answered_yet(engine: MontyEngine) -> None:
    waiting = (await parked(engine)).parked
    again = await engine.resume(
        waiting, program(CODE), Scripted(Person("ask")), refused={}, redact=unchanged
    )
    assert (again.status, again.waits_for) == (ProgramStatus.PARKED, ("question about ask too",))
    broker = Scripted(Person("ask too"))
    result = await engine.resume(again.parked, program(CODE), broker, refused={}, redact=unchanged)
    assert result.status is ProgramStatus.OK
    assert [made[0] for made in broker.made] == [3]


async def test_a_no_is_an_exception_in_the_program(engine: MontyEngine) -> None:
    code = 'try:\n    await git.create_issue(title="ask")\nexcept RuntimeError as e:\n    said = str(e)\nsaid'
    waiting = (await parked(engine, code)).parked
    broker = Scripted()
    result = await engine.resume(
        waiting,
        program(code),
        broker,
        refused={1: ToolRefused("denied", "a person said no")},
        redact=unchanged,
    )
    assert result.value == "ToolError[denied] git.create_issue: a person said no"
    assert broker.made == []
    assert [(call.state, call.code) for call in result.calls] == [(CallState.REFUSED, "denied")]


async def test_a_tool_that_is_gone_meanwhile_is_not_called(engine: MontyEngine) -> None:
    waiting = (await parked(engine)).parked
    fewer = replace(program(CODE), tools=TOOLS[1:])
    broker = Scripted()
    result = await engine.resume(waiting, fewer, broker, refused={}, redact=unchanged)
    assert result.status is ProgramStatus.ERROR
    assert "ToolError[unknown_tool] git.create_issue: there is none any more" in result.error
    assert broker.made == []


async def test_calls_count_on(engine: MontyEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_limits", SandboxLimits(calls=4))
    code = f"{CODE}\nawait git.list()\nawait git.list()"
    waiting = (await parked(engine, code)).parked
    broker = Scripted(Person("ask", "ask too"))
    result = await engine.resume(waiting, program(code), broker, refused={}, redact=unchanged)
    assert result.status is ProgramStatus.CALLS
    assert sorted(made[0] for made in broker.made) == [1, 3, 4]


async def test_times_count_on_without_the_person_who_was_waited_for(engine: MontyEngine) -> None:
    waiting = ParkedRun.decoded((await parked(engine)).parked)
    assert 0 < waiting.interpreter_s < waiting.wall_s < 10
    late = encoded(replace(waiting, wall_s=9.95))

    async def slowly(_: str, __: Mapping[str, Any], ___: int) -> Any:
        await asyncio.sleep(10)

    result = await engine.resume(
        late, program(CODE), Scripted(slowly), refused={}, redact=unchanged
    )
    assert result.status is ProgramStatus.WALL
    code = 'await git.create_issue(title="ask")\nn = 0\nwhile n < 10 ** 6:\n    n += 1'
    busy = replace(ParkedRun.decoded((await parked(engine, code)).parked), interpreter_s=0.98)
    result = await engine.resume(
        encoded(busy), program(code), Scripted(), refused={}, redact=unchanged
    )
    assert result.status is ProgramStatus.INTERPRETER


async def test_no_call_is_made_before_there_is_a_process_for_it(
    tmp_path: Path, engine: MontyEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = (await parked(engine)).parked
    begun = asyncio.Event()

    async def waits(_: str, __: Mapping[str, Any], ___: int) -> Any:
        begun.set()
        await asyncio.Event().wait()

    async with monty_engine(SandboxLimits(wall_s=0.5), tmp_path, processes=1, warm=1) as full:
        monkeypatch.setattr(full, "_limits", SandboxLimits())
        first = asyncio.create_task(
            full.run(program("await git.list()"), Scripted(waits), redact=unchanged)
        )
        await begun.wait()
        broker = Scripted()
        with pytest.raises(RateLimited):
            await full.resume(waiting, program(CODE), broker, refused={}, redact=unchanged)
        assert broker.made == []
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first


async def test_another_programs_run_is_not_resumed(engine: MontyEngine) -> None:
    waiting = (await parked(engine)).parked
    broker = Scripted()
    with pytest.raises(ValueError, match="another program's"):
        await engine.resume(waiting, program("1"), broker, refused={}, redact=unchanged)
    assert broker.made == []


@pytest.mark.parametrize(
    "octets",
    [b"", b"douane program 2\n", b"douane program 2\n\x00\x00\x00\x02{}", b"x" * 100],
    ids=["empty", "cut", "no members", "another"],
)
async def test_what_is_no_parked_run_is_not_resumed(octets: bytes, engine: MontyEngine) -> None:
    with pytest.raises(ValueError, match="this is no parked program"):
        await engine.resume(octets, program("1"), Scripted(), refused={}, redact=unchanged)


async def test_a_run_of_another_version_ends_and_says_what_it_did(engine: MontyEngine) -> None:
    waiting = ParkedRun.decoded((await parked(engine)).parked)
    broker, ran = Scripted(), list[int]()

    def redact(text: str) -> str:
        ran.append(threading.get_ident())
        return text

    result = await engine.resume(
        encoded(replace(waiting, engine="monty 0.1")),
        program(CODE),
        broker,
        refused={},
        redact=redact,
    )
    assert ran
    assert threading.get_ident() not in ran
    assert (result.status, result.console) == (ProgramStatus.CRASHED, "before\n")
    assert [(call.state, call.code) for call in result.calls] == [
        (CallState.REFUSED, "approval_required"),
        (CallState.DONE, ""),
        (CallState.REFUSED, "approval_required"),
    ]
    assert broker.made == []


async def test_a_broken_snapshot_ends_the_run_without_a_call(engine: MontyEngine) -> None:
    waiting = ParkedRun.decoded((await parked(engine)).parked)
    broker = Scripted()
    result = await engine.resume(
        encoded(replace(waiting, snapshot=waiting.snapshot[:50])),
        program(CODE),
        broker,
        refused={},
        redact=unchanged,
    )
    assert result.status in (ProgramStatus.ERROR, ProgramStatus.CRASHED)
    assert broker.made == []


async def test_what_is_too_large_to_be_kept_is_refused_instead(
    engine: MontyEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_limits", SandboxLimits(parked_bytes=1000))
    code = 'try:\n    await git.create_issue(title="ask")\nexcept RuntimeError as e:\n    said = str(e)\nsaid'
    result = await parked(engine, code)
    assert result.status is ProgramStatus.OK
    assert result.value == (
        "ToolError[approval_required] git.create_issue: a person must allow it, and the program"
        " holds too much to be kept until then"
    )


async def test_what_is_too_large_to_be_kept_is_not_all_written_out(
    roomy: MontyEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    def noting(content: Mapping[str, Any]) -> bytes:
        written.append(len(found := line(content)))
        return found

    line = parking._line
    monkeypatch.setattr(parking, "_line", noting)
    monkeypatch.setattr(roomy, "_limits", replace(ROOMY, parked_bytes=700_000))
    result = await parked(roomy, many(4))
    assert result.status is ProgramStatus.ERROR
    assert "the program holds too much to be kept until then" in result.error
    assert 1 < len(written) < 1 + 4
    assert max(written) < 2 * 99_000 + 1_000


@pytest.mark.parametrize(
    ("code", "leaves"), [(CODE, False), (many(3), True)], ids=["little", "much"]
)
async def test_a_program_that_holds_much_is_parked_and_goes_on_beside_the_loop(
    roomy: MontyEngine, monkeypatch: pytest.MonkeyPatch, code: str, leaves: bool
) -> None:
    ran: list[tuple[str, bool]] = []

    def noting(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def done(*args: Any) -> Any:
            ran.append((name, threading.get_ident() != loop))
            return work(*args)

        return done

    loop = threading.get_ident()
    monkeypatch.setattr(ParkedRun, "encoded", noting("encoded", ParkedRun.encoded))
    monkeypatch.setattr(ParkedRun, "decoded", noting("decoded", ParkedRun.decoded))
    monkeypatch.setattr(turns, "_TURNS", turns.Turns(most_waiting=0))  # they must be done
    waiting = (await parked(roomy, code)).parked
    again = await roomy.resume(
        waiting, program(code), Scripted(Person()), refused={}, redact=unchanged
    )
    assert again.status is ProgramStatus.PARKED
    broker = Scripted(Person("ask", "ask too"))
    result = await roomy.resume(again.parked, program(code), broker, refused={}, redact=unchanged)
    assert result.status is ProgramStatus.OK
    assert all(len(one.get("v", ())) in {0, 99_000} for _, _, one in broker.made)
    names = ["encoded", "decoded", "encoded", "decoded"]
    assert ran == [(name, leaves or name == "encoded") for name in names]


async def test_what_is_under_way_ends_before_the_program_waits(engine: MontyEngine) -> None:
    async def mixed(tool: str, _: Mapping[str, Any], seq: int) -> Any:
        if tool == "create_issue":
            raise NeedsApproval("q")
        await asyncio.sleep(0.05)
        return seq

    broker = Scripted(mixed)
    code = 'waste = git.list()\nawait git.create_issue(title="ask")'
    result = await engine.run(program(code), broker, redact=unchanged)
    assert result.status is ProgramStatus.PARKED
    assert (broker.at_once, broker.cancelled) == (0, [])
    assert [call.state for call in result.calls] == [CallState.DONE, CallState.WAITING]


async def test_a_call_that_waits_when_its_program_ends_was_not_made(engine: MontyEngine) -> None:
    result = await parked(
        engine, 'waste = git.create_issue(title="ask")\nawait asyncio.sleep(0)\n1'
    )
    assert (result.status, result.value) == (ProgramStatus.OK, 1)
    assert [(call.state, call.code) for call in result.calls] == [
        (CallState.REFUSED, "approval_required")
    ]
