"""A server that answers late, behind a house, and whoever asks it."""

import json
from collections.abc import Mapping
from typing import Any

from gateway.domain.calls import Permit, RawAnswer
from gateway.wire.extensions import TASKS
from tests.pipeline.house import House, Seen, result, whole

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META: dict[str, Any] = {CAPABILITIES: {"extensions": {TASKS: {}}, "elicitation": {}}}
UPSTREAM = "their-own-id-0001"
ASKS = {"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema": {}}}


class Works:
    """A server that answers late: what it says of its one task is what a test sets."""

    def __init__(self, house: House) -> None:
        self.status = "working"
        self.more: dict[str, Any] = {}
        self.saw: list[tuple[str, Mapping[str, Any]]] = []
        self.begins: dict[str, Any] = {"status": "working", "ttlMs": 600_000, "pollIntervalMs": 100}
        self.error: dict[str, Any] | None = None
        house.server.answer = self.answer

    def answer(self, permit: Permit) -> RawAnswer:
        message = permit.call.message
        self.saw.append((message.method, message.params))
        if message.method == "tools/call":
            return result(permit, {"resultType": "task", "taskId": UPSTREAM, **self.begins})
        if self.error is not None:
            return error(permit, self.error)
        if message.method != "tasks/get":
            return result(permit, {"resultType": "complete"})
        return result(
            permit,
            {
                "resultType": "complete",
                "taskId": message.params["taskId"],
                "status": self.status,
                "createdAt": "2026-11-28T10:00:00Z",
                "lastUpdatedAt": "2026-11-28T10:00:00Z",
                "ttlMs": 600_000,
                **self.more,
            },
        )

    def completes(self, content: Mapping[str, Any]) -> None:
        self.status, self.more = "completed", {"result": content}


def error(permit: Permit, content: Mapping[str, Any]) -> RawAnswer:
    body = {"jsonrpc": "2.0", "id": permit.call.message.id, "error": content}
    return whole(json.dumps(body).encode())


async def begin(house: House, tool: str = "search", **arguments: Any) -> str:
    seen = await house.handle(house.call(tool, arguments, _meta=META))
    assert seen.json["result"]["resultType"] == "task"
    return str(seen.json["result"]["taskId"])


async def about(house: House, method: str, handle: str, **more: Any) -> Seen:
    who, endpoint = more.pop("who", "alice"), more.pop("endpoint", "/mcp/mail")
    params = {"taskId": handle, **more, "_meta": META}
    return await house.handle(house.request(method, params, who=who, endpoint=endpoint))


async def look(house: House, handle: str, **more: Any) -> dict[str, Any]:
    house.now += 5.0
    seen = await about(house, "tasks/get", handle, **more)
    found: dict[str, Any] = seen.json["result"]
    return found


def outcomes(house: House) -> list[Mapping[str, Any]]:
    """Return the outcomes of the call itself."""
    return [
        record.fields
        for record in house.audit.records
        if record.kind.value == "outcome" and record.fields["method"] == "tools/call"
    ]
