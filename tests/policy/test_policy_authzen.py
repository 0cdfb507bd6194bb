"""Somebody else's decision point over HTTP: whatever is not its own answer, in time, is none."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web

from gateway.errors import PolicyUnavailable
from gateway.policy.authzen import AuthzenPoint
from gateway.policy.settings import DecisionPoint
from tests.policy.policy_questions import question
from tests.servers.raw import RawUpstream, Script, answers, hangs, raw_upstream

WELL_KNOWN = "/.well-known/authzen-configuration"
EVALUATION = "/access/v1/evaluation"


@dataclass
class There:
    """A decision point that can be made to behave in any way."""

    upstream: RawUpstream
    origin: str
    document: Mapping[str, Any]
    says: Script

    def point(self, **more: Any) -> AuthzenPoint:
        more = {"deadline": 20.0, **more}
        return AuthzenPoint(DecisionPoint(url=self.origin, token="of-the-gateway", **more))

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == WELL_KNOWN:
            return web.json_response(self.document)
        return await self.says(request)


@pytest.fixture
async def there() -> AsyncIterator[There]:
    async with raw_upstream(hangs) as upstream:
        origin = upstream.url.removesuffix("/mcp")
        document = {
            "policy_decision_point": origin,
            "access_evaluation_endpoint": origin + EVALUATION,
        }
        found = There(upstream, origin, document, answers('{"decision": true}'))
        upstream.script = found.answer
        yield found


async def test_it_is_found_by_its_document_and_asked_each_time(there: There) -> None:
    point = there.point()
    try:
        assert (await point.opinion(question())).allowed
        there.says = answers('{"decision": false, "context": {"reason": "not_yours"}}')
        assert (await point.opinion(question())).code == "not_yours"
    finally:
        await point.close()
    found, first, second = there.upstream.seen
    assert (found.method, first.method) == ("GET", "POST")
    assert first.headers["authorization"] == "Bearer of-the-gateway"
    assert json.loads(first.body) == json.loads(second.body)
    assert first.headers["content-type"] == "application/json"


async def packed(_: web.Request) -> web.StreamResponse:
    body = gzip.compress(b'{"decision": true}')
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    return web.Response(body=body, headers=headers)


UNUSABLE: Mapping[str, Script] = {
    "packed": packed,
    "another-status": answers('{"decision": true}', status=201),
    "an-error": answers('{"decision": true}', status=500),
    "a-redirect": answers('{"decision": true}', status=307, headers={"Location": "/elsewhere"}),
    "another-media-type": answers('{"decision": true}', media="text/plain"),
    "no-json": answers("true"),
    "half-of-it": answers('{"decision": true'),
    "twice": answers('{"decision": false, "decision": true}'),
    "neither": answers("{}"),
    "too-large": answers('{"decision": true, "context": {"x": "' + "x" * 65536 + '"}}'),
}


@pytest.mark.parametrize("case", UNUSABLE)
async def test_what_is_no_answer_is_none(there: There, case: str) -> None:
    there.says = UNUSABLE[case]
    point = there.point()
    try:
        with pytest.raises(PolicyUnavailable):
            await point.opinion(question())
    finally:
        await point.close()
    assert [one.method for one in there.upstream.seen] == ["GET", "POST"]


async def elsewhere(request: web.Request) -> web.StreamResponse:
    return web.json_response({"decision": request.path == "/moved"})


async def test_one_that_has_moved_is_found_by_its_document_again(there: There) -> None:
    point = there.point()
    try:
        assert (await point.opinion(question())).allowed
        there.says = answers("gone", status=404)
        with pytest.raises(PolicyUnavailable):
            await point.opinion(question())
        moved = there.origin + "/moved"
        there.document = {**there.document, "access_evaluation_endpoint": moved}
        there.says = elsewhere
        assert (await point.opinion(question())).allowed
    finally:
        await point.close()


async def test_one_that_takes_too_long_has_not_answered(there: There) -> None:
    there.says = hangs
    point = there.point(deadline=0.05)
    try:
        with pytest.raises(PolicyUnavailable):
            async with asyncio.timeout(60):
                await point.opinion(question())
    finally:
        await point.close()


@pytest.mark.parametrize(
    "change",
    [
        {"policy_decision_point": "https://other.example"},
        {"access_evaluation_endpoint": "http://localhost:PORT/access/v1/evaluation"},
        {"access_evaluation_endpoint": None},
    ],
)
async def test_a_document_of_another_leads_nowhere(there: There, change: dict[str, Any]) -> None:
    port = there.origin.rpartition(":")[2]  # at the other name somebody would answer
    told = {k: v and v.replace("PORT", port) for k, v in change.items()}
    there.document = {**there.document, **told}
    point = there.point()
    try:
        with pytest.raises(PolicyUnavailable):
            await point.opinion(question())
    finally:
        await point.close()
    assert [one.method for one in there.upstream.seen] == ["GET"]


async def test_nobody_there_is_no_answer_and_later_there_is_one(there: There) -> None:
    document, there.document = there.document, {}
    point = there.point()
    try:
        with pytest.raises(PolicyUnavailable):
            await point.opinion(question())
        there.document = document
        assert (await point.opinion(question())).allowed
    finally:
        await point.close()
    gone = AuthzenPoint(DecisionPoint(url="http://127.0.0.1:1", deadline=20.0))
    try:
        with pytest.raises(PolicyUnavailable):
            await gone.opinion(question())
    finally:
        await gone.close()
