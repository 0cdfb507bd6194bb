"""The AuthZEN endpoint reads nothing of a stranger's, and repeats nothing that it should not."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import pytest

from gateway.domain.planes import Plane
from gateway.domain.tools import UpstreamId
from gateway.errors import (
    AccessRequestRefused,
    AuditUnavailable,
    Fault,
    GatewayError,
    RateLimited,
)
from gateway.pipeline.plane_records import Asking
from gateway.web.authzen import EVALUATION, EVALUATIONS, METADATA, MOST_ITEMS, AuthzenEndpoint
from gateway.web.scopes import FOUND, Found
from gateway.wire.access_requests import Status, Submission, Task
from gateway.wire.authzen import REQUESTS, Answer, Evaluation, Search
from tests.web.asgi import HOST, Exchange, Pairs

KEY = "k" * 32
NOW = 1_800_000_000.0
EDGE = Plane(
    name="edge",
    key_digest=sha256(KEY.encode()).digest(),
    servers={"m": UpstreamId("mail")},
    issuers=("https://idp.example",),
    scopes=frozenset(),
    types={},
)
QUESTION = json.dumps(
    {
        "subject": {"type": "user", "id": "alice"},
        "action": {"name": "tools/call"},
        "resource": {"type": "tool", "id": "send"},
    }
).encode()
JSON = (b"content-type", b"application/json")
BEARER = (b"authorization", b"Bearer " + KEY.encode())


@dataclass
class Yes:
    """Says yes to everybody but Bob, or fails, and remembers who asked."""

    fails: GatewayError | None = None
    asked: list[Asking] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)

    async def answer(self, asking: Asking, asked: Evaluation) -> Answer:
        self.asked.append(asking)
        if self.fails is not None:
            raise self.fails
        return Answer(decision=asked.subject.id != "bob", context={"of": asked.subject.id})

    async def search(
        self, asking: Asking, search: Search, *, for_actions: bool
    ) -> tuple[list[dict[str, str]], str, int]:
        self.asked.append(asking)
        return [{"name": f"{search.limit}-{search.after}-{for_actions}"}], "next", 7

    async def refuse(
        self, error: GatewayError, *, source_ip: str, request_id: str, plane: Plane | None = None
    ) -> None:
        del source_ip, request_id
        if self.fails is not None:
            raise self.fails
        self.refused.append((error.code, "" if plane is None else plane.name))


class Asks:
    """Takes every request for access, and lets none be looked at."""

    async def submit(self, asking: Asking, submitted: Submission, key: str) -> Task:
        if key == "full":
            raise RateLimited("too many questions wait", wait_s=7)
        return Task(id="t.1", status=Status.PENDING, expires_at=NOW)

    async def look(self, asking: Asking, handle: str) -> Task:
        raise AccessRequestRefused.unknown_task()

    async def cancel(self, asking: Asking, handle: str) -> Task:
        return Task(id=handle, status=Status.CANCELLED, expires_at=NOW)


def endpoint(
    decisions: Yes,
    most_bytes: int = 1024,
    plane: Plane = EDGE,
    refused_unread: Callable[[str, str], None] = lambda *_: None,
) -> AuthzenEndpoint:
    return AuthzenEndpoint(
        {"edge": plane},
        decisions,
        public_url="http://127.0.0.1:8080",
        most_bytes=most_bytes,
        json_depth=64,
        requests=Asks(),
        jwks_uri="http://127.0.0.1:8080/oauth/jwks.json",
        client_address=lambda _: "192.0.2.7",
        refused_unread=refused_unread,
        new_id=lambda: "made-here",
    )


async def post(
    app: AuthzenEndpoint, body: bytes = QUESTION, *headers: tuple[bytes, bytes]
) -> Exchange:
    fields: Pairs = (HOST, *(headers or (JSON, BEARER)))
    return await Exchange([body]).ask(app, "POST", EVALUATION, fields)


def told(exchange: Exchange) -> dict[str, str]:
    return {k.decode(): v.decode() for k, v in exchange.sent[0]["headers"]}


async def test_a_question_is_answered_for_its_plane() -> None:
    decisions = Yes()
    seen = await post(endpoint(decisions))
    assert seen.status == 200
    assert json.loads(seen.sent[1]["body"]) == {"decision": True, "context": {"of": "alice"}}
    assert [one.plane.name for one in decisions.asked] == ["edge"]
    assert told(seen)["cache-control"] == "no-store"


async def test_nothing_of_a_stranger_is_read() -> None:
    decisions = Yes()
    for headers in (
        (JSON,),
        (JSON, (b"authorization", b"Bearer x")),
        (JSON, (b"authorization", b"Basic " + KEY.encode())),
    ):
        seen = await post(endpoint(decisions), QUESTION, *headers)
        assert (seen.status, seen.received) == (401, 0)
    assert decisions.refused == [("unauthenticated", "")] * 3
    assert decisions.asked == []


@pytest.mark.parametrize(
    ("body", "status"), [(b"{}", 400), (b"x" * 2000, 413), (b"", 400), (b"[" * 500, 400)]
)
async def test_what_is_no_question_is_refused_and_on_record(body: bytes, status: int) -> None:
    decisions = Yes()
    assert (await post(endpoint(decisions), body)).status == status
    assert decisions.refused == [("protocol_error", "edge")]


@pytest.mark.parametrize("fault", [Fault("it failed"), AuditUnavailable("no record")])
async def test_where_nobody_knows_the_answer_there_is_none(fault: GatewayError) -> None:
    for body in (QUESTION, b"{}"):
        seen = await post(endpoint(Yes(fails=fault)), body)
        assert seen.status == 500
        assert b"decision" not in seen.sent[1]["body"]


@pytest.mark.parametrize(
    ("sent", "back"),
    [(b"q-1", "q-1"), (b"x" * 129, "made-here"), (b"a\x7fb", "made-here"), (b"", "made-here")],
)
async def test_what_a_request_is_called_comes_back(sent: bytes, back: str) -> None:
    seen = await post(endpoint(Yes()), QUESTION, JSON, BEARER, (b"x-request-id", sent))
    assert told(seen)["x-request-id"] == back


async def test_whoever_has_no_key_waits_and_locks_nobody_out_who_has_one() -> None:
    decisions = Yes()
    app = endpoint(decisions)
    wrong = (b"authorization", b"Bearer " + b"w" * 40)
    for _ in range(300):
        assert (await post(app, QUESTION, JSON, wrong)).status == 401
    assert (await post(app, QUESTION, JSON, wrong)).status == 429
    assert (await post(app, QUESTION, JSON)).status == 429
    assert len(decisions.refused) == 300
    assert (await post(app)).status == 200


async def test_who_asks_is_looked_up_again_by_another_configuration() -> None:
    fields: Pairs = (HOST, JSON, BEARER)
    found = Found(list(fields))
    former = endpoint(Yes())
    latter = endpoint(Yes(), plane=replace(EDGE, key_digest=sha256(b"another's").digest()))
    statuses = []
    for app in (former, former, latter, former):

        async def asked(scope: Any, receive: Any, send: Any, app: Any = app) -> None:
            await app({**scope, "extensions": {FOUND: found}}, receive, send)

        seen = await Exchange([QUESTION]).ask(asked, "POST", EVALUATION, fields)
        statuses.append(seen.status)
    assert statuses == [200, 200, 401, 200]


async def test_of_many_wrong_keys_at_once_so_many_are_put_on_record() -> None:
    decisions, free, begun = Yes(), asyncio.Event(), 0

    async def slow(*_: object, **__: object) -> None:
        nonlocal begun
        begun += 1
        async with asyncio.timeout(60):
            await free.wait()

    decisions.refuse = slow  # type: ignore[method-assign]
    app = endpoint(decisions)
    wrong = (b"authorization", b"Bearer " + b"w" * 40)
    tried = [asyncio.create_task(post(app, QUESTION, JSON, wrong)) for _ in range(320)]
    done, _ = await asyncio.wait(tried, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    assert {task.result().status for task in done} == {429}
    free.set()
    statuses = [seen.status for seen in await asyncio.gather(*tried)]
    assert (statuses.count(401), statuses.count(429), begun) == (300, 20, 300)


async def test_where_to_ask_is_told_anybody_however_often() -> None:
    app = endpoint(Yes())
    for _ in range(301):
        assert (await Exchange().ask(app, "GET", METADATA, (HOST,))).status == 200


async def test_a_wrong_key_counts_where_nothing_can_be_put_on_record() -> None:
    app = endpoint(Yes(fails=AuditUnavailable("the audit log cannot record this now")))
    wrong = (b"authorization", b"Bearer " + b"w" * 40)
    for _ in range(300):
        assert (await post(app, QUESTION, JSON, wrong)).status == 500
    assert (await post(app, QUESTION, JSON, wrong)).status == 429


async def test_what_one_callers_words_make_of_a_question_holds_up_nobody_else_behind_a_plane() -> (
    None
):
    app = endpoint(Yes())
    for _ in range(301):
        assert (await post(app, b"[" * 500)).status == 400
    assert (await post(app)).status == 200


async def test_anybody_may_read_where_to_ask() -> None:
    seen = await Exchange().ask(endpoint(Yes()), "GET", METADATA, (HOST,))
    assert json.loads(seen.sent[1]["body"]) == {
        "policy_decision_point": "http://127.0.0.1:8080",
        "access_evaluation_endpoint": "http://127.0.0.1:8080/access/v1/evaluation",
        "access_evaluations_endpoint": "http://127.0.0.1:8080/access/v1/evaluations",
        "search_resource_endpoint": "http://127.0.0.1:8080/access/v1/search/resource",
        "search_action_endpoint": "http://127.0.0.1:8080/access/v1/search/action",
        "supported_obligations": [
            "urn:douane:duty:replace_result",
            "urn:douane:duty:require_step_up",
        ],
    }
    assert (await Exchange().ask(endpoint(Yes()), "POST", METADATA, (HOST,))).status == 405
    assert (await Exchange().ask(endpoint(Yes()), "PUT", EVALUATION, (HOST,))).status == 405


async def several(decisions: Yes, who: list[str], semantic: str = "") -> list[dict[str, Any]]:
    content = json.loads(QUESTION)
    items = [{"subject": {"type": "user", "id": one} if one else {}} for one in who]
    options = {"evaluations_semantic": semantic} if semantic else {}
    body = json.dumps({**content, "evaluations": items, "options": options}).encode()
    app = endpoint(decisions, most_bytes=1 << 20)
    seen = await Exchange([body]).ask(app, "POST", EVALUATIONS, (HOST, JSON, BEARER))
    assert seen.status == 200
    answers: list[dict[str, Any]] = json.loads(seen.sent[1]["body"])["evaluations"]
    return answers


@pytest.mark.parametrize(
    ("semantic", "decisions"),
    [
        ("", [True, False, True]),
        ("execute_all", [True, False, True]),
        ("deny_on_first_deny", [True, False]),
        ("permit_on_first_permit", [True]),
    ],
)
async def test_a_batch_is_answered_in_its_order_and_as_far_as_it_wants(
    semantic: str, decisions: list[bool]
) -> None:
    asked = Yes()
    answers = await several(asked, ["alice", "bob", "carol"], semantic)
    assert [one["decision"] for one in answers] == decisions
    assert len(asked.asked) == len(decisions)


async def test_of_a_batch_so_many_are_decided_on_at_the_same_time() -> None:
    decisions, under_way = Yes(), [0]
    answer = decisions.answer

    async def counted(asking: Asking, asked: Evaluation) -> Answer:
        under_way.append(under_way[-1] + 1)
        await asyncio.sleep(0)
        under_way.append(under_way[-1] - 1)
        return await answer(asking, asked)

    decisions.answer = counted  # type: ignore[method-assign]
    who = [f"p{number}" for number in range(20)]
    answers = await several(decisions, who)
    assert [one["context"]["of"] for one in answers] == who
    assert max(under_way) == 8


async def test_one_item_that_is_no_question_changes_no_other_answer() -> None:
    decisions = Yes()
    first, second, third = await several(decisions, ["alice", "", "carol"])
    assert (first["decision"], third["decision"]) == (True, True)
    assert second["decision"] is False
    assert second["context"]["error"]["status"] == 400
    assert decisions.refused == [("protocol_error", "edge")]


async def test_an_item_that_nobody_knows_the_answer_to_is_a_no() -> None:
    (answer,) = await several(Yes(fails=AuditUnavailable("no record")), ["alice"])
    assert (answer["decision"], answer["context"]["error"]["status"]) == (False, 500)


async def test_a_batch_has_a_bound() -> None:
    body = json.dumps({**json.loads(QUESTION), "evaluations": [{}] * (MOST_ITEMS + 1)}).encode()
    seen = await Exchange([body]).ask(
        endpoint(Yes(), most_bytes=1 << 20), "POST", EVALUATIONS, (HOST, JSON, BEARER)
    )
    assert seen.status == 400


async def test_a_batch_without_items_is_one_question() -> None:
    seen = await Exchange([QUESTION]).ask(
        endpoint(Yes()), "POST", EVALUATIONS, (HOST, JSON, BEARER)
    )
    assert json.loads(seen.sent[1]["body"])["decision"] is True


@pytest.mark.parametrize(("path", "told"), [("resource", "5-b-False"), ("action", "5-b-True")])
async def test_a_search_is_answered_by_pages(path: str, told: str) -> None:
    content = {**json.loads(QUESTION), "page": {"limit": 5, "token": "b"}}
    seen = await Exchange([json.dumps(content).encode()]).ask(
        endpoint(Yes()), "POST", f"/access/v1/search/{path}", (HOST, JSON, BEARER)
    )
    assert json.loads(seen.sent[1]["body"]) == {
        "results": [{"name": told}],
        "page": {"next_token": "next", "count": 1, "total": 7},
    }


SUBMISSION = {
    **json.loads(QUESTION),
    "denial": {"binding_token": "a.b.c", "expires_at": "2027-01-15T08:00:00Z"},
}


async def submit(
    content: object, *headers: tuple[bytes, bytes], key: tuple[bytes, bytes] = BEARER
) -> Exchange:
    fields: Pairs = (HOST, JSON, key, *headers)
    body = json.dumps(content).encode()
    return await Exchange([body]).ask(endpoint(Yes()), "POST", REQUESTS, fields)


async def test_the_document_says_that_requests_for_access_are_taken_where_they_are() -> None:
    app = endpoint(Yes(), plane=replace(EDGE, access_requests=True))
    seen = await Exchange().ask(app, "GET", METADATA, (HOST,))
    told = json.loads(seen.sent[1]["body"])
    assert told["access_request_endpoint"] == "http://127.0.0.1:8080/access/v1/requests"
    assert told["jwks_uri"] == "http://127.0.0.1:8080/oauth/jwks.json"
    assert told["capabilities"] == ["urn:openid:authzen:capability:access-request"]


async def test_a_request_for_access_gets_a_task_to_look_at() -> None:
    seen = await submit(SUBMISSION)
    assert seen.status == 202
    place = "http://127.0.0.1:8080/access/v1/requests/t.1"
    assert (told(seen)["location"], told(seen)["retry-after"]) == (place, "5")
    assert json.loads(seen.sent[1]["body"]) == {
        "task": {
            "id": "t.1",
            "status": "pending",
            "status_endpoint": place,
            "expires_at": "2027-01-15T08:00:00Z",
            "links": {"cancel": f"{place}/cancel"},
        }
    }


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"denial": {}}, "urn:openid:authzen:access-request:error:invalid_denial_binding"),
        ({"items": []}, "urn:openid:authzen:access-request:error:invalid_denial_binding"),
        ({"callback": {"endpoint": "https://pep.example/done"}}, "about:blank"),
        ({"client": {"actor": {"id": "somebody else"}}}, "about:blank"),
        ({"requested_access": "everything"}, "about:blank"),
        ({"denial": {"binding_token": "a", "expires_at": "soon"}}, "about:blank"),
        ({"subject": None}, "about:blank"),
    ],
)
async def test_what_is_no_request_for_access_is_a_problem(
    change: dict[str, object], kind: str
) -> None:
    seen = await submit({**SUBMISSION, **change})
    assert (seen.status, told(seen)["content-type"]) == (400, "application/problem+json")
    assert json.loads(seen.sent[1]["body"])["type"] == kind


async def test_too_many_requests_for_access_are_told_when_there_is_room() -> None:
    seen = await submit(SUBMISSION, (b"idempotency-key", b"full"))
    assert (seen.status, told(seen)["retry-after"]) == (429, "7")
    assert (await submit(SUBMISSION, (b"idempotency-key", b"k" * 257))).status == 400


async def test_a_stranger_submits_and_looks_at_nothing() -> None:
    assert (await submit(SUBMISSION, key=(b"authorization", b"Bearer x"))).status == 401
    for method, path in (("GET", f"{REQUESTS}/t.1"), ("POST", f"{REQUESTS}/t.1/cancel")):
        assert (await Exchange().ask(endpoint(Yes()), method, path, (HOST,))).status == 401


async def test_a_submission_that_is_called_at_too_great_length_is_on_record() -> None:
    decisions = Yes()
    named = (b"idempotency-key", b"k" * 300)
    body = json.dumps(SUBMISSION).encode()
    app = endpoint(decisions)
    seen = await Exchange([body]).ask(app, "POST", REQUESTS, (HOST, JSON, BEARER, named))
    assert seen.status == 400
    assert decisions.refused == [("protocol_error", "edge")]


async def test_what_is_refused_at_a_task_is_on_record_once() -> None:
    decisions = Yes()
    await Exchange([]).ask(endpoint(decisions), "GET", f"{REQUESTS}/t.1", (HOST, BEARER))
    assert decisions.refused == [("access_request_refused", "edge")]


async def test_another_method_is_counted() -> None:
    counted: list[tuple[str, str]] = []
    app = endpoint(Yes(), refused_unread=lambda *told: counted.append(told))
    assert (await Exchange([]).ask(app, "PUT", EVALUATION, (HOST, BEARER))).status == 405
    assert counted == [("method", "192.0.2.7")]


async def test_a_task_is_looked_at_and_cancelled_where_it_says() -> None:
    app = endpoint(Yes())
    unknown = await Exchange().ask(app, "GET", f"{REQUESTS}/t.1", (HOST, BEARER))
    assert unknown.status == 404
    kind = json.loads(unknown.sent[1]["body"])["type"]
    assert kind == "urn:openid:authzen:access-request:error:unknown_task"
    ended = await Exchange().ask(app, "POST", f"{REQUESTS}/t.1/cancel", (HOST, BEARER))
    assert json.loads(ended.sent[1]["body"])["task"]["status"] == "cancelled"
    assert (await Exchange().ask(app, "POST", f"{REQUESTS}/t.1", (HOST, BEARER))).status == 405
