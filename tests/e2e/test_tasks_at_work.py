"""A real gateway in front of a server that answers late: over a kill, for many who look, for nobody else."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from aiohttp import web

from gateway.wire.extensions import TASKS
from tests.e2e.posting import META, MODERN, Poster
from tests.e2e.scripted import FRESH, Raw, answer, behaves, raw_in_a_thread, told
from tests.e2e.site import SERVERS, Corridor
from tests.e2e.sockets import Answered
from tests.running import ALL, running_gateway
from tests.servers.process import free_ports

DECLARED = {**META, "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}}}
LOOKS = 400
LISTEN = "subscriptions/listen"


class Late:
    """A server whose one tool answers late; it knows what it has begun as long as it runs."""

    def __init__(self, raw: Raw, poll_ms: int = 60_000) -> None:
        self.poll_ms = poll_ms
        self.status, self.more = "working", dict[str, Any]()
        self.looks = 0
        raw.play(self.script)

    async def script(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        message = json.loads(body) if body else {}
        frame = {"taskId": "theirs", "createdAt": "2026-11-28T10:00:00Z", "ttlMs": 600_000}
        match message.get("method"):
            case "tools/call":
                begun = {**frame, "status": "working", "pollIntervalMs": self.poll_ms}
                return answer(message, {**begun, "resultType": "task"})
            case "tasks/get":
                assert request.headers["mcp-name"] == message["params"]["taskId"] == "theirs"
                self.looks += 1
                return answer(message, {**frame, **FRESH, "status": self.status, **self.more})
            case _:
                return await behaves(request)


@pytest.fixture(scope="module")
def raw_server() -> Iterator[Raw]:
    with raw_in_a_thread() as raw:
        yield raw


@contextmanager
def gateway_of(
    folder: Path, raw: Raw, policies: Path, ports: tuple[int, int]
) -> Iterator[Corridor]:
    began_before = (folder / "data").exists()
    server = {"url": raw.url, **SERVERS["raw"], "extensions": [TASKS]}
    limits = {"calls_per_minute": 100_000}
    with running_gateway(
        folder, {"raw": server}, policies=policies, ports=ports, limits=limits
    ) as running:
        if not began_before:
            running.approve_all("raw")
        yield Corridor(running)


def asked(poster: Poster, method: str, params: dict[str, Any], name: str) -> Answered:
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, "_meta": DECLARED}}
    mirrored = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", method), ("Mcp-Name", name)]
    return poster.post(json.dumps(body).encode(), *mirrored)


def looked(poster: Poster, handle: str) -> dict[str, Any]:
    found: dict[str, Any] = asked(poster, "tasks/get", {"taskId": handle}, handle).messages[0]
    return found


def of_kind(gateway: Corridor, kind: str) -> list[dict[str, Any]]:
    """Return the records of this kind about the tool that answers late."""
    rows = gateway.running.rows("audit", "query", "--tool", "allowed")
    return [row for row in rows if row["kind"] == kind]


def test_a_task_outlives_the_gateway_and_is_one_call_on_record(
    tmp_path: Path, policies: Path, raw_server: Raw
) -> None:
    late, ports = Late(raw_server), free_ports()
    with gateway_of(tmp_path / "g", raw_server, policies, ports) as gateway:
        alice = Poster(gateway, "raw")
        params = {"name": "allowed", "arguments": {"text": "build it"}}
        handle = asked(alice, "tools/call", params, "allowed").messages[0]["result"]["taskId"]
        (intent,) = of_kind(gateway, "intent")
        assert looked(alice, handle)["result"]["status"] == "working"
        gateway.running.process.kill()
        gateway.running.process.wait()
    late.status, late.more = "completed", {"result": told("built")}
    with gateway_of(tmp_path / "g", raw_server, policies, ports) as gateway:
        bob = Poster(gateway, "raw", name="bob")
        stranger = looked(bob, handle)["error"]
        assert (stranger["code"], stranger["message"]) == (-32602, "Task not found")
        result = looked(alice, handle)["result"]
        assert result["result"]["content"] == told("built")["content"]
        (outcome,) = of_kind(gateway, "outcome")
        assert (outcome["decision_id"], outcome["code"]) == (
            intent["decision_id"],
            "task_completed",
        )
        assert gateway.running.douane("audit", "verify").returncode == 0


def test_many_looks_are_few_records_and_a_client_that_is_removed_has_none(
    tmp_path: Path, policies: Path, raw_server: Raw
) -> None:
    late, ports = Late(raw_server), free_ports()
    with gateway_of(tmp_path / "g", raw_server, policies, ports) as gateway:
        alice = Poster(gateway, "raw")
        params = {"name": "allowed", "arguments": {"text": "build it"}}
        handle = asked(alice, "tools/call", params, "allowed").messages[0]["result"]["taskId"]
        before = len(gateway.running.rows("audit", "query", "--limit", "1000"))
        for _ in range(LOOKS):
            assert looked(alice, handle)["result"]["status"] == "working"
        after = len(gateway.running.rows("audit", "query", "--limit", "1000"))
        assert (late.looks, after - before < 10) == (1, True)
        client = gateway.running.client("raw")["client_id"]
        assert gateway.running.douane("clients", "remove", client).returncode == 0
        assert asked(alice, "tasks/get", {"taskId": handle}, handle).status == 401
        assert late.looks == 1


def test_who_listens_in_front_of_all_is_told_how_it_ends(
    tmp_path: Path, policies: Path, raw_server: Raw
) -> None:
    late, ports = Late(raw_server, poll_ms=100), free_ports()
    with gateway_of(tmp_path / "g", raw_server, policies, ports) as gateway:
        alice = Poster(gateway, ALL)
        params = {"name": "raw__allowed", "arguments": {"text": "build it"}}
        begun = asked(alice, "tools/call", params, "raw__allowed").messages[0]["result"]
        late.status, late.more = "working", {"statusMessage": "half of it is built"}
        wanted = {"notifications": {"taskIds": [begun["taskId"]]}, "_meta": DECLARED}
        body = {"jsonrpc": "2.0", "id": 7, "method": LISTEN, "params": wanted}
        headers = {**dict(alice.fields), "Content-Type": "application/json"}
        headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": LISTEN}
        with (
            httpx2.Client(timeout=60) as http,
            http.stream("POST", alice.url, content=json.dumps(body), headers=headers) as stream,
        ):
            lines = (line[6:] for line in stream.iter_lines() if line.startswith("data: "))
            messages = map(json.loads, lines)
            assert next(messages)["params"]["notifications"] == {"taskIds": [begun["taskId"]]}
            assert next(messages)["params"]["statusMessage"] == "half of it is built"
            late.status, late.more = "completed", {"result": told("built")}
            found = next(messages)
        assert (found["method"], found["params"]["status"]) == ("notifications/tasks", "completed")
        assert found["params"]["result"]["content"] == told("built")["content"]
        (outcome,) = of_kind(gateway, "outcome")
        assert outcome["code"] == "task_completed"
