"""Programs in TypeScript at `/mcp` of a gateway process: every call judged by itself, and told as a tree."""

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import policies_in
from tests.e2e.own import soon
from tests.e2e.site import SERVERS, Corridor
from tests.e2e.test_programs_at_work import CALLED, MODES, programmer, ran, records, slow
from tests.running import running_gateway
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


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory,
    everything: RunningServer,
    notes: RunningServer,
    filesystem: RunningServer,
) -> Iterator[Corridor]:
    folder = tmp_path_factory.mktemp("typescript")
    urls = {"everything": everything.url, "notes": notes.url, "filesystem": filesystem.url}
    with running_gateway(
        folder / "gateway",
        {name: {"url": urls[name], **SERVERS[name]} for name in urls},
        policies=policies_in(folder),
        limits={"calls_per_minute": 100_000},
        pins={"recheck": "1h", "fresh": "1h"},
        code={"enabled": True, "typescript": "required", "limits": {"wall": "4s"}},
    ) as running:
        for name in urls:
            running.approve_all(name)
        yield Corridor(running)


@pytest.mark.parametrize("mode", MODES)
async def test_a_program_in_typescript_is_stopped_at_the_one_call_policy_forbids_and_told_as_a_tree(
    site: Corridor, mode: str
) -> None:
    async with programmer(site, mode) as client:
        found = await ran(client, WORK, language="typescript")
    assert found["status"] == "ok", found
    copied, code, said = found["value"]
    assert copied == "Echo: hello from a file; This is your first note."
    assert (code, "this tool is closed" in said) == ("denied", True)
    assert len(each_call(found)) == len(CALLED)
    refused = {"seq": 6, "tool": "notes.delete_note", "state": "refused", "code": "denied"}
    assert each_call(found)[5] == refused

    (program, *_) = records(site, "run_code")
    story = site.running.rows("runs", "show", program["run"])
    place = next(i for i, row in enumerate(story) if row["decision_id"] == program["decision_id"])
    outer, *inner = story[place : place + 1 + len(CALLED)]
    called = [(one["server"], one["target"], one["effect"], one["verdict"]) for one in inner]
    assert sorted(called) == sorted(CALLED)
    assert {(one["depth"], one["origin"]) for one in inner} == {(1, "sandbox")}
    assert {one["script_sha256"] for one in inner} == {outer["script_sha256"]}
    assert (outer["depth"], outer["target"], outer["verdict"]) == (0, "run_code", "allow")

    shown = site.running.douane("runs", "show", program["run"]).stdout.splitlines()
    lines = {row["seq"]: line for row in (outer, *inner) for line in shown if _is(row["seq"], line)}
    assert " run_code " in lines[outer["seq"]]
    below = lines[outer["seq"]].index("run_code") + len("  ")
    for one in inner:
        line = lines[one["seq"]]
        assert line[below:].startswith(f"{one['server']}/{one['target'][:9]}")
        assert line.startswith("x") == (one["verdict"] == "deny")
    assert "deny closed" in next(line for line in lines.values() if "delete_note" in line)


async def test_a_call_under_way_in_typescript_is_cut_off_with_its_program_and_recorded_as_unknown(
    site: Corridor, notes: RunningServer
) -> None:
    gave_up = slow(notes)["cancelled"]
    async with programmer(site, "2026-07-28") as client:
        found = await ran(client, COUNT, language="typescript")
    assert found["status"] == "timeout"
    assert [one["state"] for one in each_call(found)] == ["outcome_unknown"]
    await soon(lambda: slow(notes)["cancelled"] > gave_up)
    (call, *_) = await soon(lambda: records(site, "count_slowly"))
    story = {row["decision_id"]: row for row in site.running.rows("runs", "show", call["run"])}
    told = story[call["decision_id"]]
    assert (told["verdict"], told["depth"], told["origin"]) == ("unknown", 1, "sandbox")


def _is(seq: int, line: str) -> bool:
    return line.removeprefix("x").split()[:1] == [str(seq)]
