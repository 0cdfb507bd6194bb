"""A person answers once and not for ever: by the command line, the shipped policy, over a restart."""

from pathlib import Path
from typing import Any

from tests.e2e.posting import Poster
from tests.e2e.scripted import Raw
from tests.e2e.site import FOREIGN, OURS, Corridor
from tests.running import Running, running_gateway
from tests.servers.process import free_ports

SENDS = {"effect": "egress", "destination": ["text"], "result": OURS}


def test_an_answer_stands_over_a_restart_until_a_person_ends_it(
    tmp_path: Path, session_raw: Raw
) -> None:
    servers = {
        "raw": {
            "url": session_raw.url,
            "defaults": OURS,
            "tools": {"allowed": SENDS, "page": FOREIGN},
        }
    }
    ports = free_ports()
    with running_gateway(tmp_path, servers, ports=ports) as running:
        running.approve_all("raw")
        poster = Poster(Corridor(running), "raw")
        assert poster.call("page", {"text": "anything"}).refusal is None
        id_ = asked(poster, "eve@outside.example")
        (row,) = running.rows("approvals", "allow", id_, "--standing", "--note", "always")
        assert (row["state"], row["span"]) == ("allowed", "standing")
        for _ in range(2):
            assert poster.call("allowed", {"text": "eve@outside.example"}).refusal is None
        asked(poster, "bob@outside.example")
        assert [(one["by"], one["answer"]) for one in sent(running)] == [("standing", id_)] * 2
    with running_gateway(tmp_path, servers, ports=ports) as running:
        poster = Poster(Corridor(running), "raw")
        assert poster.call("page", {"text": "anything"}).refusal is None
        assert poster.call("allowed", {"text": "eve@outside.example"}).refusal is None
        assert [one["id"] for one in running.rows("approvals", "standing", "list")] == [id_]
        assert running.douane("approvals", "standing", "end", id_).returncode == 0
        asked(poster, "eve@outside.example")
        assert running.rows("approvals", "standing", "list") == []


def asked(poster: Poster, text: str) -> str:
    """Make a call that is asked about; return the question's id."""
    refusal = poster.call("allowed", {"text": text}).json["result"]["_meta"]["douane/refusal"]
    assert (refusal["code"], refusal["reasons"][0]["code"]) == (
        "approval_required",
        "unproven_destination",
    )
    id_: str = refusal["approval_id"]
    return id_


def sent(running: Running) -> list[dict[str, Any]]:
    """Return the destinations of the calls that went out to where a person answered for."""
    rows = running.rows("audit", "query", "--where", "kind = intent and target = allowed")
    return [one for row in rows for one in row["destinations"]]
