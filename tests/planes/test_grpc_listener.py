"""The gRPC listener: who may ask there, and that it never leaves a plane to go on alone."""

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from gateway.config import parse
from gateway.domain.decisions import Decision, Verdict
from gateway.domain.planes import Plane, PlaneKind
from gateway.domain.tools import Profile
from gateway.errors import ConfigError
from gateway.planes import ext_authz, ext_mcp, ext_proc
from gateway.planes.http_calls import CLAIMS, JWT
from gateway.planes.server import Listening, Tls, listening
from gateway.planes.stubs import envoy_pb2, ext_mcp_pb2
from gateway.wire.inbound import MODERN_VERSION_KEY
from gateway.wiring.planes_by_grpc import asked_by_grpc
from tests.pipeline.house import House, decision, text
from tests.planes.asking import (
    CLAIMED,
    KEY,
    META,
    PLANE,
    SILENT,
    call,
    headers,
    in_force,
    lease,
    legacy,
    mirrored,
    on_record,
    opened_house,
)
from tests.servers.process import free_port
from tests.upstream.outside import Authority

AUTH = (("authorization", f"Bearer {KEY}"),)
AGENT = replace(PLANE, kind=PlaneKind.EXT_MCP)


@pytest.fixture
async def house() -> House:
    return await opened_house()


@asynccontextmanager
async def asked(house: House, plane: Plane, folder: Path) -> AsyncIterator[grpc.aio.Channel]:
    """Serve `plane` at a socket in `folder`, and connect to it."""
    address = f"unix:{folder / 'p.sock'}"
    where = Listening(address=address, tls=None, most_bytes=1 << 20, drain_s=1.0)
    async with (
        listening(where, partial(lease, in_force(house, plane))),
        grpc.aio.insecure_channel(address) as channel,
    ):
        yield channel


def method(channel: grpc.aio.Channel, name: str) -> Any:
    """Return one method of the services, as its plane calls it."""
    methods: dict[str, tuple[str, Any, str]] = {
        "Check": (ext_authz.SERVICE, envoy_pb2.CheckResponse, "unary_unary"),
        "Process": (ext_proc.SERVICE, envoy_pb2.ProcessingResponse, "stream_stream"),
        "CheckRequest": (ext_mcp.SERVICE, ext_mcp_pb2.McpRequestResult, "unary_unary"),
        "CheckResponse": (ext_mcp.SERVICE, ext_mcp_pb2.McpResponseResult, "unary_unary"),
    }
    service, returned, asks = methods[name]
    return getattr(channel, asks)(
        f"/{service}/{name}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=returned.FromString,
    )


def checked(body: bytes, **more: Any) -> envoy_pb2.CheckRequest:
    """Return what Envoy asks about a POST of `body`."""
    said: dict[str, Any] = {"partial": "false", "claims": CLAIMED, "server": "gh", **more}
    pairs = [(":method", "POST"), *said.get("first", [("content-type", "application/json")])]
    pairs += [*mirrored(body), *said.get("headers", [])]
    if said["partial"]:
        pairs.append(("x-envoy-auth-partial-body", said["partial"]))
    request = envoy_pb2.CheckRequest()
    http = request.attributes.request.http
    http.method = said.get("method", "POST")
    http.path = said.get("path", "/mcp/gh")
    http.raw_body = body
    http.header_map.CopyFrom(headers(pairs))
    if said["server"]:
        request.attributes.context_extensions["server"] = said["server"]
    request.attributes.metadata_context.filter_metadata[JWT].update({CLAIMS: said["claims"]})
    return request


def closed(question: Mapping[str, Any]) -> Verdict | Decision:
    """Let everybody see what nobody may call."""
    return decision(Verdict.DENY, "closed") if question["phase"] == "call" else Verdict.ALLOW


