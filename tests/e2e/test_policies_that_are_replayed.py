"""Recorded decisions put to another policy, and a candidate asked beside the one in force."""

import json
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import policies_in
from tests.e2e.own import own_gateway, until
from tests.e2e.posting import Poster
from tests.e2e.scripted import Raw, raw_in_a_thread
from tests.e2e.site import Corridor

CLOSED = """\
package douane

deny contains {"code": "closed_today", "message": "closed today"} if {
	input.phase == "call"
	input.target.name == "allowed"
}
"""
READS_ARGUMENTS = """\
package douane

deny contains {"code": "too_loud", "message": "too loud"} if {
	input.phase == "call"
	input.arguments.text == "LOUD"
}
"""
ENDLESS = """\
package douane

deny contains reason if {
	input.target.name == "allowed"
	some i in numbers.range(1, 2000)
	some j in numbers.range(1, 2000)
	i * j == -1
	reason := {"code": "never", "message": input.method}
}
"""


@pytest.fixture(scope="module")
def module_raw() -> Iterator[Raw]:
    with raw_in_a_thread() as raw:
        yield raw


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("replayed")


@pytest.fixture(scope="module")
def candidate(folder: Path) -> Path:
    """The policy in force, and one rule more."""
    return _with(folder, "candidate", CLOSED)


@pytest.fixture(scope="module")
def shadowed(folder: Path, candidate: Path, module_raw: Raw) -> Iterator[Corridor]:
    policies = policies_in(folder)
    policy = {"path": str(policies), "mode": "shadow", "candidate": str(candidate)}
    with own_gateway(folder, module_raw, policies, policy=policy) as gateway:
        poster = Poster(gateway, "raw")
        for tool, arguments in (
            ("allowed", {}),
            ("allowed", {"text": "quiet"}),
            ("denied", {}),
            ("amounts", {"amount": 3}),
        ):
            poster.call(tool, arguments)
        poster.modern("resources/read", {"uri": "raw://allowed"})
        yield gateway


def _with(folder: Path, name: str, rule: str) -> Path:
    made = folder / name
    if not made.exists():
        policies_in(made)
        for path in (made / "policies").iterdir():
            shutil.move(path, made / path.name)
        (made / "more.rego").write_text(rule)
    return made


def replay(gateway: Corridor, *options: str) -> tuple[int, list[dict[str, Any]]]:
    done = gateway.running.douane("policy", "replay", "--since", "1h", *options, "--json")
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def decisions(gateway: Corridor, tool: str) -> list[dict[str, Any]]:
    rows = gateway.running.rows("audit", "query", "--tool", tool)
    return [row for row in rows if "question" in row]


def test_the_policy_that_decided_says_the_same_of_all_its_decisions(shadowed: Corridor) -> None:
    status, rows = replay(shadowed)
    summary = rows[-1]
    assert (status, summary["changed"]) == (0, 0)
    assert summary["same"] == summary["decisions"] - 2 >= 3
    # One of its rules looks at an amount, which is not written down, and neither is the name of a
    # resource that its server had not given out.
    assert summary["lacking"] == {"arguments.amount": 1, "target.name": 1}


def test_a_replay_names_what_another_policy_would_have_decided(
    shadowed: Corridor, candidate: Path
) -> None:
    status, rows = replay(shadowed, "--policy", str(candidate))
    changed = [row for row in rows if row["finding"] == "changed"]
    assert status == 1
    assert {(row["target"], row["before"]["verdict"]) for row in changed} == {("allowed", "allow")}
    assert all(row["after"] == {"verdict": "deny", "reasons": ["closed_today"]} for row in changed)
    assert rows[-1]["changes"] == [
        {
            "server": "raw",
            "target": "allowed",
            "before": "allow",
            "after": "deny",
            "reasons": ["closed_today"],
            "count": 2,
        }
    ]


def test_what_no_record_says_is_named_and_never_guessed(shadowed: Corridor, folder: Path) -> None:
    status, rows = replay(shadowed, "--policy", str(_with(folder, "reading", READS_ARGUMENTS)))
    inexact = [row for row in rows if row["finding"] == "inexact"]
    assert status == 0
    named = [row for row in inexact if row["lacking"] != ["target.name"]]
    assert [(row["target"], row["lacking"], row["after"]) for row in named] == [
        ("allowed", ["arguments.text"], None),
        ("amounts", ["arguments.amount"], None),
    ]
    # The third is a resource that its server had not given out: its name is kept as arguments are.
    lacking = {"arguments.text": 1, "arguments.amount": 1, "target.name": 1}
    assert (rows[-1]["lacking"], len(inexact)) == (lacking, 3)


