"""The public listener: one list of routes, and the guard before each of them."""

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from gateway.web.app import PublicApp
from gateway.web.guard import UNREAD, guard_for
from gateway.web.mcp import McpEndpoint
from gateway.web.metrics import Metrics
from gateway.web.oauth import FROM_ANYWHERE as OPEN
from gateway.web.peers import client_address
from gateway.wire.jsontext import WireLimits
from tests.oauth.world import PUBLIC_URL
from tests.pipeline.house import House
from tests.web.asgi import HOST, ask

ALICE = (b"authorization", b"Bearer alice")
FROM_ANYWHERE = {
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-protected-resource/mcp/mail",
    "/oauth/jwks.json",
    "/oauth/token",
    "/oauth/register",
    "/oauth/revoke",
}
FORMS = {"/sign-in", "/setup", "/consent", "/device", "/account", "/sign-out", "/connect/mail"}
"""These pages judge the origin of a form themselves."""
GUARDED = {"/oauth/authorize", "/oauth/device_authorization", "/mcp", "/mcp/mail", "/nothing"}


async def page(request: Request) -> PlainTextResponse:
    return PlainTextResponse(request.url.path)


async def refused(request: Request) -> PlainTextResponse:
    return PlainTextResponse("no", request.path_params["status"])


async def unread(request: Request) -> PlainTextResponse:
    request.scope[UNREAD] = "encoding"
    return PlainTextResponse("no", 415)


@pytest.fixture
def app() -> PublicApp:
    house = House()
    guard = guard_for(PUBLIC_URL, ("127.0.0.1", 8080), [], 1024)
    address, metrics = client_address([]), Metrics()
    endpoint = McpEndpoint(
        carrier=house.pipeline,
        aggregate=house.pipeline,
        servers={"mail"},
        most_bytes=1024,
        limits=WireLimits(),
        metrics=metrics,
        client_address=address,
        new_id=house.new_id,
    )
    served = (FROM_ANYWHERE | FORMS | GUARDED) - {"/mcp", "/mcp/mail", "/nothing"}
    routes = [Route(path, page, methods=["GET", "POST"]) for path in served]
    return PublicApp(
        mcp=endpoint,
        sign_in=[
            *routes,
            Route("/unread", unread, methods=["POST"]),
            Route("/refused/{status:int}", refused, methods=["GET", "POST"]),
        ],
        open_to_pages=OPEN,
        guard=guard,
        metrics=metrics,
        client_address=address,
        most_failures=2,
    )


@pytest.mark.parametrize("path", sorted(FROM_ANYWHERE | FORMS | GUARDED))
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(b"host", b"rebound.example")], 421),
        ([HOST, (b"origin", b"https://evil.example")], 403),
        ([HOST, (b"content-length", b"1025")], 413),
    ],
)
async def test_the_guard_stands_before_every_route(app, path, headers, status):
    if status == 403 and path not in GUARDED:
        status = 200
    answer = await ask(app, "POST", path, headers)
    assert answer.status == status
    assert answer.received == 0


async def test_calls_go_to_the_endpoint_of_their_server(app):
    json = (b"content-type", b"application/json")
    answer = await ask(app, "POST", "/mcp/mail", (HOST, ALICE, json), b"{}")
    assert (answer.status, answer.headers["content-type"]) == (400, "application/json")
    assert (await ask(app, "POST", "/mcp/other", (HOST, json), b"{}")).status == 404


async def test_sign_in_is_served_beside(app):
    answer = await ask(app, "GET", "/oauth/jwks.json")
    assert (answer.status, answer.body) == (200, b"/oauth/jwks.json")


async def test_the_endpoint_for_all_servers_is_served_straight(app):
    json = (b"content-type", b"application/json")
    answer = await ask(app, "POST", "/mcp", (HOST, ALICE, json), b"{}")
    assert (answer.status, answer.headers["content-type"]) == (400, "application/json")
    assert (await ask(app, "POST", "/mcp/", (HOST, json), b"{}")).status == 404


@pytest.mark.parametrize("path", ["/oauth/jwks.json/", "/oauth/token/", "//evil.example/"])
async def test_nobody_is_ever_redirected(app, path):
    answer = await ask(app, "GET", path)
    assert answer.status == 404
    assert "location" not in answer.headers


@pytest.mark.parametrize("status", [400, 401, 403, 429])
async def test_an_address_that_only_gets_refusals_is_refused_unread(app, status):
    for _ in range(2):
        assert (await ask(app, "POST", f"/refused/{status}", body=b"x")).body == b"no"
    answer = await ask(app, "POST", "/oauth/token", body=b"x")
    assert (answer.status, answer.headers["retry-after"], answer.received) == (429, "60", 0)
    assert b'douane_refusals_total{code="throttled"} 1.0' in app._routed._metrics.page()


async def test_what_is_refused_unread_is_counted(app):
    for path, code in (("/unread", "encoding"), ("/refused/405", "method")):
        await ask(app, "POST", path)
        assert f'douane_refusals_total{{code="{code}"}} 1.0'.encode() in app._routed._metrics.page()


@pytest.mark.parametrize("status", [200, 404, 405, 503])
async def test_what_is_not_there_or_not_now_is_no_refusal(app, status):
    for _ in range(3):
        await ask(app, "GET", f"/refused/{status}")
    assert (await ask(app, "GET", "/oauth/jwks.json")).status == 200
