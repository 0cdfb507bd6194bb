"""The admin listener: health, readiness, metrics and the admin API. It holds no rule."""

from collections.abc import Awaitable, Callable, Mapping

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Scope

from gateway.web.api import ApiEndpoint
from gateway.web.guard import Guard, Guarded
from gateway.web.metrics import Metrics

Checks = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns what is wrong, by name of the check; nothing wrong is ready."""
Facts = Callable[[], Mapping[str, str]]
"""Returns what is worth knowing beside that, and makes nothing unready."""


def admin_app(
    *,
    metrics: Metrics,
    checks: Checks,
    facts: Facts,
    guard: Guard,
    client_address: Callable[[Scope], str],
    api: ApiEndpoint,
) -> Guarded:
    """Return the application of the admin listener, behind `guard`."""

    async def healthz(_: Request) -> Response:
        return _json({"status": "ok"}, 200)

    async def readyz(_: Request) -> Response:
        wrong = await checks()
        metrics.ready.set(0 if wrong else 1)
        return _json(
            {"status": "not ready" if wrong else "ready", "checks": dict(wrong), **facts()},
            503 if wrong else 200,
        )

    async def metrics_page(_: Request) -> Response:
        return Response(metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")

    routes = {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics_page}
    pages = [Route(path, handler) for path, handler in routes.items()]
    return Guarded(
        # A redirect would be built from the Host header.
        Router(routes=[*pages, api.route], redirect_slashes=False),
        guard,
        refused_unread=metrics.refused_unread,
        client_address=client_address,
    )


def _json(content: Mapping[str, object], status: int) -> Response:
    return Response(orjson.dumps(content), status, media_type="application/json")
