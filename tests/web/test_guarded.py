"""The guard is around the whole application: routes, what is no route, and what is no request."""

from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from gateway.web.guard import Guarded, guard_for
from gateway.web.scopes import TARGET
from tests.web.asgi import HOST, Exchange

HTTP = {"type": "http", "method": "GET", "query_string": b"", "client": ("192.0.2.7", 1)}
FOREIGN = (b"host", b"evil.example")


class Site:
    """An application that answers everything, and would redirect anybody."""

    def __init__(self) -> None:
        self.reached = 0
        self.refused: list[tuple[str, str]] = []
        self.app = Guarded(
            self._answer,
            guard_for("http://127.0.0.1:8080", ("127.0.0.1", 8080), [], 1024),
            refused_unread=lambda code, source_ip: self.refused.append((code, source_ip)),
            client_address=lambda scope: str(scope["client"][0]),
            open_to_pages=("/open",),
        )

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.reached += 1
        await send({"type": "http.response.start", "status": 307, "headers": []})
        await send({"type": "http.response.body"})

    async def ask(self, **scope: Any) -> Exchange:
        exchange = Exchange()
        raw = scope.get("path", "/").encode()
        whole = {**HTTP, "path": "/", "raw_path": raw, "headers": [HOST], **scope}
        app: Any = self.app
        await app(whole, exchange.receive, exchange.send)
        return exchange


@pytest.mark.parametrize("path", ["/", "/nothing", "/metrics/", "/open/door", "*"])
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "OPTIONS", "TRACE", "BREW"])
async def test_another_host_gets_nothing_from_any_path_or_method(path: str, method: str) -> None:
    site = Site()
    answer = await site.ask(path=path, method=method, headers=[FOREIGN])
    assert (answer.status, site.reached, site.refused) == (421, 0, [("host", "192.0.2.7")])
    assert "location" not in answer.headers


@pytest.mark.parametrize("headers", [[], [HOST, HOST], [HOST, FOREIGN], [FOREIGN, HOST]])
async def test_one_host_and_no_other_number(headers: list[tuple[bytes, bytes]]) -> None:
    site = Site()
    assert (await site.ask(headers=headers)).status == 421
    assert site.reached == 0


@pytest.mark.parametrize(
    ("path", "raw"),
    [
        ("/mcp/raw", b"/mcp%2fraw"),
        ("/mcp/raw", b"/mcp%2Fraw"),
        ("/mcp/raw", b"/%6dcp/raw"),
        ("/mcp/raw", b"/mcp/r%61w"),
        ("/mcp/../raw", b"/mcp/%2e%2e/raw"),
        ("/mcp/raw\n", b"/mcp/raw%0a"),
        ("/mcp/raw", b"/mcp/raw%00"[:-3] + b"%"),
        ("/mcp/raw", None),
        *((path, path.encode()) for path in ("//", "//mcp/raw", "/mcp//raw", "/mcp/raw/", "/mcp/")),
        *((path, path.encode()) for path in ("/./mcp", "/mcp/.", "/mcp/..", "/mcp/../raw", "/..")),
        *((path, path.encode()) for path in ("", "*", "mcp/raw", "/mcp\\raw", "/mcp/raw;a=b")),
        *((path, path.encode()) for path in ("/mcp/raw\n", "/mcp/ra w", "/mcp/räw", "/open//x")),
    ],
)
async def test_a_path_has_one_spelling(path: str, raw: bytes | None) -> None:
    site = Site()
    answer = await site.ask(path=path, raw_path=b"" if raw is None else raw)
    assert (answer.status, site.reached, site.refused) == (404, 0, [("no_endpoint", "192.0.2.7")])


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/mcp",
        "/mcp/raw",
        "/mcp/a_b-c",
        "/.well-known/x",
        "/oauth/jwks.json",
        "/a/...",
        "/a/.b",
    ],
)
async def test_that_spelling_passes(path: str) -> None:
    assert (await Site().ask(path=path)).status == 307


@pytest.mark.parametrize(
    "sent",
    [
        b"http://evil.example/mcp",
        b"http://evil.example:8080/mcp",
        b"http://127.0.0.1:8080@evil.example/mcp",
        b"http://evil.example@127.0.0.1:8080/mcp",
        b"http://127.0.0.1/mcp",
        b"http://localhost:8080/mcp",
        b"http:///mcp",
        b"http://127.0.0.1:8080",
        b"ftp://127.0.0.1:8080/mcp",
        b"evil.example:443",
        b"*",
        b"",
    ],
)
async def test_an_authority_in_the_target_is_the_host_or_nobodys(sent: bytes) -> None:
    site = Site()
    answer = await site.ask(path="/mcp", extensions={TARGET: {"sent": sent}})
    assert (answer.status, site.reached, site.refused) == (421, 0, [("host", "192.0.2.7")])


@pytest.mark.parametrize("sent", [b"http://127.0.0.1:8080/mcp", b"HTTPS://127.0.0.1:8080/mcp?a"])
async def test_a_target_that_repeats_the_host_is_served(sent: bytes) -> None:
    assert (await Site().ask(path="/mcp", extensions={TARGET: {"sent": sent}})).status == 307


async def test_only_what_is_open_to_pages_judges_origins_itself() -> None:
    site, page = Site(), [HOST, (b"origin", b"https://evil.example")]
    assert (await site.ask(path="/open/door", headers=page)).status == 307
    assert (await site.ask(path="/door", headers=page)).status == 403


@pytest.mark.parametrize("kind", ["websocket", "lifespan", "mqtt"])
async def test_nothing_but_http_is_spoken(kind: str) -> None:
    site = Site()
    answer = await site.ask(type=kind)
    closed = [{"type": "websocket.close", "code": 1008}] if kind == "websocket" else []
    assert (answer.sent, site.reached) == (closed, 0)
