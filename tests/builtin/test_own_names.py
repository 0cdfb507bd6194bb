"""The gateway's own tools keep their names, whoever else is called so and whatever servers are chosen."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.builtin.descriptions import Mode
from gateway.domain.decisions import Verdict
from gateway.domain.programs import SandboxLimits
from gateway.domain.tools import OWN, Profile
from gateway.sandbox.monty import monty_engine
from gateway.wire.own_abilities import session_for
from gateway.wire.own_session import nonce_after
from tests.builtin.front import NOTES, OWN_TOOLS, WHOLE, Site, speaks, tool
from tests.pipeline.house import ALICE, decision

ON = replace(WHOLE, mode=Mode.ON)


@asynccontextmanager
async def with_programs(folder: Path, **more: Any) -> AsyncIterator[Site]:
    limits = SandboxLimits(wall_s=10.0, interpreter_s=2.0)
    async with monty_engine(limits, folder, warm=0, type_check=False) as engine:
        site = await Site(engine=engine, **more).furnish()
        try:
            yield site
        finally:
            await site.aclose()


@pytest.mark.parametrize("name", ["run_code", *OWN_TOOLS])
async def test_no_server_takes_over_a_name_of_ours(tmp_path: Path, name: str) -> None:
    async with with_programs(tmp_path, priority=["notes"]) as site:
        await site.show(NOTES, tool("read"), tool("search"), tool(name))
        for server in site.servers.values():
            server.answer = speaks()
        before = len(site.house.audit.records)
        await site.ask("tools/call", {"name": name, "arguments": {"code": "'the secret plan'"}})
        assert [one for server in site.servers.values() for one in server.saw] == []
        targets = {one.fields.get("target") for one in site.house.audit.records[before:]}
        assert targets - {None} == {name}


async def test_a_tool_of_ours_that_policy_hides_is_not_described_either(tmp_path: Path) -> None:
    async with with_programs(tmp_path, described=ON) as site:
        site.house.rule.says = lambda question: (
            decision(Verdict.DENY, "no_code")
            if question["target"]["server"] == OWN
            else Verdict.ALLOW
        )
        uri = "resource:///tool_descriptions?tools=run_code,run_cade"
        seen = await site.ask("resources/read", {"uri": uri})
        told = json.loads(seen.json["result"]["contents"][0]["text"])
        assert told["run_code"]["error"] == "Tool 'run_code' not found"
        assert told["run_code"]["available_tools"] == told["run_cade"]["available_tools"]
        assert "run_code" not in told["run_code"]["available_tools"]


async def test_whoever_chooses_servers_keeps_the_tools_that_are_no_servers(tmp_path: Path) -> None:
    async with with_programs(tmp_path) as site:
        site.house.gate.people["alice"] = replace(ALICE, scopes=ALICE.scopes | {"servers:manage"})
        chosen = {"name": "disable_server", "arguments": {"servers": ["notes"]}}
        await site.ask("tools/call", chosen)
        session = session_for({}, nonce_after(1, "n"), site.house.clock())
        here: dict[str, Any] = {"profile": Profile.LEGACY, "session": session}
        listed = await site.names(**here)
        assert "run_code" in listed
        assert not any(name.startswith("notes__") for name in listed)
        program = {"name": "run_code", "arguments": {"code": "1 + 1"}}
        seen = await site.ask("tools/call", program, **here)
        assert json.loads(seen.json["result"]["content"][0]["text"])["value"] == 2
