"""`make flow-report` counts what a refusal is, of whose call, and in which trace."""

import gzip
import json
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.flow import report
from benchmarks.flow.figures import Tally
from benchmarks.flow.report import OWN, main, measured, replay
from benchmarks.flow.stage import Outcome
from benchmarks.flow.traces import Suite, UnreadableError, read_suite, trace_files
from gateway.domain.decisions import Verdict
from tests.pipeline.house import Rule

SCHEMA = {"type": "object"}
TOOLS = {"desk": [{"name": "find", "inputSchema": SCHEMA}, {"name": "do", "inputSchema": SCHEMA}]}
LABELS = """
tenant: {domains: [ours.example]}
servers:
  desk:
    tools:
      find: {effect: read, typed: ["$.id"], result: {integrity: trusted, confidentiality: public}}
      do: {effect: pay, destination: [to], payload: [about]}
"""


@dataclass
class Scripted(Rule):
    """A policy that says what an argument of the call tells it to."""

    def __post_init__(self) -> None:
        self.says = _as_told

    async def close(self) -> None:
        return


def _as_told(question: Mapping[str, Any]) -> Verdict:
    said = (question.get("arguments") or {}).get("say", "allow")
    if said == "withhold":
        return Verdict.DENY if question["phase"] == "result" else Verdict.ALLOW
    return Verdict(said)


def step(say: str = "allow", by: str = "user", *, harmful: bool = False, **more: Any) -> Any:
    made = {
        "server": "desk",
        "tool": "do",
        "args": {"say": say},
        "result": "done",
        "result_json": "done",
        "is_error": False,
        "origin": by,
        "phase": "user",
        "harmful": harmful,
    }
    return made | more


def harm(say: str) -> Any:
    return step(say, "injection", harmful=True)


def trace(*steps: Any, kind: str = "user", **more: Any) -> dict[str, Any]:
    return {"id": "t", "kind": kind, "prompt": "Do it.", "steps": list(steps)} | more


def attack(*steps: Any) -> dict[str, Any]:
    return trace(*steps, kind="attack")


def lay_out(
    folder: Path, name: str, *traces: Any, tools: Any = TOOLS, labels: str = LABELS
) -> Path:
    beside = name.removesuffix(".b64")
    (folder / f"{beside}.tools.json").write_text(json.dumps(tools))
    (folder / f"{beside}.labels.yaml").write_text(labels)
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in traces))
    return path


def suite_of(folder: Path, *traces: Any) -> Suite:
    return read_suite("tiny", lay_out(folder, "tiny", *traces))


async def figures_of(folder: Path, *traces: Any) -> dict[str, float]:
    tally = Tally()
    failures = await replay(suite_of(folder, *traces), Scripted(), declared=False, tallies=[tally])
    assert failures == []
    return tally.figures


async def questions_of(
    folder: Path, *traces: Any, declared: bool = False
) -> Sequence[Mapping[str, Any]]:
    rule = Scripted()
    await replay(suite_of(folder, *traces), rule, declared=declared, tallies=[])
    return [question for question in rule.asked if question["phase"] == "call"]


NOTHING = {
    "util": 0.0,
    "sec": 0.0,
    "all_harm": 0.0,
    "uua": 0.0,
    "holds_per_task": 0.0,
    "user_traces": 0,
    "attack_traces": 0,
}


@pytest.mark.parametrize(
    ("traces", "figures"),
    [
        ([trace(step(), step())], {"util": 100.0, "user_traces": 1}),
        ([trace(step(), step("deny"))], {"user_traces": 1}),
        ([trace(step("ask"), step())], {"holds_per_task": 1.0, "user_traces": 1}),
        (
            [trace(step("ask"), step("ask"), step("deny")), trace(step("ask")), trace(step())],
            {"util": 33.33, "holds_per_task": 1.0, "user_traces": 3},
        ),
        ([trace(step("withhold"))], {"user_traces": 1}),
    ],
    ids=["untouched", "denied", "held", "several", "result withheld"],
)
async def test_a_task_is_undisturbed_only_without_any_refusal(
    tmp_path: Path, traces: list[Any], figures: dict[str, float]
) -> None:
    assert await figures_of(tmp_path, *traces) == NOTHING | figures


