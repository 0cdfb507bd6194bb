"""A yes that nobody was given, and a result that comes too late, end on record."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from gateway.domain.audit import RecordKind
from gateway.domain.labels import STRICTEST_DEFAULT
from gateway.domain.quotas import Count, Per, Quota
from gateway.errors import PolicyUnavailable
from gateway.pipeline.quotas import Quotas
from gateway.planes import waiting
from gateway.planes.stubs import envoy_pb2, ext_mcp_pb2
from tests.pipeline.house import ALICE, UNHINTED, House
from tests.planes.asking import (
    CLAIMED,
    META,
    PLANE,
    SILENT,
    Envoy,
    answered,
    call,
    headers,
    mirrored,
    on_record,
    opened_house,
    refusal,
)
from tests.planes.test_grpc_listener import (
    AGENT,
    AUTH,
    agent,
    asked,
    checked,
    closed,
    method,
    request,
    response,
    status_of,
)

house = pytest.fixture(opened_house)
HASTY = replace(PLANE, deadline_s=0.01)
LIST_OCTETS = 20_000
"""A list that is asked for takes as much, and not half as much."""


class Gate:
    """Holds every call as its server is looked at, until it is opened."""

    def __init__(self, house: House) -> None:
        self.came = asyncio.Event()
        self.free = asyncio.Event()
        house.catalogs.first = self._held

    async def _held(self) -> None:
        self.came.set()
        async with asyncio.timeout(60):
            await self.free.wait()


async def recorded(house: House, kind: RecordKind) -> Any:
    """Return the one record of `kind`, once it is there."""
    async with asyncio.timeout(60):
        while not (found := [one for one in on_record(house) if one.kind is kind]):
            await asyncio.sleep(0.001)
    (one,) = found
    return one


async def require_taken_back(house: House, clean: Any) -> None:
    """Return if the call that was allowed has ended as one that was never sent."""
    outcome = await recorded(house, RecordKind.OUTCOME)
    intent = await recorded(house, RecordKind.INTENT)
    assert outcome.fields["decision_id"] == intent.fields["decision_id"]
    assert outcome.fields["verdict"] == "error"
    assert [one["code"] for one in outcome.fields["reasons"]][-1] == "never_given"
    async with asyncio.timeout(60):
        while house.owed.kept:
            await asyncio.sleep(0.001)
        # It is taken back in memory once its end is on record.
        while house.debts.counted(await house.runs.of(ALICE, UNHINTED)).label != clean:
            await asyncio.sleep(0.001)


async def test_a_yes_that_comes_too_late_was_never_sent(house: House) -> None:
    gate, envoy = Gate(house), Envoy(house, HASTY)
    clean = (await house.runs.of(ALICE, UNHINTED)).label
    with pytest.raises(PolicyUnavailable):
        await envoy.asked(call())
    gate.free.set()
    await require_taken_back(house, clean)
    assert envoy.exchange.left(envoy.force) is None


async def test_a_yes_that_nobody_waited_for_was_never_sent(house: House) -> None:
    gate, envoy = Gate(house), Envoy(house)
    clean = (await house.runs.of(ALICE, UNHINTED)).label
    asking = asyncio.ensure_future(envoy.asked(call()))
    await gate.came.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    gate.free.set()
    await require_taken_back(house, clean)


async def test_a_late_yes_to_agentgateway_was_never_sent(house: House, tmp_path: Path) -> None:
    gate = Gate(house)
    clean = (await house.runs.of(ALICE, UNHINTED)).label
    async with asked(house, replace(AGENT, deadline_s=0.01), tmp_path) as channel:
        late = await method(channel, "CheckRequest")(request(), metadata=AUTH)
        assert late.error.code == ext_mcp_pb2.AuthorizationError.UNKNOWN
        gate.free.set()
        await require_taken_back(house, clean)


async def test_a_late_yes_by_ext_authz_counts_as_its_worst(house: House, tmp_path: Path) -> None:
    """Such a plane tells nothing: whether Envoy waited after all nobody would know."""
    gate = Gate(house)
    async with asked(house, replace(SILENT, deadline_s=0.01), tmp_path) as channel:
        late = method(channel, "Check")(checked(call()), metadata=AUTH)
        assert await status_of(late) is grpc.StatusCode.UNAVAILABLE
        gate.free.set()
        outcome = await recorded(house, RecordKind.OUTCOME)
    assert outcome.fields["code"] == "unreported"
    label = (await house.runs.of(ALICE, UNHINTED)).label
    assert label.join(STRICTEST_DEFAULT) == label


async def test_a_late_no_is_on_record_as_that_alone(house: House) -> None:
    house.rule.says = closed
    gate, envoy = Gate(house), Envoy(house, HASTY)
    with pytest.raises(PolicyUnavailable):
        await envoy.asked(call())
    gate.free.set()
    assert (await recorded(house, RecordKind.OUTCOME)).fields["verdict"] == "deny"
    assert len(on_record(house)) == 1


async def test_what_was_never_sent_has_used_no_quota(house: House) -> None:
    once = Quota(name="calls", count=Count.CALLS, most=1, per=Per.DAY)
    house.quotas = Quotas([once], prices={}, clock=house.clock)
    house.pipeline = house._wired()
    gate, envoy = Gate(house), Envoy(house, HASTY)
    clean = (await house.runs.of(ALICE, UNHINTED)).label
    with pytest.raises(PolicyUnavailable):
        await envoy.asked(call())
    gate.free.set()
    await require_taken_back(house, clean)
    again = await Envoy(house).asked(call())
    assert again.WhichOneof("response") == "request_body"


async def test_what_cannot_be_taken_back_on_record_stays_owed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    envoy = Envoy(house)
    await envoy.asked(call())
    pending = envoy.exchange._pending
    assert pending is not None
    house.audit.failure = "disk full"
    turned = await house.traffic.withdraw(PLANE, pending, PolicyUnavailable("late"))
    assert turned.error.code == "audit_unavailable"
    assert len(house.owed.kept) == 1


async def test_a_result_that_comes_too_late_is_on_record_beside_its_call(house: House) -> None:
    envoy = Envoy(house, replace(PLANE, report_within_s=1.0))
    await envoy.asked(call())
    house.now += 2.0
    await house.debts.settle()
    assert refusal(await envoy.back(answered())) == "reported_before"
    intent, unreported, late = on_record(house)
    assert unreported.fields["code"] == "unreported"
    assert late.fields["reasons"][-1]["code"] == "reported_before"
    assert late.fields["parent"] == intent.fields["decision_id"]
    assert late.fields["principal"] == intent.fields["principal"]


async def test_a_call_that_cannot_be_kept_is_refused_and_not_owed(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of lists nothing is owed, and what they said is kept all the same until they come."""
    monkeypatch.setattr(waiting, "_SHARE", 2 * waiting._OWED)
    refused = ext_mcp_pb2.AuthorizationError.RESOURCE_EXHAUSTED
    async with agent(house, tmp_path) as (of_request, _):
        too_large = await of_request(request(method="tools/list", params=None))
        assert too_large.error.code == refused
        assert "no result yet" in too_large.error.reason
        for _ in range(2):
            assert (await of_request(request())).mutated
        assert (await of_request(request())).error.code == refused
    assert [one.fields["code"] for one in on_record(house) if "code" in one.fields] == [
        "rate_limited",
        "rate_limited",
    ]
    assert len(house.owed.kept) == 2


