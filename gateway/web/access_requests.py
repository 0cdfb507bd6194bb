"""Requests for access over HTTP, for planes that are known by now. It holds no rule.

AuthZEN, Access Request and Approval Profile. What goes wrong is a problem document (RFC 9457).
"""

from collections.abc import Mapping
from typing import Final, Protocol

from gateway.errors import (
    AccessRequestRefused,
    GatewayError,
    ProtocolError,
    RateLimited,
)
from gateway.pipeline.plane_records import Asking
from gateway.web.plane_requests import Told
from gateway.wire.access_requests import Status, Submission, Task, write_problem, write_task
from gateway.wire.authzen import REQUESTS

_CANCEL: Final = "/cancel"
_KEY: Final = "idempotency-key"
_LONGEST_KEY: Final = 256
_PROBLEM: Final = "application/problem+json"
_LOOK_AGAIN_S: Final = 5
"""After how many seconds a request that waits is worth another look."""


class Requests(Protocol):
    async def submit(self, asking: Asking, submitted: Submission, key: str) -> Task:
        """Have a person asked; raises `AccessRequestRefused`, `RateLimited` or a `Fault`."""
        ...

    async def look(self, asking: Asking, handle: str) -> Task:
        """Return how far a request is; raises `AccessRequestRefused` or a `Fault`."""
        ...

    async def cancel(self, asking: Asking, handle: str) -> Task:
        """Have nobody answer a request; raises `AccessRequestRefused` or a `Fault`."""
        ...


def is_a_request(path: str) -> bool:
    """Whether requests for access are submitted, looked at or cancelled at `path`."""
    return path == REQUESTS or path.startswith(f"{REQUESTS}/")


def method_of(path: str) -> str:
    """Return the one method that is good for such a path."""
    return "POST" if path == REQUESTS or path.endswith(_CANCEL) else "GET"


def key_of(headers: Mapping[str, str]) -> str:
    """Return what the plane calls its submission; nothing if it does not.

    Raises:
        ProtocolError: It is too long.

    """
    key = headers.get(_KEY, "")
    if len(key) > _LONGEST_KEY:
        raise ProtocolError("the Idempotency-Key is too long")
    return key


class RequestsForAccess:
    def __init__(self, requests: Requests, *, public_url: str) -> None:
        self._requests = requests
        self._endpoint = f"{public_url}{REQUESTS}"

    async def submitted(self, asking: Asking, submission: Submission, key: str) -> Told:
        """Answer a submission."""
        task = await self._requests.submit(asking, submission, key)
        status = 202 if task.status is Status.PENDING else 200
        place = f"{self._endpoint}/{task.id}".encode()
        return self._told(task, status, (b"location", place))

    async def about(self, asking: Asking, path: str) -> Told:
        """Answer whoever looks at a request or cancels it."""
        handle = path.removeprefix(f"{REQUESTS}/")
        if not handle.endswith(_CANCEL):
            return self._told(await self._requests.look(asking, handle), 200)
        return self._told(await self._requests.cancel(asking, handle.removesuffix(_CANCEL)), 200)

    def _told(self, task: Task, status: int, *more: tuple[bytes, bytes]) -> Told:
        if task.status is Status.PENDING:
            more = (*more, (b"retry-after", str(_LOOK_AGAIN_S).encode()))
        return Told(status=status, body=write_task(task, self._endpoint), more=more)


def problem(error: GatewayError, status: int) -> Told:
    """Return the answer to whoever may not submit, look or cancel."""
    more: tuple[tuple[bytes, bytes], ...] = ()
    if isinstance(error, RateLimited) and error.wait_s:
        more = ((b"retry-after", str(error.wait_s).encode()),)
    if isinstance(error, AccessRequestRefused):
        status = error.status
    return Told(status=status, body=write_problem(error, status), media=_PROBLEM, more=more)
