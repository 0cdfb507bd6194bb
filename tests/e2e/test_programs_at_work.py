"""Programs at `/mcp`: real clients, three real servers, and every call of a program judged by itself."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from mcp_types import ElicitResult

from tests.e2e.own import soon
from tests.e2e.posting import Poster
from tests.e2e.programs import CALLED, MODES, programmer, ran, records, slow
from tests.e2e.site import Corridor
from tests.e2e.test_python_clients import text_of
from tests.running import ALL
from tests.servers.process import RunningServer
from tests.told import each_call


def newest(programs: Corridor, tool: str, before: int) -> dict[str, Any] | None:
    """Return the record of how the newest call of `tool` ended, if there are more than `before`."""
    found = records(programs, tool)
    return found[0] if len(found) > before else None


def told_of(programs: Corridor, call: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the story of its run tells of a call, once what asked for it has ended."""
    rows = {row["decision_id"]: row for row in programs.running.rows("runs", "show", call["run"])}
    ended = rows[call["parent"]]["verdict"] != "allow"
    return rows[call["decision_id"]] if ended else None


WORK = """\
import asyncio
from tools import everything, filesystem, notes

listed = await filesystem.list_allowed_directories()
folder = listed['content'].splitlines()[-1]
file, note = await asyncio.gather(
    filesystem.read_text_file(path=folder + '/hello.txt'),
    notes.read_note(name='welcome'),
)
echoed = await everything.echo(message=file['content'])
await notes.write_note(name='copied', text=echoed + '; ' + note['result'])
try:
    await notes.delete_note(name='welcome')
    said = ''
except RuntimeError as error:
    said = str(error)
[(await notes.read_note(name='copied'))['result'], said]
"""


@pytest.mark.parametrize("mode", MODES)
async def test_a_program_uses_three_servers_and_is_stopped_at_the_one_call_policy_forbids(
    programs: Corridor, mode: str
) -> None:
    async with programmer(programs, mode) as client:
        assert "run_code" in {tool.name for tool in (await client.list_tools()).tools}
        found = await ran(client, WORK)
    copied, said = found["value"]
    assert copied == "Echo: hello from a file; This is your first note."
    assert said.startswith("ToolError[denied] notes.delete_note: ")
    assert "this tool is closed" in said
    assert "Go on without it" in said
    assert (found["status"], len(each_call(found))) == ("ok", len(CALLED))
    refused = {"seq": 6, "tool": "notes.delete_note", "state": "refused", "code": "denied"}
    assert each_call(found)[5] == refused

    (program, *_) = records(programs, "run_code")
    story = programs.running.rows("runs", "show", program["run"])
    place = next(i for i, row in enumerate(story) if row["decision_id"] == program["decision_id"])
    outer, *inner = story[place : place + 1 + len(CALLED)]
    called = [(one["server"], one["target"], one["effect"], one["verdict"]) for one in inner]
    assert sorted(called) == sorted(CALLED)
    assert called[0] == CALLED[0]
    assert {one["depth"] for one in inner} == {1}
    assert {one["origin"] for one in inner} == {"sandbox"}
    assert {one["script_sha256"] for one in inner} == {outer["script_sha256"]}
    assert (outer["depth"], outer["target"], outer["verdict"]) == (0, "run_code", "allow")
    # One label in every revision.
    label = {"integrity": "trusted", "confidentiality": "internal"}
    assert [one["label_after"] for one in (outer, *inner)] == [label] * 8
    (stopped,) = [one for one in inner if one["verdict"] == "deny"]
    assert (stopped["code"], "closed" in stopped["reasons"]) == ("denied", True)

    shown = programs.running.douane("runs", "show", program["run"]).stdout.splitlines()
    (line,) = [one for one in shown if f" {stopped['seq']} " in one and "delete_note" in one]
    assert line.startswith("x")
    assert "  notes/delete_note" in line
    assert "deny closed" in line


async def test_a_refusal_that_is_not_caught_says_what_was_done_before(programs: Corridor) -> None:
    code = (
        "from tools import notes\n"
        "await notes.write_note(name='half', text='done')\n"
        "await notes.delete_note(name='half')"
    )
    async with programmer(programs, "2026-07-28") as client:
        answered = await client.call_tool("run_code", {"code": code})
        assert answered.is_error
        found = json.loads(text_of(answered))
    assert (found["status"], found["side_effects"]) == ("error", [1])
    assert "line 3" in found["error"]
    assert "ToolError[denied] notes.delete_note" in found["error"]


async def test_a_program_is_checked_before_its_first_line_runs(programs: Corridor) -> None:
    code = (
        "from tools import notes\n"
        "await notes.write_note(name='early', text='done')\n"
        "await notes.read_note(nme='early')"
    )
    before = len(records(programs, "write_note"))
    async with programmer(programs, "2026-07-28") as client:
        found = await ran(client, code)
    assert (found["status"], found["calls"]) == ("typecheck", [])
    assert "nme" in found["error"]
    assert len(records(programs, "write_note")) == before