async def status_of(call_: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call_
    return raised.value.code()


@pytest.mark.parametrize(
    "metadata",
    [
        (),
        (("authorization", "Bearer nobody"),),
        (("authorization", f"Basic {KEY}"),),
        (("authorization", KEY),),
        (*AUTH, *AUTH),
    ],
)
async def test_a_stranger_is_told_nothing(
    house: House, tmp_path: Path, metadata: tuple[tuple[str, str], ...]
) -> None:
    async with asked(house, SILENT, tmp_path) as channel:
        check = method(channel, "Check")
        assert await status_of(check(checked(call()), metadata=metadata)) is (
            grpc.StatusCode.UNAUTHENTICATED
        )
    (outcome,) = on_record(house)
    assert outcome.kind == "auth"


async def test_a_plane_asks_in_its_own_words_alone(house: House, tmp_path: Path) -> None:
    async with asked(house, PLANE, tmp_path) as channel:
        check = method(channel, "Check")
        assert await status_of(check(checked(call()), metadata=AUTH)) is (
            grpc.StatusCode.UNAUTHENTICATED
        )


async def test_it_says_that_it_serves(house: House, tmp_path: Path) -> None:
    async with asked(house, SILENT, tmp_path) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        answer = await health.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_more_at_once_than_there_is_room_for_is_refused(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.planes.server.MOST_AT_ONCE", 1)
    async with asked(house, PLANE, tmp_path) as channel:
        streams = [method(channel, "Process")(metadata=AUTH) for _ in range(2)]
        codes = {asyncio.ensure_future(stream.code()) for stream in streams}
        (refused,), _ = await asyncio.wait(codes, return_when=asyncio.FIRST_COMPLETED)
        assert refused.result() is grpc.StatusCode.RESOURCE_EXHAUSTED
        for stream in streams:
            stream.cancel()


async def test_a_message_that_is_too_large_is_refused(house: House, tmp_path: Path) -> None:
    async with asked(house, SILENT, tmp_path) as channel:
        check = method(channel, "Check")
        large = checked(b"x" * (3 << 20))
        assert await status_of(check(large, metadata=AUTH)) is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_nobody_connects_without_a_certificate_that_is_asked_for(
    house: House, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    authority.server("localhost")
    ours, theirs = (tmp_path / "localhost.pem").read_bytes(), authority.file.read_bytes()
    port = free_port()
    where = Listening(
        address=f"127.0.0.1:{port}",
        tls=Tls(certificate=ours, key=ours, client_ca=theirs),
        most_bytes=1 << 20,
        drain_s=1.0,
    )
    known = grpc.ssl_channel_credentials(theirs, ours, ours)
    unknown = grpc.ssl_channel_credentials(theirs)
    async with listening(where, partial(lease, in_force(house, SILENT))):
        async with grpc.aio.secure_channel(f"localhost:{port}", known) as channel:
            assert (await method(channel, "Check")(checked(call()), metadata=AUTH)).ok_response
        async with grpc.aio.secure_channel(f"localhost:{port}", unknown) as channel:
            asking = method(channel, "Check")(checked(call()), metadata=AUTH, timeout=60)
            assert await status_of(asking) is grpc.StatusCode.UNAVAILABLE


async def test_a_call_that_is_not_seen_again_counts_as_its_worst(
    house: House, tmp_path: Path
) -> None:
    async with asked(house, SILENT, tmp_path) as channel:
        answer = await method(channel, "Check")(checked(call()), metadata=AUTH)
    assert answer.HasField("ok_response")
    assert answer.status.code == 0
    outcome = on_record(house)[-1]
    assert outcome.fields["code"] == "unreported"
    assert outcome.fields["label_after"] == {
        "integrity": "untrusted",
        "confidentiality": "private",
    }


BESIDE = (
    "cookie",
    "x-note",
    "x-request-id",
    "baggage",
    "tracestate",
    "mcp-param-note",
    "user-agent",
)


async def test_of_a_head_what_was_not_read_goes_on_to_no_server(
    house: House, tmp_path: Path
) -> None:
    told = [(name, "psst") for name in BESIDE]
    framed = [("host", "a"), ("content-length", str(len(call()))), ("x-forwarded-proto", "https")]
    first = [("content-type", "application/json; x=psst"), ("accept", "text/html, */*")]
    async with asked(house, SILENT, tmp_path) as channel:
        ask = partial(method(channel, "Check"), metadata=AUTH)
        await ask(checked(call()))  # from now on the run counts as having read the worst
        more = {"first": first, "headers": [*told, *framed, ("x-forwarded-for", "psst")]}
        answer = (await ask(checked(call(), **more))).ok_response
    assert sorted(answer.headers_to_remove) == sorted([*BESIDE, "x-forwarded-for"])
    put = {one.header.key: one.header.value for one in answer.headers}
    assert (put["content-type"], put["accept"]) == ("application/json", "*/*")
    assert "psst" not in str(put)


@pytest.mark.parametrize(
    ("said", "goes_on"), [("https", True), ("http", True), ("psst", False), ("https, psst", False)]
)
async def test_by_which_scheme_somebody_came_is_one_of_two(
    house: House, tmp_path: Path, said: str, *, goes_on: bool
) -> None:
    async with asked(house, SILENT, tmp_path) as channel:
        shown = checked(call(), headers=[("x-forwarded-proto", said)])
        answer = (await method(channel, "Check")(shown, metadata=AUTH)).ok_response
    assert ("x-forwarded-proto" not in answer.headers_to_remove) is goes_on


@pytest.mark.parametrize("begins", [True, False])
async def test_a_session_id_goes_on_by_ext_authz_unless_one_begins(
    house: House, tmp_path: Path, *, begins: bool
) -> None:
    greeting = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t"}}
    await house.approve_all(Profile.LEGACY)
    asked_ = legacy("initialize", greeting) if begins else legacy("ping", {})
    async with asked(house, SILENT, tmp_path) as channel:
        shown = checked(asked_, headers=[("mcp-session-id", "s")])
        answer = await method(channel, "Check")(shown, metadata=AUTH)
    assert answer.HasField("ok_response")
    assert ("mcp-session-id" in answer.ok_response.headers_to_remove) is begins


@pytest.mark.parametrize(
    "more",
    [
        {"partial": "true"},
        {"partial": ""},
        {"claims": {}},
        {"server": ""},
        {"server": "mail"},
        {"method": "GET"},
        {"path": "/mcp/gh?note=psst"},
        {"path": "/mcp/gh/psst"},
    ],
)
async def test_what_is_not_shown_is_refused(
    house: House, tmp_path: Path, more: dict[str, Any]
) -> None:
    async with asked(house, SILENT, tmp_path) as channel:
        answer = await method(channel, "Check")(checked(call(), **more), metadata=AUTH)
    assert answer.HasField("denied_response")
    assert answer.status.code != 0
    assert len(on_record(house)) == 1


def by_name(http: Any) -> None:
    """Show headers as Envoy does by itself."""
    for one in http.header_map.headers:
        http.headers[one.key] = one.raw_value.decode()


def with_text(http: Any) -> None:
    http.header_map.headers[0].value = "POST"


def as_text(http: Any) -> None:
    """Show the body as Envoy does by itself."""
    http.body = http.raw_body.decode()


@pytest.mark.parametrize(
    ("edits", "told"),
    [
        ([as_text], "pack_as_bytes"),
        ([as_text, lambda http: http.ClearField("raw_body")], "pack_as_bytes"),
        ([by_name], "encode_raw_headers"),
        ([by_name, lambda http: http.ClearField("header_map")], "encode_raw_headers"),
        ([lambda http: http.ClearField("header_map")], "encode_raw_headers"),
        ([with_text], "as text and another one as bytes"),
    ],
)
async def test_what_can_be_read_in_two_ways_is_refused_and_says_what_to_write(
    house: House, tmp_path: Path, edits: list[Callable[[Any], None]], told: str
) -> None:
    shown = checked(call())
    for edit in edits:
        edit(shown.attributes.request.http)
    async with asked(house, SILENT, tmp_path) as channel:
        answer = await method(channel, "Check")(shown, metadata=AUTH)
    assert answer.HasField("denied_response")
    assert answer.status.code != 0
    (outcome,) = on_record(house)
    assert outcome.fields["plane"] == SILENT.name
    assert outcome.fields["reasons"][-1]["code"] == "unexpected"
    assert told in outcome.fields["reasons"][-1]["message"]


MUCH: dict[str, Any] = {**CLAIMED, "groups": ["g" * 40] * 1_990}
MANY = [("x-one", "1")] * 257


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"claims": MUCH}, "of the token has more than 64 KiB"),
        ({"claims": {**CLAIMED, "groups": [{}] * 2_000}}, "or 2,000 values"),
        ({"claims": {**CLAIMED, "groups": {str(one): [one] for one in range(1_000)}}}, "2,000"),
        ({"headers": MANY}, "more than 256 headers"),
        ({"headers": [("x-one", "1" * 66_000)]}, "more than 64 KiB"),
    ],
)
async def test_what_is_told_beside_a_message_is_no_more_than_a_head_has_room_for(
    house: House, tmp_path: Path, more: dict[str, Any], told: str
) -> None:
    """It is read on the event loop."""
    async with asked(house, SILENT, tmp_path) as channel:
        answer = await method(channel, "Check")(checked(call(), **more), metadata=AUTH)
    assert answer.HasField("denied_response")
    (outcome,) = on_record(house)
    assert told in outcome.fields["reasons"][-1]["message"]