async def test_whose_calls_have_no_result_leave_room_for_others_of_the_plane(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of lists nothing is owed, so that what they take is counted here alone."""
    listed = request(method="tools/list", params={"_meta": META})
    others = request(method="tools/list", params={"_meta": META}, claims={**CLAIMED, "sub": "bob"})
    monkeypatch.setattr(waiting, "_OF_EACH", 3 * LIST_OCTETS // 2)
    async with agent(house, tmp_path) as (of_request, of_response):
        first = await of_request(listed)
        token = first.metadata["decision"]
        refused = await of_request(listed)
        assert refused.error.code == ext_mcp_pb2.AuthorizationError.RESOURCE_EXHAUSTED
        assert "your calls" in refused.error.reason
        assert (await of_request(others)).metadata["decision"]
        told = response(token, {"tools": []}, asked_="tools/list")
        assert (await of_response(told)).mutated
        assert (await of_request(listed)).metadata["decision"]


async def test_who_has_all_their_room_is_told_before_policy_is_asked(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_OF_EACH", waiting._OWED)
    async with agent(house, tmp_path) as (of_request, _):
        assert (await of_request(request())).mutated
        asked_before = len(house.rule.asked)
        refused = await of_request(request())
        assert refused.error.code == ext_mcp_pb2.AuthorizationError.RESOURCE_EXHAUSTED
        assert len(house.rule.asked) == asked_before


async def test_what_was_refused_for_its_caller_takes_no_room_of_the_plane(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = request(method="tools/list", params={"_meta": META})
    others = request(method="tools/list", params={"_meta": META}, claims={**CLAIMED, "sub": "bob"})
    monkeypatch.setattr(waiting, "_SHARE", 5 * LIST_OCTETS // 2)
    monkeypatch.setattr(waiting, "_OF_EACH", 3 * LIST_OCTETS // 2)
    async with agent(house, tmp_path) as (of_request, _):
        for _ in range(3):
            await of_request(listed)
        assert (await of_request(others)).metadata["decision"]


async def test_what_a_plane_never_tells_makes_room_in_time(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_SHARE", waiting._OWED)
    async with asked(house, replace(AGENT, report_within_s=0.0), tmp_path) as channel:
        for _ in range(3):
            given = await method(channel, "CheckRequest")(request(), metadata=AUTH)
            assert given.mutated


async def test_an_answer_that_is_cut_is_on_record(house: House, tmp_path: Path) -> None:
    async with asked(house, PLANE, tmp_path) as channel:
        stream = method(channel, "Process")(metadata=AUTH)
        buffered = envoy_pb2.BodySendMode.BUFFERED
        body = call()
        pairs = [(":method", "POST"), ("content-type", "application/json"), *mirrored(body)]
        begin = envoy_pb2.ProcessingRequest(
            request_headers=envoy_pb2.HttpHeaders(headers=headers(pairs))
        )
        begin.protocol_config.request_body_mode = buffered
        begin.protocol_config.response_body_mode = buffered
        await stream.write(begin)
        await stream.read()
        cut = envoy_pb2.HttpBody(body=body, end_of_stream=False)
        await stream.write(envoy_pb2.ProcessingRequest(request_body=cut))
        assert (await stream.read()).immediate_response.status.code == 500
        assert await stream.code() is grpc.StatusCode.FAILED_PRECONDITION
    (outcome,) = on_record(house)
    assert outcome.fields["reasons"][-1]["code"] == "unexpected"
    assert "BUFFERED" in outcome.fields["reasons"][-1]["message"]