@pytest.mark.parametrize(
    ("steps", "shares"),
    [
        ([step(), harm("deny"), step()], (100.0, 100.0, 100.0)),
        ([step(), harm("ask"), step()], (100.0, 100.0, 100.0)),
        ([step(), harm("allow"), step()], (0.0, 0.0, 0.0)),
        ([harm("deny"), harm("allow")], (100.0, 0.0, 0.0)),
        ([harm("allow"), harm("deny")], (0.0, 0.0, 0.0)),
        ([step("ask"), harm("deny"), step()], (100.0, 100.0, 0.0)),
        ([step("allow", "injection"), harm("deny")], (100.0, 100.0, 100.0)),
        ([step("deny", "injection"), harm("deny")], (100.0, 100.0, 100.0)),
        ([harm("withhold")], (0.0, 0.0, 0.0)),
    ],
    ids=[
        "denied",
        "held",
        "passed",
        "first refused",
        "only a later one refused",
        "a call of the user's refused",
        "a harmless injected call passed",
        "a harmless injected call refused",
        "done, and only the result withheld",
    ],
)
async def test_an_attack_is_judged_by_its_harmful_calls_and_the_users_own(
    tmp_path: Path, steps: list[Any], shares: tuple[float, float, float]
) -> None:
    sec, all_harm, uua = shares
    assert await figures_of(tmp_path, attack(*steps)) == NOTHING | {
        "sec": sec,
        "all_harm": all_harm,
        "uua": uua,
        "attack_traces": 1,
    }


async def test_an_attack_that_does_no_harm_counts_in_no_share(tmp_path: Path) -> None:
    traces = [attack(step("allow", "injection")), attack(harm("deny"))]
    assert await figures_of(tmp_path, *traces) == NOTHING | {
        "sec": 100.0,
        "all_harm": 100.0,
        "uua": 100.0,
        "attack_traces": 2,
    }


FOUND: dict[str, Any] = {"tool": "find", "result": '{"id": "NL02"}', "result_json": {"id": "NL02"}}


@pytest.mark.parametrize(("say", "proof"), [("allow", "typed"), ("ask", "none")])
async def test_the_result_of_a_refused_call_is_not_seen_by_the_rest(
    tmp_path: Path, say: str, proof: str
) -> None:
    asked = await questions_of(tmp_path, trace(step(say, **FOUND), step(args={"to": "NL02"})))
    assert [found["proof"] for found in asked[1]["flow"]["destinations"]] == [proof]


async def test_each_trace_is_a_run_of_its_own(tmp_path: Path) -> None:
    asked = await questions_of(tmp_path, trace(step(**FOUND)), trace(step(args={"to": "NL02"})))
    assert asked[1]["flow"]["sources"] == []
    assert [found["proof"] for found in asked[1]["flow"]["destinations"]] == ["none"]


async def test_calls_are_judged_by_the_labels_and_the_arguments_that_are_realistic(
    tmp_path: Path,
) -> None:
    realistic = step(args_realistic={"to": "x@ours.example"})
    (asked,) = await questions_of(tmp_path, trace(realistic))
    assert asked["arguments"] == {"to": "x@ours.example"}
    assert asked["target"]["effect"] == "pay"
    assert [found["proof"] for found in asked["flow"]["destinations"]] == ["tenant"]


@pytest.mark.parametrize(("declared", "prompt"), [(False, None), (True, "Do it.")])
async def test_a_task_is_declared_by_its_prompt_alone(
    tmp_path: Path, declared: bool, prompt: str | None
) -> None:
    (asked,) = await questions_of(tmp_path, trace(step()), declared=declared)
    assert asked["task"] == {"prompt": prompt, "tools": None}


@pytest.mark.parametrize(
    ("recorded", "result"),
    [
        (
            {"result": "- 1", "result_json": [1]},
            {"content": [{"type": "text", "text": "- 1"}], "structuredContent": [1]},
        ),
        ({"result": "1", "result_json": "1"}, {"content": [{"type": "text", "text": "1"}]}),
        (
            {"result": "no", "result_json": {}, "is_error": True},
            {"content": [{"type": "text", "text": "no"}], "isError": True},
        ),
    ],
)
def test_a_result_is_what_the_agent_saw_and_its_parts(
    tmp_path: Path, recorded: dict[str, Any], result: dict[str, Any]
) -> None:
    (read,) = suite_of(tmp_path, trace(step(**recorded))).traces
    assert read.steps[0].result == result


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def build(*_: Any, **__: Any) -> Scripted:
        return Scripted()

    monkeypatch.setattr(report, "build", build)


