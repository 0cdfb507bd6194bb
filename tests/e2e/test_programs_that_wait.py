"""Programs that wait for a person over the end of a gateway, and code mode switched on and off."""

import json
import signal
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.demo.client import connected
from tests.e2e.conftest import policies_in
from tests.e2e.own import edit, until
from tests.e2e.posting import Poster
from tests.e2e.site import SERVERS, Corridor
from tests.e2e.test_python_clients import text_of
from tests.running import ALL, EVERY_SCOPE, Running, running_gateway
from tests.servers.fixtures import own_notes
from tests.servers.process import RunningServer, free_ports
from tests.told import each_call

__all__ = ["own_notes"]

SCOPES = (*EVERY_SCOPE, "code:run")
ASKS = """\
package douane

ask contains {"code": "a_second_look", "message": "a person looks at these"} if {
	input.phase == "call"
	input.target.name == "write_note"
	startswith(input.arguments.name, "asked")
}
"""
SETTINGS: Mapping[str, Any] = {
    "limits": {"calls_per_minute": 100_000},
    "pins": {"recheck": "1h", "fresh": "1h"},
}
WRITES = """\
from tools import notes

before = await notes.read_note(name='welcome')
await notes.write_note(name='plain-{name}', text='written once')
try:
    said = await notes.write_note(name='asked-{name}', text=before['result'])
except RuntimeError as error:
    said = str(error)
['a-marker-of-the-program', said]
"""


async def asked(site: Corridor, arguments: Mapping[str, Any], *, name: str = "programmer") -> Any:
    """Call `run_code`; return what is told of the program, or the text where that is no JSON."""
    token = site.token(ALL, name=name, scopes=SCOPES)
    async with connected(site.endpoint(ALL), token, "2026-07-28") as client:
        text = text_of(await client.call_tool("run_code", dict(arguments)))
    return json.loads(text) if text.startswith("{") else text


def kept_in(folder: Path) -> bytes:
    """Return all that the gateway has written into its folder."""
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


async def test_a_program_that_waits_goes_on_after_a_restart_with_a_yes_and_with_a_no(
    tmp_path: Path, own_notes: RunningServer
) -> None:
    policies = policies_in(tmp_path)
    (policies / "asks.rego").write_text(ASKS)
    ports = free_ports()
    servers = {"notes": {"url": own_notes.url, **SERVERS["notes"]}}
    settings = {**SETTINGS, "policies": policies, "ports": ports, "code": {"enabled": True}}
    with running_gateway(tmp_path / "gateway", servers, **settings) as running:
        running.approve_all("notes")
        site = Corridor(running)
        parked = {
            name: await asked(site, {"code": WRITES.replace("{name}", name)}) for name in "ab"
        }
    for found in parked.values():
        assert found["status"] == "awaiting_approval"
        assert [one["state"] for one in each_call(found)] == ["done", "done", "awaiting_approval"]
        assert found["side_effects"] == [2]
        assert found["run"] in found["next"]
    # Programs and what they hold are kept, and nobody can read them there.
    assert b"a-marker-of-the-program" not in kept_in(tmp_path / "gateway" / "data")

    with running_gateway(tmp_path / "gateway", servers, **settings) as running:
        site = Corridor(running)
        (yes,), (no,) = (parked[name]["waits_for"] for name in "ab")
        waiting = {row["id"]: row for row in running.rows("approvals", "list")}
        assert waiting.keys() == {yes, no}
        too_early = await asked(site, {"resume": parked["a"]["run"]})
        assert (too_early["status"], too_early["waits_for"]) == ("awaiting_approval", [yes])
        stranger = await asked(site, {"resume": parked["a"]["run"]}, name="stranger")
        assert "of yours waits" in stranger
        assert running.douane("approvals", "allow", yes).returncode == 0
        assert running.douane("approvals", "deny", no).returncode == 0
        allowed = await asked(site, {"resume": parked["a"]["run"]})
        refused = await asked(site, {"resume": parked["b"]["run"]})
        again = await asked(site, {"resume": parked["a"]["run"]})
        rows = running.rows("audit", "query", "--tool", "write_note")

    assert allowed["value"] == ["a-marker-of-the-program", {"result": "written: asked-a"}]
    assert [one["state"] for one in each_call(allowed)] == ["done"] * 3
    assert refused["status"] == "ok"
    assert refused["value"][1].startswith("ToolError[denied] notes.write_note: ")
    assert [one["state"] for one in each_call(refused)] == ["done", "done", "refused"]
    assert "of yours waits" in again
    sent = [row for row in rows if row["kind"] == "intent"]
    assert len(sent) == 3  # two plain ones before, and the one that was allowed
    assert [row["seq"] for row in sent] == [3, 2, 2]