async def test_agentgateway_tells_no_more_beside_a_message_than_a_head_has_room_for(
    house: House, tmp_path: Path
) -> None:
    wide = request()
    wide.headers.extend([wide.headers[0]] * 256)
    async with agent(house, tmp_path) as (of_request, of_response):
        for shown in (request(claims=MUCH), wide):
            refused = await of_request(shown)
            assert b"more than" in refused.error.mcp_error
        token = (await of_request(request())).metadata["decision"]
        result = response(token)
        result.metadata_context.update({"groups": MUCH["groups"]})
        assert b"plane_bypassed" in (await of_response(result)).error.mcp_error


async def test_a_no_is_what_our_listener_would_say(house: House, tmp_path: Path) -> None:
    house.rule.says = closed
    async with asked(house, SILENT, tmp_path) as channel:
        answer = await method(channel, "Check")(checked(call()), metadata=AUTH)
    denied = answer.denied_response
    assert denied.status.code == 200
    assert {one.header.key: one.header.value for one in denied.headers} == {
        "content-type": "application/json"
    }
    content = json.loads(denied.body)
    assert content["id"] == 7
    reasons = content["result"]["_meta"]["douane/refusal"]["reasons"]
    assert reasons[0]["code"] == "closed"


async def test_without_a_record_there_is_no_answer(house: House, tmp_path: Path) -> None:
    house.audit.failure = "disk full"
    async with asked(house, SILENT, tmp_path) as channel:
        check = method(channel, "Check")
        assert await status_of(check(checked(call()), metadata=AUTH)) is (
            grpc.StatusCode.UNAVAILABLE
        )


