"""From a refusal through the command line to a call that goes out, in a gateway that is real."""

import json
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.own import own_gateway
from tests.e2e.posting import Poster
from tests.e2e.scripted import Raw
from tests.e2e.site import Corridor
from tests.e2e.sockets import Answered

POLICY = """\
package douane

decision := {"verdict": "ask", "reasons": [{"code": "outside", "message": "it goes outside"}]} if {
	input.phase == "call"
	not is_object(input.approval)
} else := {"verdict": "allow", "reasons": []}
"""
HELLO = {"text": "hello"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("approvals")


@pytest.fixture(scope="module")
def corridor(folder: Path, session_raw: Raw) -> Iterator[Corridor]:
    policies = folder / "policies"
    policies.mkdir()
    (policies / "asks.rego").write_text(POLICY)
    limits = {"most_waiting": 1000, "most_per_hour": 1000}
    with own_gateway(folder / "gateway", session_raw, policies, approvals=limits) as corridor:
        yield corridor


@pytest.fixture
def poster(corridor: Corridor, session_raw: Raw, request: pytest.FixtureRequest) -> Poster:
    """A client of the test's own: what another one was allowed is not its concern."""
    session_raw.forget()
    return Poster(corridor, "raw", name=request.node.name)


def asked(poster: Poster, text: str) -> str:
    """Make a call that policy asks about; return the question's id."""
    refusal = poster.call("allowed", {"text": text}).json["result"]["_meta"]["douane/refusal"]
    assert refusal["code"] == "approval_required"
    id_: str = refusal["approval_id"]
    return id_


def answered(corridor: Corridor, verb: str, id_: str, *options: str) -> dict[str, Any]:
    (row,) = corridor.running.rows("approvals", verb, id_, *options)
    return row


def said(done: Answered) -> Any:
    """What the upstream was told, as it says itself."""
    return json.loads(done.json["result"]["content"][0]["text"])


def test_a_person_lets_a_call_out_once(
    corridor: Corridor, poster: Poster, session_raw: Raw
) -> None:
    id_ = asked(poster, "once")
    assert "tools/call" not in session_raw.methods
    (row,) = [r for r in corridor.running.rows("approvals", "list") if r["id"] == id_]
    assert (row["state"], row["name"], row["codes"]) == ("waiting", "allowed", ["outside"])
    (shown,) = corridor.running.rows("approvals", "show", id_)
    assert (shown["arguments"], shown["asked"]) == ({"text": "once"}, 1)
    assert answered(corridor, "allow", id_, "--note", "looks fine")["state"] == "allowed"
    assert said(poster.call("allowed", {"text": "once"})) == {"text": "once"}
    assert asked(poster, "once") != id_
    assert session_raw.methods.count("tools/call") == 1
    rows = corridor.running.rows("audit", "query", "--where", f"approval_id = '{id_}'")
    assert sorted((row["kind"], row["code"]) for row in rows if "code" in row) == [
        ("approval", "allowed"),
        ("approval", "asked"),
        ("outcome", "approval_required"),
    ]
    assert sorted(row["kind"] for row in rows if row.get("verdict") == "allow") == [
        "approval",
        "intent",
        "outcome",
    ]


def test_a_changed_argument_is_asked_anew(corridor: Corridor, poster: Poster) -> None:
    id_ = asked(poster, "shown")
    answered(corridor, "allow", id_)
    assert asked(poster, "something else") != id_
    assert said(poster.call("allowed", {"text": "shown"})) == {"text": "shown"}


def test_a_yes_for_the_run_holds_for_the_tool(corridor: Corridor, poster: Poster) -> None:
    answered(corridor, "allow", asked(poster, "before"))
    poster.call("allowed", {"text": "before"})  # what it reads ends what was allowed before it
    text = "first of many"
    id_ = asked(poster, text)
    assert answered(corridor, "allow", id_, "--for-run")["span"] == "run"
    for _ in range(2):
        assert said(poster.call("allowed", {"text": text})) == {"text": text}
    # Nobody said which of its arguments say where it goes.
    assert asked(poster, "second") != id_
    refused = poster.call("page", {"text": text})
    assert refused.refusal == "approval_required"


def test_a_no_sticks(corridor: Corridor, poster: Poster, session_raw: Raw) -> None:
    id_ = asked(Poster(corridor, "raw", name="denied"), "never")
    answered(corridor, "deny", id_, "--note", "no")
    for _ in range(2):
        refused = Poster(corridor, "raw", name="denied").call("allowed", {"text": "never"})
        reasons = refused.json["result"]["_meta"]["douane/refusal"]["reasons"]
        assert (refused.refusal, reasons[0]["code"]) == ("denied", "person_said_no")
    assert "tools/call" not in session_raw.methods
    failed = corridor.running.douane("approvals", "allow", id_)
    assert (failed.returncode, "waits no more" in failed.stderr) == (1, True)


def test_of_parallel_calls_one_goes_out(
    corridor: Corridor, session_raw: Raw, poster: Poster
) -> None:
    fresh = Poster(corridor, "raw", name="parallel")
    answered(corridor, "allow", asked(fresh, "race"))
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda _: fresh.call("allowed", {"text": "race"}), range(8)))
    assert sorted(str(one.refusal) for one in done) == ["None", *["approval_required"] * 7]
    assert session_raw.methods.count("tools/call") == 1


