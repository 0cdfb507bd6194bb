"""The admin listener: health, readiness, metrics and the admin API. It holds no rule."""

from collections.abc import Awaitable, Callable, Mapping

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.web.api import ApiEndpoint
from gateway.web.guard import Guard
from gateway.web.metrics import Metrics

Checks = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns what is wrong, by name of the check; nothing wrong is ready."""
Facts = Callable[[], Mapping[str, str]]
"""Returns what is worth knowing beside that, and makes nothing unready."""


def admin_app(
    *, metrics: Metrics, checks: Checks, facts: Facts, guard: Guard, api: ApiEndpoint
) -> Starlette:
    """Return the application of the admin listener."""

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

    def guarded(
        handler: Callable[[Request], Awaitable[Response]],
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            refused = guard.check(request.scope["headers"])
            if refused is not None:
                return Response(refused.text + "\n", refused.status, media_type="text/plain")
            return await handler(request)

        return endpoint

    routes = {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics_page}
    pages = [Route(path, guarded(handler)) for path, handler in routes.items()]
    return Starlette(routes=[*pages, api.route])


def _json(content: Mapping[str, object], status: int) -> Response:
    return Response(orjson.dumps(content), status, media_type="application/json")