async def test_a_stream_ends_with_an_error_unless_all_was_said(
    house: House, tmp_path: Path
) -> None:
    """Envoy goes on alone where a stream ends in good order."""
    async with asked(house, PLANE, tmp_path) as channel:
        stream = method(channel, "Process")(metadata=AUTH)
        await stream.done_writing()
        assert await stream.code() is grpc.StatusCode.ABORTED


async def test_what_cannot_be_judged_ends_with_a_500_and_an_error(
    house: House, tmp_path: Path
) -> None:
    async with asked(house, PLANE, tmp_path) as channel:
        stream = method(channel, "Process")(metadata=AUTH)
        await stream.write(envoy_pb2.ProcessingRequest(request_body=envoy_pb2.HttpBody()))
        answer = await stream.read()
        assert answer.immediate_response.status.code == 500
        assert await stream.code() is grpc.StatusCode.FAILED_PRECONDITION
    (outcome,) = on_record(house)
    assert outcome.fields["plane"] == PLANE.name
    assert outcome.fields["reasons"][-1]["code"] == "unexpected"


async def test_a_bug_ends_with_a_500_and_an_error(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(house.traffic, "refuse", fails)
    async with asked(house, PLANE, tmp_path) as channel:
        stream = method(channel, "Process")(metadata=AUTH)
        request = envoy_pb2.ProcessingRequest(
            request_headers=envoy_pb2.HttpHeaders(
                headers=headers([(":method", "GET")]), end_of_stream=True
            )
        )
        buffered = envoy_pb2.BodySendMode.BUFFERED
        request.protocol_config.request_body_mode = buffered
        request.protocol_config.response_body_mode = buffered
        await stream.write(request)
        assert (await stream.read()).immediate_response.status.code == 500
        assert await stream.code() is grpc.StatusCode.INTERNAL


def said_of(version: str) -> dict[str, Any]:
    """Return params that say in their envelope of which revision they are."""
    return {
        "name": "search",
        "arguments": {"q": "x"},
        "_meta": {**META, MODERN_VERSION_KEY: version},
    }


def request(**more: Any) -> ext_mcp_pb2.McpRequest:
    """Return what agentgateway asks about a call."""
    said: dict[str, Any] = {
        "services": ["gh"],
        "method": "tools/call",
        "params": {"name": "search", "arguments": {"q": "x"}, "_meta": META},
        "claims": CLAIMED,
        **more,
    }
    found = ext_mcp_pb2.McpRequest(
        service_names=said["services"],
        method=said["method"],
        headers=[
            ext_mcp_pb2.McpHeader(key="Mcp-Protocol-Version", value=one.encode())
            for one in said.get("versions", ["2026-07-28"])
        ],
    )
    if said["params"] is not None:
        params = said["params"]
        found.mcp_request = params if isinstance(params, bytes) else json.dumps(params).encode()
    found.metadata_context.update({ext_mcp.CLAIMS: said["claims"], **said.get("flat", {})})
    return found


def response(
    token: str | None, result: Any = None, *, service: str = "gh", asked_: str = "tools/call"
) -> ext_mcp_pb2.McpResponse:
    """Return what agentgateway asks about a result."""
    said = text("found") if result is None else result
    found = ext_mcp_pb2.McpResponse(
        service_names=[service],
        method=asked_,
        mcp_response=said if isinstance(said, bytes) else json.dumps(said).encode(),
    )
    found.metadata_context.update({**CLAIMED, **({} if token is None else {"decision": token})})
    return found


@asynccontextmanager
async def agent(house: House, folder: Path) -> AsyncIterator[tuple[Any, Any]]:
    """Yield how agentgateway asks about requests, and about results."""
    async with asked(house, AGENT, folder) as channel:
        yield (
            partial(method(channel, "CheckRequest"), metadata=AUTH),
            partial(method(channel, "CheckResponse"), metadata=AUTH),
        )


async def test_agentgateways_call_and_result_pass_once(house: House, tmp_path: Path) -> None:
    async with agent(house, tmp_path) as (of_request, of_response):
        allowed = await of_request(request())
        assert json.loads(allowed.mutated)["arguments"] == {"q": "x"}
        token = allowed.metadata["decision"]
        given = await of_response(response(token))
        assert json.loads(given.mutated) == text("found")
        again = await of_response(response(token))
        assert again.error.code == ext_mcp_pb2.AuthorizationError.PERMISSION_DENIED


async def test_a_large_call_and_its_result_are_spelled_beside_the_loop(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: dict[str, set[int]] = {}
    for name in ("_params_of", "_as_answered", "_result_in"):
        work = getattr(ext_mcp, name)

        def noted(*args: Any, name: str = name, work: Callable[..., Any] = work) -> Any:
            threads.setdefault(name, set()).add(threading.get_ident())
            return work(*args)

        monkeypatch.setattr(ext_mcp, name, noted)
    large = {**text("found"), "_meta": {"many": [{"a": 1}] * 3_000}}
    asks = {
        "name": "search",
        "arguments": {"q": "x", "many": [{"a": 1}] * 3_000},
        "_meta": META,
    }
    async with agent(house, tmp_path) as (of_request, of_response):
        allowed = await of_request(request(params=asks))
        given = await of_response(response(allowed.metadata["decision"], large))
        assert json.loads(given.mutated)["content"] == large["content"]
    assert threads.keys() == {"_params_of", "_as_answered", "_result_in"}
    assert not any(threading.get_ident() in them for them in threads.values())


@pytest.mark.parametrize(
    "more",
    [
        {"token": None},
        {"token": "made up"},
        {"service": "other"},
        {"asked_": "prompts/get"},
    ],
)
async def test_a_result_of_nothing_that_was_allowed_is_a_no(
    house: House, tmp_path: Path, more: dict[str, Any]
) -> None:
    async with agent(house, tmp_path) as (of_request, of_response):
        token = (await of_request(request())).metadata["decision"]
        refused = await of_response(response(**{"token": token, **more}))
    assert refused.error.code == ext_mcp_pb2.AuthorizationError.PERMISSION_DENIED
    assert b"plane_bypassed" in refused.error.mcp_error


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"claims": {}}, "PERMISSION_DENIED"),
        ({"services": []}, "PERMISSION_DENIED"),
        ({"services": ["gh", "gh"]}, "PERMISSION_DENIED"),
        ({"services": ["other"]}, "PERMISSION_DENIED"),
        ({"method": "tasks/update", "params": {"taskId": "t"}}, "PERMISSION_DENIED"),
        ({"method": "nothing/known"}, "INVALID"),
        ({"params": b"{"}, "INVALID"),
        ({"params": b"[]"}, "INVALID"),
        ({"params": b'{"name":"search","name":"send"}'}, "INVALID"),
        ({"params": b'{},"method":"ping"'}, "INVALID"),
        ({"params": None}, "INVALID"),
        ({"versions": ["2026-07-28", "2025-11-25"]}, "INVALID"),
        ({"versions": ["2031-12-24"]}, "INVALID"),
        ({"versions": []}, "INVALID"),
        ({"versions": ["2025-11-25"]}, "INVALID"),
        ({"params": said_of("2031-12-24")}, "INVALID"),
        ({"params": said_of("2025-11-25")}, "INVALID"),
        ({"params": said_of("2025-11-25"), "versions": ["2025-11-25"]}, "INVALID"),
    ],
)
async def test_what_agentgateway_does_not_say_is_not_guessed(
    house: House, tmp_path: Path, more: dict[str, Any], code: str
) -> None:
    async with agent(house, tmp_path) as (of_request, _):
        refused = await of_request(request(**more))
    assert refused.error.code == ext_mcp_pb2.AuthorizationError.Code.Value(code)
    assert refused.error.reason
    assert len(on_record(house)) == 1