COUNT = "from tools import notes\nawait notes.count_slowly(steps=600, pause_s=0.1)"


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_under_way_in_a_program_that_nobody_waits_for_is_ended_and_recorded(
    programs: Corridor, notes: RunningServer, mode: str
) -> None:
    before, told = slow(notes), len(records(programs, "count_slowly"))
    async with programmer(programs, mode) as client:
        waiting = asyncio.create_task(client.call_tool("run_code", {"code": COUNT}))
        await soon(lambda: slow(notes)["begun"] > before["begun"])
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await soon(lambda: slow(notes)["cancelled"] > before["cancelled"])
        call = await soon(lambda: newest(programs, "count_slowly", told))
        story = await soon(lambda: told_of(programs, call))
    assert call["code"] in {"client_gone", "outcome_unknown"}
    assert (story["verdict"], story["depth"], story["origin"]) == ("unknown", 1, "sandbox")
    assert slow(notes)["finished"] == before["finished"]


@pytest.mark.parametrize(
    ("mode", "code", "status"),
    [
        (
            "legacy",
            "from tools import notes\nfor _ in range(20):\n    await notes.list_notes()",
            "calls",
        ),
        ("2026-07-28", "while True:\n    pass", "cpu"),
        ("2026-07-28", "'x' * 100_000_000", "memory"),
        ("2026-07-28", "'x' * 2000", "output"),
        ("2026-07-28", "#" * 5000, "syntax"),
        ("2026-07-28", COUNT, "timeout"),
        ("legacy", COUNT, "timeout"),
    ],
    ids=["calls", "interpreter", "memory", "value", "code", "wall", "wall-in-a-session"],
)
async def test_a_program_that_goes_too_far_ends_and_says_at_which_limit(
    programs: Corridor, notes: RunningServer, mode: str, code: str, status: str
) -> None:
    gave_up = slow(notes)["cancelled"]
    async with programmer(programs, mode) as client:
        answered = await client.call_tool("run_code", {"code": code})
    found = json.loads(text_of(answered))
    assert answered.is_error
    assert found["status"] == status
    assert found["error"]
    if status == "calls":
        assert [one["state"] for one in each_call(found)] == ["done"] * 12
    if status == "timeout":
        assert [one["state"] for one in each_call(found)] == ["outcome_unknown"]
        # Its server is told that nobody waits, in whichever family it speaks.
        await soon(lambda: slow(notes)["cancelled"] > gave_up)


async def test_one_principal_runs_so_many_programs_at_once_and_others_are_not_held_up(
    programs: Corridor,
) -> None:
    code = "import asyncio\nawait asyncio.sleep(2)\n'done'"
    async with programmer(programs, "2026-07-28") as client:
        several = [client.call_tool("run_code", {"code": code}) for _ in range(4)]
        async with programmer(programs, "2026-07-28", name="other") as other:
            *mine, others = await asyncio.gather(*several, ran(other, code))
    refused = [one for one in mine if one.is_error]
    assert len(refused) == 2
    assert {(one.meta or {})["douane/refusal"]["code"] for one in refused} == {"rate_limited"}
    assert others["value"] == "done"


def test_a_token_without_the_scope_is_told_which_one_it_needs(programs: Corridor) -> None:
    poster = Poster(programs, ALL)
    listed = poster.modern("tools/list", {}).json["result"]["tools"]
    assert "run_code" in {tool["name"] for tool in listed}
    answered = poster.call("run_code", {"code": "1"})
    assert answered.status == 403
    challenge = answered.headers["www-authenticate"]
    assert 'error="insufficient_scope"' in challenge
    assert "code:run" in challenge


@pytest.mark.parametrize("mode", MODES)
async def test_a_server_that_asks_in_a_program_is_told_that_nobody_can_be_asked(
    programs: Corridor, mode: str
) -> None:
    asked = []

    async def answer(_: Any, params: Any) -> ElicitResult:
        asked.append(params)
        return ElicitResult(action="accept", content={"name": "Emma"})

    code = (
        "from tools import everything\n"
        "try:\n    said = str(await everything.trigger__elicitation__request())\n"
        "except RuntimeError as error:\n    said = str(error)\n"
        "said"
    )
    async with programmer(programs, mode, elicitation_callback=answer) as client:
        found = await ran(client, code)
    assert asked == []
    assert found["value"].startswith("ToolError[failed] everything.trigger__elicitation__request: ")
    (call,) = found["calls"]
    assert call["state"] == "failed"
    if mode == "legacy":
        assert "a program cannot be asked anything" in found["value"]
