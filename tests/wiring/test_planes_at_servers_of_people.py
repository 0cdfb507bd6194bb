"""A server with a credential for each person, and calls to it that a plane or a host carries.

The gateway can look at what such a server shows with the person's own credential alone. A plane sends
with one that nobody here has seen, so without ours there is nothing to go by.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.domain.identity import User
from gateway.policy import reload
from gateway.wiring.gateway import Gateway
from tests.e2e.planes import key_of, registered
from tests.policy.test_policy_saved_meanwhile import nothing_is_told
from tests.servers.raw import raw_upstream
from tests.wiring.test_saved_while_a_reload_builds import Place, running

OWN = "http://127.0.0.1:8080"
ALICE = User(
    id="u_alice",
    issuer=OWN,
    subject="alice",
    name="Alice",
    groups=frozenset({"users"}),
    created_at=1.0,
    created_by="root",
)


async def shown_to_anybody_first(request: web.Request) -> web.StreamResponse:
    """Show the tool `good` to whoever looks, in the one revision."""
    message = json.loads(await request.read() or b"{}")
    if message.get("method") not in ("tools/list", "prompts/list", "server/discover"):
        error = {"code": -32601, "message": "no"}
        return web.json_response(
            {"jsonrpc": "2.0", "id": message.get("id"), "error": error}, status=404
        )
    result = {
        "tools": [{"name": "good", "description": "Mails.", "inputSchema": {"type": "object"}}],
        "prompts": [],
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "raw", "version": "7"}},
    }
    return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result})


async def posted(gateway: Gateway, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    data, out = json.dumps(body).encode(), []
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "scheme": "http",
        "root_path": "",
        "headers": [
            (b"host", b"127.0.0.1:8080"),
            (b"authorization", f"Bearer {key_of('edge')}".encode()),
            (b"content-type", b"application/json"),
            (b"content-length", str(len(data)).encode()),
        ],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8080),
        "http_version": "1.1",
    }
    given = [{"type": "http.request", "body": data, "more_body": False}]

    async def receive() -> Any:
        return given.pop() if given else await asyncio.sleep(60)

    async def send(message: Any) -> None:
        out.append(message)

    await gateway.serve(scope, receive, send)
    found: Mapping[str, Any] = json.loads(b"".join(one.get("body", b"") for one in out[1:]))
    return found


def question(action: str, type_: str, id_: str) -> dict[str, Any]:
    return {
        "subject": {"type": "identity", "id": "alice", "properties": {}},
        "action": {"name": action},
        "resource": {"type": type_, "id": id_, "properties": {"server": "mail"}},
        "context": {"agent": "assistant", "arguments": {}},
    }


CALL = question("tools/call", "tool", "good")
EVALUATION = "/access/v1/evaluation"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(reload, "awatch", nothing_is_told)
    return Place(tmp_path)


@asynccontextmanager
async def opened(place: Place, credential: str, **planes: Any) -> AsyncIterator[Gateway]:
    """Yield a gateway that has looked at the server, where all of it was approved and Alice is known."""
    async with raw_upstream(shown_to_anybody_first) as upstream:
        mail = {"url": upstream.url, "credential": {"kind": credential}}
        place.write(servers={"mail": mail}, planes=planes)
        async with running(place) as gateway:
            store = gateway._store
            store.identity.users.add(ALICE)
            for pin in list(store.pins.all()):
                await store.pins.approve(
                    pin.target, pin.profile, expected=str(pin.observed.digest), by="bob", note=""
                )
            yield gateway


@pytest.fixture
async def asked_by_plane(place: Place) -> AsyncIterator[Gateway]:
    edge = {"servers": {"mail": "mail"}, "client": "assistant"}
    planes = registered(place.file.parent, edge=edge)
    async with opened(place, "oauth", authzen=planes) as gateway:
        yield gateway


async def test_what_a_plane_asks_about_is_a_no_where_nobody_can_look(
    asked_by_plane: Gateway,
) -> None:
    for asked in (
        CALL,
        question("tools/list", "mcp_server", "mail"),
        question("server/discover", "mcp_server", "mail"),
    ):
        told = await posted(asked_by_plane, EVALUATION, asked)
        assert (told["decision"], told["context"]["reason"]) == (False, "credential_required")
    searched = question("tools/call", "tool", "")
    found = await posted(asked_by_plane, "/access/v1/search/resource", searched)
    assert "results" not in found  # nobody knows, and that is no empty list


async def test_what_a_host_has_looked_at_is_a_no_as_well(place: Place) -> None:
    host = {"servers": {"mail": "mail"}, "client": "assistant", "asserts": True}
    hosts = registered(place.file.parent, edge=host)
    context = {"principal": {"type": "user", "id": "alice", "claims": {"iss": OWN}}}
    params = {
        "name": "douane/decide",
        "event": "tools/call",
        "phase": "request",
        "payload": {"name": "good", "arguments": {}},
        "context": context,
    }
    invoked = {"jsonrpc": "2.0", "id": 1, "method": "interceptor/invoke", "params": params}
    async with opened(place, "oauth", experimental_interceptors=hosts) as gateway:
        result = (await posted(gateway, "/interceptors", invoked))["result"]
        assert result["valid"] is False
        assert "credential_required" in json.dumps(result)


async def test_where_anybody_can_look_a_plane_is_told_yes(place: Place) -> None:
    edge = {"servers": {"mail": "mail"}, "client": "assistant"}
    planes = registered(place.file.parent, edge=edge)
    async with opened(place, "none", authzen=planes) as gateway:
        assert (await posted(gateway, EVALUATION, CALL))["decision"] is True
