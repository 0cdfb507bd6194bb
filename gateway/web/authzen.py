"""The AuthZEN Authorization API 1.0 over HTTP, for registered data planes. It holds no rule.

Plain ASGI, as whoever calls through a plane waits for it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

import orjson
from starlette.types import Receive, Scope, Send

from gateway.domain.nodes import weight
from gateway.domain.planes import Plane
from gateway.errors import GatewayError, ProtocolError, Unauthenticated
from gateway.pipeline.plane_records import Asking, asked_by
from gateway.turns import in_turn
from gateway.web.access_requests import (
    Requests,
    RequestsForAccess,
    is_a_request,
    key_of,
    method_of,
    problem,
)
from gateway.web.plane_requests import (
    Came,
    PlaneDoor,
    Told,
    is_json,
    on_record,
    read_body,
    status_of,
)
from gateway.wire.access_requests import Submission, read_submission
from gateway.wire.authzen import (
    REQUESTS,
    Answer,
    Batch,
    Evaluation,
    Search,
    Semantic,
    metadata,
    read_batch,
    read_evaluation,
    read_search,
    spoiled,
    write_answer,
    write_answers,
    write_results,
)

EVALUATION: Final = "/access/v1/evaluation"
EVALUATIONS: Final = "/access/v1/evaluations"
SEARCH: Final[Mapping[str, bool]] = {
    "/access/v1/search/resource": False,
    "/access/v1/search/action": True,
}
"""Whether actions are searched for there, or resources."""
METADATA: Final = "/.well-known/authzen-configuration"
_PATHS: Final = frozenset({EVALUATION, EVALUATIONS, METADATA, *SEARCH})
MOST_ITEMS: Final = 100
"""Of a batch."""
_AT_ONCE: Final = 8
"""Items of a batch that are decided on at the same time: one plane's batch does not hold up all others."""

_Asked = Batch | Search | Submission | None


class Decisions(Protocol):
    async def answer(self, asking: Asking, asked: Evaluation) -> Answer:
        """Answer one question; raises `ProtocolError` or a `Fault`."""
        ...

    async def search(
        self, asking: Asking, search: Search, *, for_actions: bool
    ) -> tuple[Sequence[Mapping[str, str]], str, int]:
        """Return a page of what is found, where the next begins, and how much there is."""
        ...

    async def refuse(
        self, error: GatewayError, *, source_ip: str, request_id: str, plane: Plane | None = None
    ) -> None:
        """Put on record that a question was refused unread."""
        ...