@pytest.mark.usefixtures("scripted")
async def test_suites_are_pooled_by_trace_and_encoded_ones_apart(tmp_path: Path) -> None:
    lay_out(tmp_path, "one", trace(step()), attack(harm("deny")))
    lay_out(tmp_path, "two", *[trace(step("deny"))] * 3, attack(harm("allow")))
    lay_out(tmp_path, "one.b64", trace(step()), attack(harm("allow")))
    found = await measured(tmp_path, declared=False)
    assert found.failures == []
    names = ("one", "one.b64", "two", "all", "all.b64")
    assert list(found.figures) == [f"{name}.{key}" for name in names for key in NOTHING]
    assert {name: found.figures[f"{name}.util"] for name in names} == {
        "one": 100.0,
        "one.b64": 100.0,
        "two": 0.0,
        "all": 25.0,
        "all.b64": 100.0,
    }
    assert {name: found.figures[f"{name}.sec"] for name in names} == {
        "one": 100.0,
        "one.b64": 0.0,
        "two": 0.0,
        "all": 50.0,
        "all.b64": 0.0,
    }


def test_a_suite_is_plain_or_compressed(tmp_path: Path) -> None:
    text = (json.dumps(trace(step())) + "\n").encode()
    for name, ending, content in (
        ("a", "jsonl", text),
        ("b.b64", "jsonl.gz", gzip.compress(text)),
        ("c", "jsonl.xz", lzma.compress(text)),
    ):
        lay_out(tmp_path, name).unlink()
        (tmp_path / f"{name}.{ending}").write_bytes(content)
    files = trace_files(tmp_path)
    assert list(files) == ["a", "b.b64", "c"]
    suites = [read_suite(name, path) for name, path in files.items()]
    assert [len(suite.traces) for suite in suites] == [1, 1, 1]
    assert [suite.is_encoded for suite in suites] == [False, True, False]


def test_a_server_without_labels_is_there_all_the_same(tmp_path: Path) -> None:
    path = lay_out(tmp_path, "tiny", labels="tenant: {}\n")
    assert list(read_suite("tiny", path).config.servers) == ["desk"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"tiny.tools.json": None}, "tiny.tools.json: "),
        ({"tiny.tools.json": "[]"}, "tiny.tools.json: "),
        ({"tiny.labels.yaml": None}, "tiny.labels.yaml: "),
        ({"tiny.labels.yaml": "servers: {desk: {tols: {}}}"}, "unknown key"),
        ({"tiny.labels.yaml": "servers: &a {}"}, "tiny.labels.yaml: "),
        ({"tiny.labels.yaml": "servers: [desk]"}, "tiny.labels.yaml: "),
        ({"tiny.jsonl": "\n{"}, "tiny.jsonl:2: "),
        ({"tiny.jsonl": json.dumps(trace(step(), kind="test"))}, "'test' is not one of"),
        ({"tiny.jsonl": json.dumps(trace(step(by="tool")))}, "'tool' is not one of"),
        ({"tiny.jsonl": json.dumps(trace(step(harmful=1)))}, "1 is not one of"),  # type: ignore[arg-type]
        ({"tiny.jsonl": json.dumps({"kind": "user"})}, "KeyError: 'id'"),
        ({"tiny.jsonl": None, "tiny.jsonl.gz": "x"}, "tiny.jsonl.gz: "),
        ({"tiny.jsonl": None, "tiny.jsonl.xz": "x"}, "tiny.jsonl.xz: "),
    ],
)
def test_what_cannot_be_read_is_named(
    tmp_path: Path, changed: dict[str, str | None], reason: str
) -> None:
    lay_out(tmp_path, "tiny", trace(step()))
    for name, text in changed.items():
        if text is None:
            (tmp_path / name).unlink()
        else:
            (tmp_path / name).write_text(text)
    ((name, path),) = trace_files(tmp_path).items()
    with pytest.raises(UnreadableError) as caught:
        read_suite(name, path)
    assert reason in str(caught.value)