async def test_claims_that_are_told_one_by_one_are_not_all(house: House, tmp_path: Path) -> None:
    """What is not among them is not forwarded, or not there: nobody knows whether it is bound."""
    async with agent(house, tmp_path) as (of_request, _):
        for more, is_whole in (({}, True), ({"claims": None, "flat": CLAIMED}, False)):
            await of_request(request(**more))
            said = house.plane_gate.said
            assert said is not None
            assert said.shown is not None
            assert said.shown.is_whole is is_whole


async def test_agentgateway_is_told_why(house: House, tmp_path: Path) -> None:
    house.rule.says = closed
    async with agent(house, tmp_path) as (of_request, _):
        refused = await of_request(request())
    told = json.loads(refused.error.mcp_error)["douane/refusal"]
    assert told["reasons"] == [{"code": "closed", "message": "closed"}]
    assert told["decision_id"]


async def test_agentgateways_lists_are_what_was_approved(house: House, tmp_path: Path) -> None:
    offered = {"tools": [{"name": "search", "description": "more"}, {"name": "new"}]}
    async with agent(house, tmp_path) as (of_request, of_response):
        allowed = await of_request(request(method="tools/list", params=None))
        assert allowed.WhichOneof("result") == "pass"
        token = allowed.metadata["decision"]
        given = await of_response(response(token, offered, asked_="tools/list"))
    assert b"more" not in given.mutated
    assert b"new" not in given.mutated


