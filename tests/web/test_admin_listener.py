"""Health, readiness and metrics on a listener of their own."""

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from gateway.web.admin import admin_app
from gateway.web.guard import guard_for
from gateway.web.metrics import Metrics
from tests.admin.world import World
from tests.web.api_site import api_of
from tests.web.asgi import Exchange, ask

URL = "http://127.0.0.1:8081"
HOST = (b"host", b"127.0.0.1:8081")


class Site:
    def __init__(self) -> None:
        self.wrong: Mapping[str, str] = {}
        self.facts: Mapping[str, str] = {}
        self.asked = 0
        self.metrics = Metrics()
        guard = guard_for(URL, ("127.0.0.1", 8081), [], 1024)
        self.app = admin_app(
            metrics=self.metrics,
            checks=self._checks,
            facts=lambda: self.facts,
            guard=guard,
            client_address=lambda scope: str(scope["client"][0]),
            api=api_of(World()),
        )

    async def _checks(self) -> Mapping[str, str]:
        self.asked += 1
        return self.wrong

    async def get(self, path: str, *headers: tuple[bytes, bytes], method: str = "GET") -> Exchange:
        return await ask(self.app, method, path, headers or (HOST,))


def told(answer: Exchange) -> tuple[int, Any]:
    return answer.status, orjson.loads(answer.body)


async def test_a_living_process_is_healthy_whatever_else_is_wrong():
    site = Site()
    site.wrong = {"audit": "disk full"}
    assert told(await site.get("/healthz")) == (200, {"status": "ok"})
    assert site.asked == 0


async def test_nothing_wrong_is_ready():
    site = Site()
    assert told(await site.get("/readyz")) == (200, {"status": "ready", "checks": {}})
    assert b"douane_ready 1.0" in (await site.get("/metrics")).body


async def test_what_is_worth_knowing_is_told_and_makes_nothing_unready():
    site = Site()
    site.facts = {"programs": "not jailed: bwrap not found"}
    assert told(await site.get("/readyz")) == (
        200,
        {"status": "ready", "checks": {}, "programs": "not jailed: bwrap not found"},
    )


async def test_anything_wrong_is_not_ready_and_is_named():
    site = Site()
    await site.get("/readyz")
    site.wrong = {"audit": "disk full"}
    assert told(await site.get("/readyz")) == (
        503,
        {"status": "not ready", "checks": {"audit": "disk full"}},
    )
    assert b"douane_ready 0.0" in (await site.get("/metrics")).body


async def test_metrics_are_prometheus_text():
    answer = await Site().get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert b"# TYPE douane_requests_total counter" in answer.body


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", "/metrics", "/api/v1/whoami", "/nothing", "/"]
)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(b"host", b"rebound.example")], 421),
        ([HOST, (b"origin", b"https://evil.example")], 403),
        ([(b"accept", b"*/*")], 421),
        ([HOST, (b"content-length", b"1025")], 413),
    ],
)
async def test_the_guard_stands_before_every_page(path, headers, status):
    site = Site()
    answer = await site.get(path, *headers)
    assert answer.status == status
    assert site.asked == 0


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_pages_are_only_read(method):
    assert (await Site().get("/metrics", method=method)).status == 405


async def test_there_is_the_api_and_nothing_else():
    assert (await Site().get("/api/v1/pins/list")).status == 401
    assert (await Site().get("/api/v2/pins/list")).status == 404
    assert (await Site().get("/")).status == 404


@pytest.mark.parametrize("path", ["/metrics/", "/healthz/", "/api/v1"])
async def test_nobody_is_redirected(path):
    site = Site()
    # Behind the guard as well, which refuses these paths itself.
    app: Any = site.app
    app._guard = app._open = _Open()
    answer = await site.get(path)
    assert (answer.status, "location" in answer.headers) == (404, False)


class _Open:
    def refuses(self, _: Any) -> None:
        return None
