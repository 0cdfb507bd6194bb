"""The public listener: one list of routes, and the guard before each of them."""

from itertools import count

import pytest

from gateway.oauth.server import AuthorizationServer
from gateway.storage.memory import MemoryAuditLog, MemoryClientStore
from gateway.web.app import PublicApp
from gateway.web.guard import guard_for
from gateway.web.mcp import McpEndpoint
from gateway.web.metrics import Metrics
from gateway.web.peers import client_address
from gateway.wire.jsontext import WireLimits
from tests.oauth.world import KEYS, PUBLIC_URL, RESOURCES, Hand
from tests.pipeline.house import House
from tests.web.asgi import HOST, ask


@pytest.fixture
def app() -> PublicApp:
    house = House()
    guard = guard_for(PUBLIC_URL, ("127.0.0.1", 8080), [], 1024)
    oauth = AuthorizationServer(
        resources=RESOURCES,
        keys=KEYS,
        clients=MemoryClientStore(),
        audit=MemoryAuditLog(),
        clock=Hand(),
        new_id=map(str, count()).__next__,
    )
    address = client_address([])
    endpoint = McpEndpoint(
        carrier=house.pipeline,
        servers={"mail"},
        guard=guard,
        limits=WireLimits(),
        metrics=Metrics(),
        client_address=address,
        new_id=house.new_id,
    )
    return PublicApp(mcp=endpoint, oauth=oauth, guard=guard, client_address=address)


DOCUMENTS = {
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-protected-resource/mcp/mail",
    "/oauth/jwks.json",
}
PAGES = [
    ("GET", "/.well-known/oauth-authorization-server"),
    ("GET", "/.well-known/oauth-protected-resource/mcp/mail"),
    ("GET", "/oauth/jwks.json"),
    ("POST", "/oauth/token"),
    ("POST", "/mcp"),
    ("POST", "/mcp/mail"),
    ("GET", "/nothing"),
]


@pytest.mark.parametrize(("method", "path"), PAGES)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(b"host", b"rebound.example")], 421),
        ([HOST, (b"origin", b"https://evil.example")], 403),
        ([HOST, (b"content-length", b"1025")], 413),
    ],
)
async def test_the_guard_stands_before_every_route(app, method, path, headers, status):
    if status == 403 and path in DOCUMENTS:
        status = 200  # every page may read what is public
    answer = await ask(app, method, path, headers)
    assert (answer.status, answer.received) == (status, 0)


async def test_calls_go_to_the_endpoint_of_their_server(app):
    json = (b"content-type", b"application/json")
    answer = await ask(app, "POST", "/mcp/mail", (HOST, json), b"{}")
    assert (answer.status, answer.headers["content-type"]) == (400, "application/json")
    assert (await ask(app, "POST", "/mcp/other", (HOST, json), b"{}")).status == 404


async def test_oauth_is_served_beside(app):
    assert (await ask(app, "GET", "/oauth/jwks.json")).status == 200


async def test_there_is_no_endpoint_for_all_servers_and_it_says_so(app):
    answer = await ask(app, "POST", "/mcp")
    assert answer.status == 404
    assert b"/mcp/{server}" in answer.body


@pytest.mark.parametrize("path", ["/oauth/jwks.json/", "/oauth/token/", "//evil.example/"])
async def test_nobody_is_ever_redirected(app, path):
    answer = await ask(app, "GET", path)
    assert answer.status == 404
    assert "location" not in answer.headers