def ready(running: Running) -> Any:
    with urllib.request.urlopen(f"{running.admin_url}/readyz", timeout=60) as answer:
        return json.load(answer)


def names(poster: Poster) -> set[str]:
    listed = poster.modern("tools/list", {}).json["result"]["tools"]
    return {tool["name"] for tool in listed}


async def test_a_program_that_somebody_revoked_goes_on_nowhere(
    tmp_path: Path, own_notes: RunningServer
) -> None:
    policies = policies_in(tmp_path)
    (policies / "asks.rego").write_text(ASKS)
    ports = free_ports()
    servers = {"notes": {"url": own_notes.url, **SERVERS["notes"]}}
    settings = {**SETTINGS, "policies": policies, "ports": ports, "code": {"enabled": True}}
    with running_gateway(tmp_path / "gateway", servers, **settings) as running:
        running.approve_all("notes")
        site = Corridor(running)
        parked = await asked(site, {"code": WRITES.replace("{name}", "c")})
        (listed,) = running.rows("runs", "programs")
        assert (listed["script"], listed["waits"]) == (parked["run"], True)
        (done,) = running.rows("runs", "revoke", parked["run"], "--note", "enough")
        assert done["revoked"] is True
        (word,) = running.rows("audit", "query", "--where", "method = runs.revoke")
        assert (word["code"], word["run"]) == ("revoked", listed["run"])
        assert running.douane("approvals", "allow", parked["waits_for"][0]).returncode == 0
        assert "of yours waits" in await asked(site, {"resume": parked["run"]})
    with running_gateway(tmp_path / "gateway", servers, **settings) as running:
        site = Corridor(running)
        assert running.rows("runs", "programs") == []
        assert "of yours waits" in await asked(site, {"resume": parked["run"]})
        assert running.douane("runs", "revoke", parked["run"]).returncode == 1
        rows = running.rows("audit", "query", "--tool", "write_note")
    assert len([row for row in rows if row["kind"] == "intent"]) == 1


async def test_code_mode_is_switched_on_and_off_while_the_gateway_runs(
    tmp_path: Path, notes: RunningServer
) -> None:
    servers = {"notes": {"url": notes.url, **SERVERS["notes"]}}
    with running_gateway(
        tmp_path / "gateway", servers, policies=policies_in(tmp_path), **SETTINGS
    ) as running:
        running.approve_all("notes")
        site = Corridor(running)
        poster = Poster(site, ALL)
        poster.token = site.token(ALL, name="programmer", scopes=SCOPES)

        def switch(*, on: bool) -> None:
            edit(site, lambda content: content.update(code={"enabled": on}))
            running.process.send_signal(signal.SIGHUP)
            until(lambda: ("run_code" in names(poster)) is on)

        code = "import tools\n(await tools.notes.read_note(name='welcome'))['result']"
        assert "run_code" not in names(poster)
        assert poster.call("run_code", {"code": code}).refusal == "unknown_tool"
        assert "programs" not in ready(running)
        switch(on=True)
        assert ready(running)["programs"].startswith(("jailed", "not jailed: "))
        assert (await asked(site, {"code": code}))["value"] == "This is your first note."
        switch(on=False)
        assert poster.call("run_code", {"code": code}).refusal == "unknown_tool"
