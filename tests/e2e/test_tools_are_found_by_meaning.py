"""A running gateway with the operator's model and subagent: what answers, before and after approval."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.demo.client import connected
from tests.e2e.conftest import policies_in
from tests.e2e.site import SERVERS
from tests.e2e.test_python_clients import text_of
from tests.running import ALL, running_gateway
from tests.search.weights import MODEL, MODEL_DIGEST
from tests.servers.process import RunningServer
from tests.upstream.outside import answer, web_server

MEANT = {"query": "erase a memo", "detail": "name", "limit": 3}


async def test_a_request_is_understood_once_what_was_approved_has_been_read(
    tmp_path: Path, notes: RunningServer
) -> None:
    if not MODEL.exists():
        pytest.skip("the weights are not installed: make model")
    chosen = json.dumps({"tools": ["notes__read_note", "notes__always_fails", "nope"]})
    async with web_server(answer(chosen.encode())) as subagent:
        discovery = {
            "model": {"path": str(MODEL.parent), "digest": MODEL_DIGEST},
            "subagent": {"url": f"http://127.0.0.1:{subagent.port}/"},
        }
        gateway = running_gateway(
            tmp_path,
            {"notes": {"url": notes.url, **SERVERS["notes"]}},
            policies=policies_in(tmp_path),
            discovery=discovery,
        )
        with gateway as running:
            await asyncio.to_thread(running.approve_all, "notes")
            token = await asyncio.to_thread(running.token, ALL)
            async with connected(f"{running.url}/mcp", token, "auto") as client:

                async def search(**more: Any) -> Any:
                    wanted = {**MEANT, **more}
                    return json.loads(text_of(await client.call_tool("search_tools", wanted)))

                async with asyncio.timeout(60):
                    while (await search())["answered_by"] != "hybrid":
                        await asyncio.sleep(0.2)
                assert (await search())["servers"]["notes"][0] == "notes__delete_note"
                assert (await search(strategy="keyword"))["found"] == 0
                assert subagent.requests == []
                found = await search(strategy="subagent")
                assert (found["answered_by"], found["servers"]) == (
                    "subagent",
                    {"notes": ["notes__read_note"]},
                )
        sent = json.loads(subagent.requests[0].partition(b"\r\n\r\n")[2])
        names = [tool["name"] for tool in sent["tools"]]
        assert "notes__write_note" in names
        assert "notes__always_fails" not in names


def test_a_gateway_whose_model_is_another_one_does_not_start(
    tmp_path: Path, notes: RunningServer
) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"another one")
    model = {"path": str(tmp_path), "digest": MODEL_DIGEST}
    servers = {"notes": {"url": notes.url}}
    with (
        pytest.raises(RuntimeError, match=r"discovery.model: .* is not what was pinned"),
        running_gateway(tmp_path, servers, discovery={"model": model}),
    ):
        pytest.fail("it started")