def test_a_policy_that_cannot_be_used_is_wrong_use(shadowed: Corridor, folder: Path) -> None:
    broken = folder / "broken"
    broken.mkdir()
    (broken / "decision.rego").write_text("package douane\n\ndecision := nothing_of_the_kind\n")
    done = shadowed.running.douane("policy", "replay", "--policy", str(broken))
    assert (done.returncode, "decision.rego:3" in done.stderr) == (2, True)
    assert shadowed.running.douane("policy", "replay", "--since", "soon").returncode == 2
    assert shadowed.running.douane("policy", "replay", "--policy", "/nowhere").returncode == 2


def test_reading_the_record_for_a_replay_is_on_record(shadowed: Corridor) -> None:
    replay(shadowed)
    rows = shadowed.running.rows("audit", "query", "--where", "method = policy.replay")
    assert rows[0]["kind"] == "admin"


def test_a_candidate_is_recorded_and_changes_nothing(shadowed: Corridor) -> None:
    (status,) = shadowed.running.rows("policy", "status")
    for decision in decisions(shadowed, "allowed"):
        assert (decision["verdict"], decision["policy_digest"]) == ("allow", status["digest"])
        assert decision["candidate"] == {
            "policy_digest": status["candidate"],
            "verdict": "deny",
            "reasons": ["closed_today"],
        }
    found = shadowed.running.rows("audit", "query", "--where", "candidate ~ closed_today")
    assert {row["target"] for row in found} == {"allowed"}
    with urllib.request.urlopen(f"{shadowed.running.admin_url}/metrics", timeout=60) as answer:
        metrics = answer.read().decode()
    assert 'douane_policy_candidate_total{live="allow",verdict="deny"} 2.0' in metrics


def test_a_decision_is_explained_by_the_policy_that_made_it(shadowed: Corridor) -> None:
    (denied,) = decisions(shadowed, "denied")
    *records, last = shadowed.running.rows("policy", "explain", denied["decision_id"])
    again = last["reevaluation"]
    assert [record["decision_id"] for record in records] == [denied["decision_id"]]
    assert (again["finding"], again["policy_digest"]) == ("same", denied["policy_digest"])
    assert again["after"] == {"verdict": "deny", "reasons": ["closed"]}
    assert "tests.rego:3: deny" in again["rules"]
    shown = shadowed.running.douane("policy", "explain", denied["decision_id"]).stdout
    assert shown.startswith("deny: closed: ")
    assert "the policy that decided says the same" in shown
    newest = shadowed.running.douane("policy", "explain").stdout
    assert newest.startswith("deny: ")


def test_a_broken_candidate_is_an_error_on_record_and_nothing_else(
    shadowed: Corridor, candidate: Path
) -> None:
    rule = candidate / "more.rego"
    broken = candidate / "endless.rego"
    before = shadowed.running.rows("policy", "status")
    broken.write_text(ENDLESS)
    try:
        until(lambda: shadowed.running.rows("policy", "status") != before)
        poster = Poster(shadowed, "raw")
        for _ in range(7):
            assert poster.call("allowed").refusal is None
        newest = decisions(shadowed, "allowed")[:7]
        assert all("error" in one["candidate"] for one in newest)
        assert "rests" in newest[0]["candidate"]["error"]
    finally:
        broken.unlink()
        assert rule.exists()
        until(lambda: shadowed.running.rows("policy", "status") == before)


def test_a_past_decision_keeps_its_policy_also_when_no_gateway_runs(
    tmp_path: Path, module_raw: Raw
) -> None:
    policies = policies_in(tmp_path)
    with own_gateway(tmp_path, module_raw, policies) as gateway:
        Poster(gateway, "raw").call("allowed")
        (before,) = gateway.running.rows("policy", "status")
        (policies / "more.rego").write_text(CLOSED)
        until(lambda: gateway.running.rows("policy", "status") != [before])
        running = replay(gateway)
    assert running[0] == 1
    assert [row["finding"] for row in running[1]] == ["changed", "summary"]
    assert replay(gateway) == running
    *_, last = gateway.running.rows("policy", "explain", running[1][0]["decision_id"])
    assert last["reevaluation"]["finding"] == "same"
    assert (
        last["reevaluation"]["policy_digest"] == before["digest"] != running[1][-1]["policy_digest"]
    )