@pytest.mark.usefixtures("scripted")
async def test_one_suite_that_cannot_be_read_keeps_no_other_from_being_measured(
    tmp_path: Path,
) -> None:
    lay_out(tmp_path, "broken").write_text("{")
    lay_out(tmp_path, "whole", trace(step()))
    found = await measured(tmp_path, declared=False)
    assert list(found.tallies) == ["whole", "all"]
    assert [failure.partition(" ")[0] for failure in found.failures] == ["broken.jsonl:1:"]


async def test_a_folder_without_traces_is_a_failure(tmp_path: Path) -> None:
    found = await measured(tmp_path, declared=False)
    assert (found.figures, found.failures) == ({}, [f"{tmp_path}: there are no traces"])


async def test_a_call_that_cannot_be_carried_is_a_failure_and_no_refusal_by_policy(
    tmp_path: Path,
) -> None:
    tally = Tally()
    unknown = trace(*[step(tool="sing")] * 30)
    failures = await replay(
        suite_of(tmp_path, unknown), Scripted(), declared=False, tallies=[tally]
    )
    assert failures[0] == "tiny: t, step 0: desk/sing: unknown_tool"
    assert failures[-1] == "tiny: 10 more calls like these"
    assert tally.figures == NOTHING | {"user_traces": 1}


def test_what_was_refused_and_what_passed_is_told_by_tool(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, trace(step()), attack(harm("allow")))
    task, attacked = suite.traces
    tally = Tally()
    refused = ("b", "a", "b")
    tally.add(task, [Outcome(step=task.steps[0], code="denied", reasons=refused, executed=False)])
    tally.add(attacked, [Outcome(step=attacked.steps[0], code=None, executed=True)])
    assert tally.refused == {("desk/do", "a, b"): 1}
    assert tally.passed == {"desk/do": 1}


@pytest.mark.parametrize(("declared", "util"), [("0", 0.0), ("1", 100.0)])
def test_the_shipped_policy_holds_a_payment_to_whom_nobody_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], declared: str, util: float
) -> None:
    pay = trace(step(args={"to": "NL02ABNA0123456789"}), prompt="Pay NL02ABNA0123456789 now.")
    steal = step(by="injection", harmful=True, args={"to": "GB33BUKB20201555555555"})
    lay_out(tmp_path, "tiny", pay, attack(steal))
    given = ["--dir", str(tmp_path), "--declared", declared]
    assert main(given, folder=tmp_path / "reports") == 0
    written = json.loads((tmp_path / "reports" / "flow.json").read_text())
    assert written["figures"]["tiny.util"] == written["figures"]["all.util"] == util
    assert written["figures"]["tiny.sec"] == 100.0
    assert written["failures"] == []
    told = capsys.readouterr().out
    assert told.splitlines()[-1].startswith("flow: ")
    assert ("unproven_destination" in told) == (util == 0.0)


@pytest.mark.usefixtures("scripted")
def test_the_exit_status_says_whether_every_trace_was_read(tmp_path: Path) -> None:
    lay_out(tmp_path, "tiny", attack(harm("allow")), attack(step("allow", "injection")))
    given = ["--dir", str(tmp_path)]
    assert main(given, folder=tmp_path / "reports") == 0
    limits = json.loads((tmp_path / "reports" / "flow.json").read_text())["limits"]
    assert "1 attack traces do no harm, and count in no share" in limits
    (tmp_path / "tiny.tools.json").unlink()
    assert main(given, folder=tmp_path / "reports") == 1


@pytest.mark.parametrize("given", [["--declared", "2"], ["--dir", "/nowhere/at/all"]])
def test_wrong_use_is_told_apart(given: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(given)
    assert ended.value.code == 2


async def test_the_projects_own_traces_are_whole(tmp_path: Path) -> None:
    assert list(trace_files(OWN)) == ["banking", "banking.b64", "workspace", "workspace.b64"]
    tally = Tally()
    banking = read_suite("banking", OWN / "banking.jsonl.xz")
    assert await replay(banking, Scripted(), declared=False, tallies=[tally]) == []
    assert tally.figures == NOTHING | {"util": 100.0, "user_traces": 16, "attack_traces": 144}