@pytest.mark.parametrize(
    "result",
    [b"", b"{", b"[]", {"resultType": "task", "task": {}}, {"resultType": "input_required"}],
)
async def test_what_agentgateway_cannot_give_out_is_a_no(
    house: House, tmp_path: Path, result: Any
) -> None:
    async with agent(house, tmp_path) as (of_request, of_response):
        token = (await of_request(request())).metadata["decision"]
        refused = await of_response(response(token, result))
    assert refused.HasField("error")


async def test_agentgateway_gets_no_answer_without_a_record(house: House, tmp_path: Path) -> None:
    house.audit.failure = "disk full"
    async with agent(house, tmp_path) as (of_request, _):
        refused = await of_request(request())
    assert refused.error.code == ext_mcp_pb2.AuthorizationError.UNKNOWN


async def test_a_list_that_agentgateway_never_tells_of_ends_on_record(
    house: House, tmp_path: Path
) -> None:
    hasty = replace(AGENT, report_within_s=0.0)
    async with asked(house, hasty, tmp_path) as channel:
        of_request = partial(method(channel, "CheckRequest"), metadata=AUTH)
        for _ in range(2):
            await of_request(request(method="tools/list", params=None))
        async with asyncio.timeout(60):
            while len(on_record(house)) < 3:
                await asyncio.sleep(0.001)
    assert "upstream_failed" in {one.fields.get("code") for one in on_record(house)}


async def test_a_gateway_that_cannot_listen_for_planes_does_not_start(
    monkeypatch: pytest.MonkeyPatch, house: House, tmp_path: Path
) -> None:
    said = "version: 1\npublic_url: http://127.0.0.1:8080\nplanes: {grpc: {listen: '%s'}}"
    force = partial(lease, in_force(house, SILENT))
    config = parse(said % f"unix:{tmp_path}/nowhere/p.sock", file=tmp_path / "douane.yaml")
    with pytest.raises(ConfigError, match="cannot listen"):
        async with asked_by_grpc(config, force, 1.0):
            pass
    monkeypatch.setitem(sys.modules, "gateway.planes.server", None)
    with pytest.raises(ConfigError) as raised:
        async with asked_by_grpc(config, force, 1.0):
            pass
    assert "douane[planes]" in raised.value.problems[0]
