"""Killed and started again: sessions go on, labels are kept, and nobody guesses what became of a call."""

import http.client
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.posting import Poster
from tests.e2e.scripted import instead
from tests.e2e.site import Corridor
from tests.e2e.sockets import Answered
from tests.faults.scene import Scene, eventually, gateway, scene
from tests.running import ALL
from tests.servers.raw import answers, hangs

STRANGE = {"integrity": "untrusted", "confidentiality": "private"}
TOOLS = {
    "located": {"effect": "read", "result": STRANGE},
    "amounts": {"effect": "egress", "destination": ["to"], "payload": ["body"]},
}
FIRST = "friend@elsewhere.example"
STRANGER = "stranger@elsewhere.example"
"""Whom no call named before anything strange was read."""


AT_FRONT: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tools/list", {}),
    ("resources/list", {}),
    ("server/discover", {}),
    ("tools/call", {"name": "raw__allowed", "arguments": {"text": "x"}}),
    ("tools/call", {"name": "allowed", "arguments": {"text": "x"}}),
    ("tools/call", {"name": "search_tools", "arguments": {"query": "allowed"}}),
    ("tools/call", {"name": "call_tool", "arguments": {"name": "raw__allowed", "arguments": {}}}),
)


@contextmanager
def killed_and_restarted(at: Scene, folder: Path) -> Iterator[Scene]:
    """Kill the gateway and run another one on its files and ports."""
    at.running.process.kill()
    at.running.process.wait()
    urls = (at.running.url, at.running.admin_url)
    ports = tuple(int(urlsplit(url).port or 0) for url in urls)
    with gateway(folder, at.raw, tools=TOOLS, ports=ports) as running:
        yield Scene(running=running, raw=at.raw)


def in_session(at: Scene, session: str, tool: str, to: str = FIRST) -> Answered:
    params = {"name": tool, "arguments": {"to": to, "body": "hello"}}
    return at.poster.legacy("tools/call", params, ("Mcp-Session-Id", session))


def test_a_session_and_the_labels_of_runs_outlive_the_process(tmp_path: Path) -> None:
    with scene(tmp_path, tools=TOOLS) as at:
        session = at.poster.session()
        assert in_session(at, session, "amounts").refusal is None
        assert in_session(at, session, "located").refusal is None
        assert in_session(at, session, "amounts", STRANGER).refusal == "approval_required"
        before = at.log()[-1]
        assert at.call("located").code is None  # without a session: the run of the whole grant
        with killed_and_restarted(at, tmp_path) as after:
            assert in_session(after, session, "allowed").refusal is None
            assert in_session(after, session, "amounts", STRANGER).refusal == "approval_required"
            last = after.log()[-1]
            assert (last["run"], last["label_before"]) == (before["run"], before["label_before"])
            assert last["label_before"] == STRANGE
            calls = [one for one in at.raw.seen if b"tools/call" in one.body]
            sessions = [one.headers.get("mcp-session-id") for one in calls]
            # The upstream's own session, before and after, and never ours.
            theirs = sessions[0]
            assert sessions == [theirs, theirs, None, theirs]
            assert theirs not in {None, session}
            assert (
                after.call("amounts", {"to": STRANGER, "body": "hello"}).code == "approval_required"
            )
            assert after.verified() == ""


def test_a_session_that_the_upstream_has_forgotten_is_said_to_be_gone(at: Scene) -> None:
    session = at.poster.session()
    at.raw.play(instead("tools/call", answers(status=404, media=None)))
    assert in_session(at, session, "allowed").status == 404
    at.raw.forget()
    begun = at.poster.session()
    assert in_session(at, begun, "allowed").refusal is None


def test_a_call_under_way_when_the_process_is_killed_stays_an_intent(tmp_path: Path) -> None:
    with scene(tmp_path, tools=TOOLS, limits={"upstream_idle": "60s"}) as at:
        at.raw.play(instead("tools/call", hangs))
        got: list[object] = []

        def call() -> None:
            try:
                got.append(at.call().answered.status)
            except (OSError, http.client.HTTPException) as error:
                got.append(error)

        calling = threading.Thread(target=call)
        calling.start()
        assert eventually(lambda: "tools/call" in at.raw.methods)
        with killed_and_restarted(at, tmp_path) as after:
            calling.join(timeout=60)
            assert got
            assert got != [200]  # the connection ended: the client knows that it knows nothing
            intents = [one for one in after.log() if one["kind"] == "intent"]
            assert [one["target"] for one in intents] == ["allowed"]
            decided = [one["decision_id"] for one in after.log() if one["kind"] == "outcome"]
            assert intents[0]["decision_id"] not in decided
            (stats,) = after.running.rows("audit", "stats")
            assert stats["outcome_unknown"] == 1
            assert at.raw.methods.count("tools/call") == 1  # and nobody sends it again


def test_a_stop_outlives_reloads_and_restarts_and_is_undone_without_a_gateway(
    tmp_path: Path,
) -> None:
    with scene(tmp_path, tools=TOOLS) as at:
        done = at.running.douane("policy", "stop", "--note", "a token is public")
        assert done.returncode == 0, done.stderr
        assert at.call().code == "policy_stopped"
        front = Poster(Corridor(at.running), ALL)
        for method, params in AT_FRONT:
            assert front.modern(method, params).refusal == "policy_stopped", method
        assert at.raw.methods.count("tools/call") == 0
        os.kill(at.running.process.pid, signal.SIGHUP)
        query = ("audit", "query", "--code", "reloaded")
        assert eventually(lambda: bool(at.running.rows(*query)))
        assert at.call().code == "policy_stopped"
        with killed_and_restarted(at, tmp_path) as after:
            assert after.call().code == "policy_stopped"
            (status,) = after.running.rows("policy", "status")
            assert (status["stopped"], status["stopped_note"]) == (True, "a token is public")
            assert "every call is refused, stopped by" in after.running.log
            after.running.process.kill()
            after.running.process.wait()
            undone = after.running.douane("policy", "go", "--note", "replaced")
            assert undone.returncode == 0, undone.stderr
            with killed_and_restarted(after, tmp_path) as last:
                assert last.call().code is None
                told = [one["code"] for one in last.log() if one["kind"] == "admin"]
                assert told[-1] == "all_go"
                assert "all_stopped" in told
                assert last.verified() == ""
