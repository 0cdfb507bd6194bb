"""HTTP clients that declare the task under way, for whatever speaks MCP through them."""

import importlib
import importlib.metadata
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from douane_host import wire
from douane_host.tasks import Run, current, log

_JSON = "application/json"
_OK, _UNAUTHORIZED = 200, 401
_REDIRECTS = range(300, 400)

_Make = Callable[[], Any]
_Client = TypeVar("_Client")


def declaring(client: _Client) -> _Client:
    """Have an `AsyncClient` of httpx or httpx2 declare the task under way, and return it.

    Use it for a gateway alone: whoever answers there is told the person's words.
    """
    _hook(client, None)
    return client


def http_client(*args: Any, **options: Any) -> Any:
    """Make an HTTP client as the MCP SDK does, `declaring`: what an `httpx_client_factory` is to be.

    It is an `AsyncClient` of httpx2, or of httpx with version 1 of the SDK.
    """
    make = partial(_made, *args, **options)
    client = make()
    _hook(client, make)
    return client


def _hook(client: Any, make: _Make | None) -> None:
    client.event_hooks["request"].append(partial(_declare, client, make))


def _made(
    headers: Mapping[str, str] | None = None, timeout: Any = None, auth: Any = None, **more: Any
) -> Any:
    first = importlib.metadata.version("mcp").startswith("1.")
    httpx = importlib.import_module("httpx" if first else "httpx2")
    if timeout is None:
        timeout = httpx.Timeout(30, read=300)  # as the SDK's own
    return httpx.AsyncClient(headers=headers, timeout=timeout, auth=auth, **more)


async def _declare(client: Any, make: _Make | None, request: Any) -> None:
    """Put the task under way into `request`, if it is one of a client's to a server."""
    task = current()
    if task is None or request.method != "POST":
        return
    if not request.headers.get("content-type", "").startswith(_JSON):
        return
    message = wire.read(await request.aread())
    if message is None:
        return
    told = await task.told_to(
        _origin(request),
        partial(_begin, client, request, message),
        partial(_end, client, make, request, message),
    )
    if told:
        content, headers = wire.declared(message, told), wire.headers_beside(request.headers)
        _fill(request, request.method, headers, content)


def _origin(request: Any) -> str:
    url = request.url
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _fill(request: Any, method: str, headers: Mapping[str, str], content: bytes) -> None:
    """Make `request` anew, where it is: whoever sent it holds on to it."""
    url, extensions = request.url, request.extensions
    vars(request).clear()  # or it keeps what has been read of the body before
    request.__init__(method, url, headers=headers, content=content, extensions=extensions)


async def _ask(
    client: Any, like: Any, message: wire.Message, method: str, params: Mapping[str, Any]
) -> Any:
    """Send a request for the gateway alone, with the credential that `like` has been given."""
    request = type(like)(
        "POST",
        like.url,
        headers=wire.headers_for(method, like.headers),
        content=wire.asked(method, params, message),
        extensions=like.extensions,
    )
    return await client.send(request, auth=None, follow_redirects=False)


async def _begin(client: Any, like: Any, message: wire.Message, params: dict[str, Any]) -> Run:
    response = await _ask(client, like, message, wire.BEGIN, params)
    if response.status_code == _UNAUTHORIZED or response.status_code in _REDIRECTS:
        return Run("later")  # what is sent next is answered alike, and sent again
    result, error = wire.answer(response.content)
    handle = result.get("run")
    if response.status_code == _OK and isinstance(handle, str):
        return Run("begun", handle)
    why = (error or {}).get("message", f"HTTP {response.status_code}")
    if wire.is_refusal(error):
        log.warning("%s begins no run: %s; it judges the task as undeclared", like.url, why)
        return Run("declared")
    log.warning("%s is no gateway that knows of tasks: %s; it is told of none", like.url, why)
    return Run("nowhere")


async def _end(
    client: Any,
    make: _Make | None,
    like: Any,
    message: wire.Message,
    handle: str,
) -> None:
    if not client.is_closed:
        await _ask(client, like, message, wire.END, {"run": handle})
    elif make is not None:
        async with make() as fresh:
            await _ask(fresh, like, message, wire.END, {"run": handle})
