"""SIGTERM lets calls finish; SIGKILL loses nothing that was promised."""

import asyncio
import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from aiohttp import web

from tests.e2e.own import own_gateway, soon
from tests.e2e.posting import LEGACY, META, Poster, mirrored
from tests.e2e.scripted import Raw, behaves, instead, opened, raw_in_a_thread, released
from tests.e2e.site import Corridor
from tests.e2e.sockets import exchange, head
from tests.servers.process import free_ports


@pytest.fixture(scope="module")
def module_raw() -> Iterator[Raw]:
    with raw_in_a_thread() as raw:
        yield raw


def readiness(gateway: Corridor) -> tuple[int, dict[str, Any]]:
    """Return the status and the body of /readyz; 0 if nobody answers."""
    try:
        with urllib.request.urlopen(f"{gateway.running.admin_url}/readyz", timeout=60) as answered:
            return answered.status, json.load(answered)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)
    except OSError:
        return 0, {}


def labels(gateway: Corridor) -> dict[str, tuple[str, str]]:
    return {
        row["run"]: (row["integrity"], row["confidentiality"])
        for row in gateway.running.rows("runs", "list")
    }


def refuses_connections(gateway: Corridor) -> bool:
    parts = urlsplit(gateway.url)
    try:
        socket.create_connection((parts.hostname, parts.port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


async def call_slowly(poster: Poster) -> httpx2.Response:
    params = {"name": "slow", "arguments": {"text": "the last one"}, "_meta": META}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {**dict(poster.fields), **dict(mirrored("tools/call", params))}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        return await http.post(poster.url, json=message)


async def test_sigterm_lets_a_call_finish_and_takes_no_other(
    tmp_path: Path, policies: Path, module_raw: Raw
) -> None:
    gate = threading.Event()

    async def waits(request: web.Request) -> web.StreamResponse:
        await opened(gate)
        return await behaves(request)

    with own_gateway(tmp_path / "g", module_raw, policies) as gateway:
        module_raw.play(instead("tools/call", waits))
        poster = Poster(gateway, "raw")
        assert readiness(gateway)[0] == 200
        async with released(gate):
            calling = asyncio.create_task(call_slowly(poster))
            await module_raw.until("tools/call")
            gateway.running.process.terminate()
            _, told = await soon(lambda: (now := readiness(gateway))[0] == 503 and now)
            assert told["checks"] == {"drain": "the gateway is stopping"}
            await soon(lambda: refuses_connections(gateway))
            assert not calling.done()
            gate.set()
            answered = await calling
        assert answered.status_code == 200
        assert "the last one" in answered.json()["result"]["content"][0]["text"]
        assert await asyncio.to_thread(gateway.running.process.wait, 30) == 0
        print(gateway.running.log)
        query = ("audit", "query", "--tool", "slow", "--limit", "2")
        outcome, intent = gateway.running.rows(*query)
        assert (intent["kind"], outcome["kind"]) == ("intent", "outcome")
        assert outcome["decision_id"] == intent["decision_id"]
        assert outcome["upstream_status"] == 200
        assert gateway.running.douane("audit", "verify").returncode == 0


async def test_sigterm_does_not_wait_for_whoever_only_listens(
    tmp_path: Path, policies: Path, module_raw: Raw
) -> None:
    async def says_nothing(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await asyncio.Event().wait()
        return response

    with own_gateway(tmp_path / "g", module_raw, policies) as gateway:
        module_raw.play(instead("GET", says_nothing))
        poster = Poster(gateway, "raw")
        session = ("Mcp-Session-Id", poster.session())
        listening = asyncio.create_task(asyncio.to_thread(poster.get, session))
        await module_raw.until("GET")
        gateway.running.process.terminate()
        answered = await listening  # to its proper end: one that was cut off would raise
        assert (answered.status, answered.body) == (200, b"")
        assert await asyncio.to_thread(gateway.running.process.wait, 30) == 0
        assert "exceeded" not in gateway.running.log
        assert "Traceback" not in gateway.running.log
        query = ("audit", "query", "--where", "method = GET", "--limit", "1")
        (record,) = gateway.running.rows(*query)
        assert (record["kind"], record["code"]) == ("outcome", "stream_ended")


async def test_sigkill_loses_no_pin_no_client_no_label_and_no_record(
    tmp_path: Path, policies: Path, module_raw: Raw
) -> None:
    ports = free_ports()
    gate = threading.Event()

    async def waits(request: web.Request) -> web.StreamResponse:
        await opened(gate)
        return await behaves(request)

    with own_gateway(tmp_path / "g", module_raw, policies, ports=ports) as gateway:
        poster = Poster(gateway, "raw")
        session = ("Mcp-Session-Id", poster.session())
        ended = ("Mcp-Session-Id", poster.session())
        deleting = [*poster.fields, ("MCP-Protocol-Version", LEGACY), ended]
        assert exchange(poster.url, head("DELETE", poster.path, deleting)).status == 200
        assert poster.legacy("ping", None, ended).status == 404
        remove = {"name": "remove", "arguments": {}}
        assert poster.legacy("tools/call", remove, session).refusal is None
        page = {"name": "page", "arguments": {}}
        assert poster.legacy("tools/call", page, session).refusal is None
        assert poster.legacy("tools/call", remove, session).refusal == "approval_required"
        (before,) = gateway.running.rows("audit", "query", "--tool", "page", "--limit", "1")
        pins = gateway.running.rows("pins", "list")
        clients = gateway.running.rows("clients", "list")
        runs = labels(gateway)
        module_raw.forget()
        module_raw.play(instead("tools/call", waits))
        async with released(gate):
            calling = asyncio.create_task(call_slowly(poster))
            await module_raw.until("tools/call")
            gateway.running.process.kill()
            with pytest.raises(httpx2.TransportError):
                await calling
        gateway.running.process.wait()
    module_raw.forget()
    with own_gateway(tmp_path / "g", module_raw, policies, ports=ports) as gateway:
        assert gateway.running.rows("pins", "list") == pins
        assert gateway.running.rows("clients", "list") == clients
        assert runs.items() <= labels(gateway).items()
        # A server that keeps sessions which were ended has them kept by nobody else.
        assert poster.legacy("ping", None, ended).status == 404
        # The same token, the same session; what the run has read, it still has read.
        assert poster.legacy("tools/call", remove, session).refusal == "approval_required"
        (after,) = gateway.running.rows("audit", "query", "--tool", "remove", "--limit", "1")
        assert (after["run"], after["label_before"]) == (before["run"], before["label_after"])
        assert poster.legacy("tools/call", page, session).refusal is None
        kinds = [row["kind"] for row in gateway.running.rows("audit", "query", "--tool", "slow")]
        assert kinds == ["intent", "pin", "pin", "pin", "pin"]  # how it ended, nobody knows
        assert gateway.running.douane("audit", "verify").returncode == 0