class AuthzenEndpoint:
    """Answers planes, and tells anybody where they may ask."""

    def __init__(
        self,
        planes: Mapping[str, Plane],
        decisions: Decisions,
        *,
        public_url: str,
        most_bytes: int,
        json_depth: int,
        requests: Requests,
        jwks_uri: str,
        client_address: Callable[[Scope], str],
        refused_unread: Callable[[str, str], None],
        new_id: Callable[[], str],
    ) -> None:
        """Take where the keys are published that sign what binds `requests` for access."""
        self._decisions = decisions
        self._requests = RequestsForAccess(requests, public_url=public_url)
        takes = any(plane.access_requests for plane in planes.values())
        self._metadata = orjson.dumps(metadata(public_url, jwks_uri if takes else ""))
        self._most_bytes = most_bytes
        self._json_depth = json_depth
        self._door = PlaneDoor(
            client_address=client_address,
            by_key={plane.key_digest: plane for plane in planes.values()},
            refused_unread=refused_unread,
            new_id=new_id,
        )

    def serves(self, path: str) -> bool:
        """Whether planes are answered at `path`."""
        return path in _PATHS or is_a_request(path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        await self._door.answer(scope, receive, send, self._answered)

    async def _answered(
        self,
        scope: Scope,
        headers: Mapping[str, str],
        receive: Receive,
        came: Came,
    ) -> Told:
        path = scope["path"]
        method = _method(path)
        if scope["method"] != method:
            return Told(status=405, body=orjson.dumps(f"use {method}"))
        if path == METADATA:
            return Told(status=200, body=self._metadata)
        plane: Plane | None = came.holder
        try:
            asked = await self._read(plane, path, headers, receive)
            asking = Asking(plane=asked[0], source_ip=came.address, request_id=came.request_id)
            return await self._told(asking, asked[1], path, headers)
        except GatewayError as error:
            return _refused(await on_record(self._decisions.refuse, error, came, plane), path)

    async def _told(
        self, asking: Asking, asked: _Asked, path: str, headers: Mapping[str, str]
    ) -> Told:
        if asked is None:
            return await self._requests.about(asking, path)
        if isinstance(asked, Submission):
            return await self._requests.submitted(asking, asked, key_of(headers))
        return Told(status=200, body=await self._written(asking, asked, path))

    async def _read(
        self, plane: Plane | None, path: str, headers: Mapping[str, str], receive: Receive
    ) -> tuple[Plane, _Asked]:
        """Return who asks, and what; `None` for what is in the path alone.

        Raises:
            Unauthenticated: It is no registered plane; nothing of its question was read.
            ProtocolError: It is no question.
            RateLimited: So much of the same plane's is read already.

        """
        if plane is None:
            raise Unauthenticated("no registered plane has this key")
        if is_a_request(path) and path != REQUESTS:
            return plane, None
        if not is_json(headers):
            raise ProtocolError("a question is application/json")
        body = await read_body(receive, self._most_bytes)
        read: Callable[[bytes, int], _Asked] = _READ.get(path, _several)
        return plane, await in_turn(asked_by(plane), weight(body), read, body, self._json_depth)

    async def _written(self, asking: Asking, asked: Batch | Search, path: str) -> bytes:
        """Return the answers to what was asked, as they are sent.

        Raises:
            ProtocolError: What was asked alone is no question that this plane may ask.
            Fault: Nobody knows the answer to it.

        """
        if isinstance(asked, Search):
            found = await self._decisions.search(asking, asked, for_actions=SEARCH[path])
            return write_results(*found)
        if asked.single:
            (one,) = asked.items
            if isinstance(one, ProtocolError):
                raise one
            return write_answer(await self._decisions.answer(asking, one))
        return write_answers(await self._all(asking, asked))

    async def _all(self, asking: Asking, batch: Batch) -> list[Answer]:
        """Answer the items of a batch in their order, as far as its semantic wants."""
        if batch.semantic is Semantic.ALL:
            told: dict[int, Answer] = {}
            left = iter(enumerate(batch.items))

            async def one_after_the_other() -> None:
                for at, item in left:
                    told[at] = await self._item(asking, item)

            await asyncio.gather(*(one_after_the_other() for _ in range(_AT_ONCE)))
            return [told[at] for at in range(len(batch.items))]
        last = batch.semantic is Semantic.TO_FIRST_PERMIT
        answers: list[Answer] = []
        for item in batch.items:
            answers.append(await self._item(asking, item))
            if answers[-1].decision is last:
                break
        return answers

    async def _item(self, asking: Asking, item: Evaluation | ProtocolError) -> Answer:
        """Answer one item; what is wrong with it changes no other's answer."""
        try:
            if isinstance(item, ProtocolError):
                await self._decisions.refuse(
                    item,
                    source_ip=asking.source_ip,
                    request_id=asking.request_id,
                    plane=asking.plane,
                )
                raise item
            return await self._decisions.answer(asking, item)
        except GatewayError as error:
            return spoiled(error, status_of(error))


def _single(body: bytes, depth: int) -> Batch:
    return Batch(items=(read_evaluation(body, depth),), semantic=Semantic.ALL, single=True)


def _several(body: bytes, depth: int) -> Batch:
    return read_batch(body, depth, MOST_ITEMS)


_READ: Final[Mapping[str, Callable[[bytes, int], _Asked]]] = {
    EVALUATION: _single,
    REQUESTS: read_submission,
    **{path: partial(read_search, for_actions=actions) for path, actions in SEARCH.items()},
}


def _method(path: str) -> str:
    if path == METADATA:
        return "GET"
    return method_of(path) if is_a_request(path) else "POST"


def _refused(error: GatewayError, path: str) -> Told:
    status = status_of(error)
    if is_a_request(path):
        return problem(error, status)
    return Told(status=status, body=orjson.dumps(error.public))
