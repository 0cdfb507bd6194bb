"""The part of the story in which a server answers late: one call, whenever its answer comes."""

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any

import httpx2

from gateway.wire.extensions import TASKS
from tests.demo.desk import token
from tests.demo.stage import Stage
from tests.demo.steps import expect
from tests.running import Running

REVISION = "2026-07-28"
DECLARED = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}},
}
PROGRAM = 'from tools import builds\nawait builds.build(branch="main")'


def late(built: Stage) -> None:
    """Play it: a build is begun, looked at and done; and a program that knows nothing of that."""
    gateway = built.gateway
    print("A server takes its time, and answers late")
    gateway.approve_all("builds")
    call = {"name": "builds__build", "arguments": {"branch": "main"}}
    begun = asked(gateway, "tools/call", call, "builds__build")
    expect("the client gets a task", begun.get("resultType") == "task")
    handle = begun["taskId"]
    told = asked(gateway, "tasks/get", {"taskId": handle}, handle)
    while told["status"] == "working":
        time.sleep(told["pollIntervalMs"] / 1000)
        told = asked(gateway, "tasks/get", {"taskId": handle}, handle)
    expect("its result comes when it is done", "all green" in json.dumps(told["result"]))
    rows = gateway.rows("audit", "query", "--tool", "build", "--server", "builds")
    ends = [row for row in rows if row["kind"] == "outcome"]
    begins = [row for row in rows if row["kind"] == "intent"]
    expect(
        "the log has one call: its intent when it went out, its outcome when it came",
        [row["code"] for row in ends] == ["task_completed"]
        and [row["decision_id"] for row in begins] == [ends[0]["decision_id"]],
    )
    program = {"name": "run_code", "arguments": {"code": PROGRAM}}
    found = asked(gateway, "tools/call", program, "run_code")
    value = json.loads(found["content"][0]["text"])["value"]
    expect("a program waits for it, and knows of no task", "all green" in str(value))


def asked(gateway: Running, method: str, params: Mapping[str, Any], name: str) -> Any:
    """Return the result of one request in front of all servers, as a stateless client makes it."""
    return asyncio.run(_asked(gateway, method, params, name))


async def _asked(gateway: Running, method: str, params: Mapping[str, Any], name: str) -> Any:
    headers = {
        "Authorization": f"Bearer {token(gateway)}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": REVISION,
        "Mcp-Method": method,
        "Mcp-Name": name,
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": DECLARED}}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        answered = await http.post(f"{gateway.url}/mcp", json=message)
    return answered.json()["result"]