def test_answers_and_questions_outlive_the_gateway(
    tmp_path: Path, session_raw: Raw, folder: Path
) -> None:
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "asks.rego").write_text(POLICY)
    with own_gateway(tmp_path / "gateway", session_raw, policies) as corridor:
        poster = Poster(corridor, "raw")
        ids = [asked(poster, text) for text in ("yes", "waits")]
        answered(corridor, "allow", ids[0])
    with own_gateway(tmp_path / "gateway", session_raw, policies) as corridor:
        (waiting,) = corridor.running.rows("approvals", "list")
        assert (waiting["id"], waiting["state"]) == (ids[1], "waiting")
        states = {
            row["id"]: row["state"] for row in corridor.running.rows("approvals", "list", "--all")
        }
        assert states == {ids[0]: "allowed", ids[1]: "waiting"}
        assert waiting["void"] is None
        corridor.running.rows("runs", "end", waiting["run"])
        rows = corridor.running.rows("approvals", "list", "--all")
        assert {row["void"] for row in rows} == {"its run has ended"}
        assert "its run has ended" in corridor.running.douane("approvals", "show", ids[1]).stdout
        failed = corridor.running.douane("approvals", "allow", ids[1])
        assert (failed.returncode, "its run has ended" in failed.stderr) == (1, True)


def test_what_nobody_asked_cannot_be_answered(corridor: Corridor) -> None:
    failed = corridor.running.douane("approvals", "allow", "unknown")
    assert (failed.returncode, "no such question" in failed.stderr) == (1, True)


def test_arguments_cannot_speak_to_the_terminal(corridor: Corridor) -> None:
    id_ = asked(Poster(corridor, "raw", name="terminal"), "a\x1b[2J\u202eb\nstate: allowed")
    shown = corridor.running.douane("approvals", "show", id_).stdout
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert r"text = a\e[2J\u{202e}b\nstate: allowed" in shown
    assert shown.splitlines().count("state: waiting") == 1


def test_the_page_wants_to_know_who_comes(corridor: Corridor) -> None:
    id_ = asked(Poster(corridor, "raw", name="page"), "on a page")
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(f"{corridor.url}/approve/{id_}", timeout=60) as answer:
        assert "/sign-in?transaction=" in answer.url


def test_the_gauge_counts_what_waits(corridor: Corridor) -> None:
    asked(Poster(corridor, "raw", name="gauge"), f"counted {time.time_ns()}")
    waiting = len(corridor.running.rows("approvals", "list"))
    with urllib.request.urlopen(f"{corridor.running.admin_url}/metrics", timeout=60) as answer:
        assert f'douane_approvals{{state="waiting"}} {waiting}.0' in answer.read().decode()
