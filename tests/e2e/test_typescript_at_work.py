"""Programs in TypeScript at `/mcp` of a gateway process: every call judged by itself, and told as a tree."""

import pytest

from tests.e2e.own import soon
from tests.e2e.programs import CALLED, MODES, programmer, ran, records, slow
from tests.e2e.site import Corridor
from tests.servers.process import RunningServer
from tests.told import each_call

WORK = """\
const { everything, filesystem, notes } = tools;
const listed: { content: string } = await filesystem.list_allowed_directories();
const folder = listed.content.trim().split("\\n").at(-1);
const [file, note] = await Promise.all([
  filesystem.read_text_file({ path: `${folder}/hello.txt` }),
  notes.read_note({ name: "welcome" }),
]);
const echoed = await everything.echo({ message: file.content });
await notes.write_note({ name: "typed", text: `${echoed}; ${note.result}` });
const said: string[] = [];
try {
  await notes.delete_note({ name: "welcome" });
} catch (error) {
  said.push((error as ToolError).code, String(error));
}
return [(await notes.read_note({ name: "typed" })).result, ...said];
"""
COUNT = "return await tools.notes.count_slowly({ steps: 600, pause_s: 0.1 })"


@pytest.mark.parametrize("mode", MODES)
async def test_a_program_in_typescript_is_stopped_at_the_one_call_policy_forbids_and_told_as_a_tree(
    programs: Corridor, mode: str
) -> None:
    async with programmer(programs, mode) as client:
        found = await ran(client, WORK, language="typescript")
    assert found["status"] == "ok", found
    copied, code, said = found["value"]
    assert copied == "Echo: hello from a file; This is your first note."
    assert (code, "this tool is closed" in said) == ("denied", True)
    assert len(each_call(found)) == len(CALLED)
    refused = {"seq": 6, "tool": "notes.delete_note", "state": "refused", "code": "denied"}
    assert each_call(found)[5] == refused

    (program, *_) = records(programs, "run_code")
    story = programs.running.rows("runs", "show", program["run"])
    place = next(i for i, row in enumerate(story) if row["decision_id"] == program["decision_id"])
    outer, *inner = story[place : place + 1 + len(CALLED)]
    called = [(one["server"], one["target"], one["effect"], one["verdict"]) for one in inner]
    assert sorted(called) == sorted(CALLED)
    assert {(one["depth"], one["origin"]) for one in inner} == {(1, "sandbox")}
    assert {one["script_sha256"] for one in inner} == {outer["script_sha256"]}
    assert (outer["depth"], outer["target"], outer["verdict"]) == (0, "run_code", "allow")

    shown = programs.running.douane("runs", "show", program["run"]).stdout.splitlines()
    lines = {row["seq"]: line for row in (outer, *inner) for line in shown if _is(row["seq"], line)}
    assert " run_code " in lines[outer["seq"]]
    below = lines[outer["seq"]].index("run_code") + len("  ")
    for one in inner:
        line = lines[one["seq"]]
        assert line[below:].startswith(f"{one['server']}/{one['target'][:9]}")
        assert line.startswith("x") == (one["verdict"] == "deny")
    assert "deny closed" in next(line for line in lines.values() if "delete_note" in line)


async def test_a_program_in_typescript_is_checked_before_its_first_line_runs(
    programs: Corridor,
) -> None:
    code = (
        'await tools.notes.write_note({ name: "early", text: "done" });\n'
        'await tools.notes.read_note({ nme: "early" });'
    )
    before = len(records(programs, "write_note"))
    async with programmer(programs, "2026-07-28") as client:
        found = await ran(client, code, language="typescript")
    assert (found["status"], found["calls"]) == ("typecheck", [])
    assert found["error"].startswith("program.ts:2:")
    assert "'nme' does not exist in type" in found["error"]
    assert len(records(programs, "write_note")) == before


async def test_a_call_under_way_in_typescript_is_cut_off_with_its_program_and_recorded_as_unknown(
    programs: Corridor, notes: RunningServer
) -> None:
    gave_up = slow(notes)["cancelled"]
    async with programmer(programs, "2026-07-28") as client:
        found = await ran(client, COUNT, language="typescript")
    assert found["status"] == "timeout"
    assert [one["state"] for one in each_call(found)] == ["outcome_unknown"]
    await soon(lambda: slow(notes)["cancelled"] > gave_up)
    (call, *_) = await soon(lambda: records(programs, "count_slowly"))
    story = {row["decision_id"]: row for row in programs.running.rows("runs", "show", call["run"])}
    told = story[call["decision_id"]]
    assert (told["verdict"], told["depth"], told["origin"]) == ("unknown", 1, "sandbox")


def _is(seq: int, line: str) -> bool:
    return line.removeprefix("x").split()[:1] == [str(seq)]
