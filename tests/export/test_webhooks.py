"""Webhooks arrive signed, in order and without content, or are given up, and never hold others up."""

import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.export.follower import Follower
from gateway.export.messages import message_of
from gateway.export.webhooks import FromNow, Receiver, Webhook
from gateway.ports.following import NotDelivered, StoredRecord
from gateway.storage.cursors import DurableCursors
from gateway.storage.store import Store
from gateway.upstream.egress import EgressPolicy, GuardedFetcher

NOW = 1_767_603_600.0
TIME = "2026-01-05T09:00:00.000000Z"
KEY = b"k" * 32
EVERY = frozenset({"approval", "drift", "anomaly", "policy", "audit"})


class Receiving:
    """A receiver on loopback that answers as it is told and keeps what it got."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.got: list[tuple[Mapping[str, str], bytes]] = []
        self.url = ""
        self.retry_after = "17"

    async def handle(self, request: web.Request) -> web.Response:
        self.got.append((request.headers.copy(), await request.read()))
        status = self.answers.pop(0) if self.answers else 204
        headers = {"location": f"{self.url}/elsewhere"} if status // 100 == 3 else {}
        if status in {429, 503}:
            headers["retry-after"] = self.retry_after
        return web.Response(status=status, headers=headers, body=b"x" * 100_000)

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _ in self.got]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiving]:
    receiving = Receiving()
    app = web.Application()
    app.router.add_post("/{rest:.*}", receiving.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    receiving.url = f"http://127.0.0.1:{port}"
    yield receiving
    await runner.cleanup()


class Rig:
    def __init__(self, url: str) -> None:
        self.now = NOW
        self.counted: list[str] = []
        self.url = url

    def webhook(self, events: frozenset[str] = EVERY, *, allow: str = "127.0.0.0/8") -> Webhook:
        return Webhook(
            Receiver(name="ops", url=f"{self.url}/hook/s3cret", key=KEY, events=events),
            poster=GuardedFetcher(EgressPolicy.of([allow])),
            approval_s=lambda: 3600,
            clock=lambda: self.now,
            count=self.counted.append,
        )


@pytest.fixture
def rig(receiver: Receiving) -> Rig:
    return Rig(receiver.url)


def record(index: int = 0, **members: Any) -> StoredRecord:
    whole = {"log_id": "l", "id": f"r{index}", "time": TIME, "kind": "gap", **members}
    body = json.dumps(whole, separators=(",", ":")).encode()
    return StoredRecord(leaf_index=index, leaf_hash=b"", body=body)


ASKED = {
    "kind": "approval",
    "code": "asked",
    "verdict": "ask",
    "principal": "emma",
    "client": "c1",
    "server": "mail",
    "target": "send",
    "approval_id": "a1",
    "run": "run1",
    "arguments": {"body": "the content"},
    "reasons": [{"code": "asked", "message": "the content of a reason"}],
}


async def test_a_message_is_signed_as_standard_webhooks_says(rig: Rig, receiver: Receiving) -> None:
    await rig.webhook().deliver([record(3, **ASKED)])
    ((headers, body),) = receiver.got
    signed = b".".join(
        [headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body]
    )
    expected = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert headers["webhook-id"] == "r3"
    assert headers["webhook-timestamp"] == str(int(NOW))
    assert headers["content-type"] == "application/json"
    assert rig.counted == ["ok"]


async def test_a_message_names_what_happened_and_has_no_content(
    rig: Rig, receiver: Receiving
) -> None:
    await rig.webhook().deliver([record(3, **ASKED)])
    ((_, body),) = receiver.got
    assert json.loads(body) == {
        "type": "approval.asked",
        "timestamp": TIME,
        "data": {
            "log_id": "l",
            "id": "r3",
            "kind": "approval",
            "code": "asked",
            "verdict": "ask",
            "principal": "emma",
            "client": "c1",
            "server": "mail",
            "target": "send",
            "approval_id": "a1",
            "run": "run1",
            "leaf_index": 3,
            "command": "douane approvals show a1",
        },
    }


@pytest.mark.parametrize(
    ("members", "told"),
    [
        pytest.param({"kind": "approval", "code": "asked"}, ("approval", "approval.asked"), id="a"),
        pytest.param(
            {"kind": "approval", "code": "allowed"}, ("approval", "approval.allowed"), id="b"
        ),
        pytest.param(
            {"kind": "approval", "code": "denied"}, ("approval", "approval.denied"), id="c"
        ),
        pytest.param({"kind": "approval", "code": "not_found"}, None, id="d"),
        pytest.param(
            {"kind": "pin", "code": "changed", "verdict": "hold", "server": "s", "target": "t"},
            ("drift", "pin.changed"),
            id="e",
        ),
        pytest.param({"kind": "pin", "code": "changed", "verdict": "approve"}, None, id="f"),
        pytest.param({"kind": "pin", "code": "observed", "verdict": "hold"}, None, id="g"),
        pytest.param(
            {"kind": "system", "code": "unusual_rate"}, ("anomaly", "anomaly.unusual_rate"), id="h"
        ),
        pytest.param({"kind": "system", "code": "started"}, None, id="i"),
        pytest.param({"kind": "policy", "code": "refused"}, ("policy", "policy.refused"), id="j"),
        pytest.param({"kind": "policy", "code": "in_force"}, None, id="k"),
        pytest.param({"kind": "gap"}, ("audit", "audit.gap"), id="l"),
        pytest.param(
            {"kind": "system", "code": "witness_disagrees"}, ("audit", "audit.witness"), id="m"
        ),
        pytest.param({"kind": "outcome", "code": "denied"}, None, id="n"),
    ],
)
def test_people_are_told_of_what_they_can_do_something_about(
    members: dict[str, Any], told: tuple[str, str] | None
) -> None:
    found = message_of(record(**members), approval_s=60)
    assert (found and (found.event, found.type)) == told


def test_the_command_cannot_be_made_to_do_something_else() -> None:
    found = message_of(
        record(kind="pin", code="changed", server="s", target="$(rm -rf ~)" + "x" * 500),
        approval_s=60,
    )
    assert found is not None
    data = json.loads(found.body)["data"]
    assert data["command"].startswith("douane pins diff s '$(rm -rf ~)")
    assert len(data["target"]) == 128


@pytest.mark.parametrize("code", ["asked", "allowed", "denied"])
def test_a_question_is_told_with_the_page_that_answers_it(code: str) -> None:
    page = "https://gateway.example/approve/a_1"
    reasons = [{"code": code, "message": "x"}, {"code": "page", "message": page}]
    for told, url in ((reasons, page), (reasons[:1], None), (None, None)):
        members: dict[str, Any] = {} if told is None else {"reasons": told}
        kept = record(kind="approval", code=code, verdict="ask", approval_id="a_1", **members)
        found = message_of(kept, approval_s=60)
        assert found is not None
        assert json.loads(found.body)["data"].get("url") == url


async def test_only_what_was_asked_for_is_sent(rig: Rig, receiver: Receiving) -> None:
    await rig.webhook(frozenset({"audit"})).deliver([record(0, **ASKED), record(1)])
    assert receiver.ids == ["r1"]


@pytest.mark.parametrize("status", [500, 503, 429, 401, 404, 302, 307])
async def test_what_does_not_arrive_is_sent_again_with_all_after_it(
    rig: Rig, receiver: Receiving, status: int
) -> None:
    webhook = rig.webhook()
    page = [record(0), record(1), record(2)]
    receiver.answers = [200, status]
    with pytest.raises(NotDelivered, match=f"^it answers with status {status}$"):
        await webhook.deliver(page)
    await webhook.deliver(page)
    assert receiver.ids == ["r0", "r1", "r1", "r2"]
    assert rig.counted == ["ok", "failed", "ok", "ok"]


@pytest.mark.parametrize(
    ("text", "seconds"), [("17", 17), ("Mon, 05 Jan 2026 09:02:00 GMT", 120), ("soon", 0)]
)
async def test_a_receiver_says_how_long_to_wait(
    text: str, seconds: float, rig: Rig, receiver: Receiving
) -> None:
    receiver.answers, receiver.retry_after = [429], text
    with pytest.raises(NotDelivered) as told:
        await rig.webhook().deliver([record(0)])
    assert told.value.retry_after_s == seconds


async def test_a_message_that_is_refused_for_good_is_given_up(
    rig: Rig, receiver: Receiving
) -> None:
    receiver.answers = [410]
    await rig.webhook().deliver([record(0), record(1)])
    assert receiver.ids == ["r0", "r1"]
    assert rig.counted == ["refused", "ok"]


async def test_a_question_that_has_run_out_is_not_sent_late(rig: Rig, receiver: Receiving) -> None:
    webhook = rig.webhook()
    receiver.answers = [500]
    page = [record(0, **ASKED), record(1)]
    with pytest.raises(NotDelivered):
        await webhook.deliver(page)
    rig.now += 3601
    await webhook.deliver(page)
    assert receiver.ids == ["r0", "r1"]
    assert rig.counted == ["failed", "expired", "ok"]


async def test_what_is_a_day_old_is_given_up(rig: Rig, receiver: Receiving) -> None:
    rig.now += 86401
    await rig.webhook().deliver([record(0)])
    assert receiver.got == []
    assert rig.counted == ["expired"]


async def test_nobody_is_reached_who_is_not_allowed(rig: Rig, receiver: Receiving) -> None:
    with pytest.raises(NotDelivered, match="not public") as refused:
        await rig.webhook(allow="10.0.0.0/8").deliver([record(0)])
    assert "s3cret" not in str(refused.value)
    assert receiver.got == []


async def test_a_receiver_that_is_away_is_no_secret_in_an_error(rig: Rig) -> None:
    rig.url = "http://127.0.0.1:1"
    with pytest.raises(NotDelivered) as away:
        await rig.webhook().deliver([record(0)])
    assert "s3cret" not in str(away.value)
    assert "s3cret" not in repr(rig.webhook().receiver)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path / "data", clock=lambda: NOW)
    yield opened
    await opened.close()


class Log:
    def __init__(self, records: list[StoredRecord]) -> None:
        self.records = records

    def stored_after(self, leaf_index: int, limit: int) -> list[StoredRecord]:
        return [one for one in self.records if one.leaf_index > leaf_index][:limit]


class _Enough(Exception):
    pass


async def _followed(log: Log, cursors: Any, webhook: Webhook, pauses: int) -> None:
    left = [pauses]

    async def pause(_: float) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise _Enough

    follower = Follower("webhook ops", source=log, cursors=cursors, sink=webhook, pause=pause)
    with pytest.raises(_Enough):
        await follower.run()


async def test_a_new_webhook_is_told_what_happens_from_now_on(
    rig: Rig, receiver: Receiving, store: Store
) -> None:
    log = Log([record(0), record(1)])
    cursors = FromNow(DurableCursors(store.writer), lambda: 1)
    await _followed(log, cursors, rig.webhook(), 0)
    assert receiver.got == []
    log.records.append(record(2))
    again = FromNow(DurableCursors(store.writer), lambda: 2)
    await _followed(log, again, rig.webhook(), 0)
    assert receiver.ids == ["r2"]


async def test_nothing_is_lost_over_a_restart(rig: Rig, receiver: Receiving, store: Store) -> None:
    log = Log([record(index) for index in range(4)])
    receiver.answers = [204, 204, 500, 500]
    cursors = FromNow(DurableCursors(store.writer), lambda: -1)
    await _followed(log, cursors, rig.webhook(), 1)
    assert receiver.ids == ["r0", "r1", "r2", "r2"]
    receiver.got.clear()
    await _followed(log, cursors, rig.webhook(), 0)
    assert receiver.ids == ["r0", "r1", "r2", "r3"]
