"""One HTTP request and its answer through `ext_proc`: what is not judged whole is sent and given to nobody."""

import asyncio
import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.audit import RecordKind
from gateway.domain.decisions import Duty, Obligation, Verdict
from gateway.domain.identity import Carried
from gateway.domain.labels import Confidentiality, Integrity, Label
from gateway.errors import AuditUnavailable, PolicyUnavailable
from gateway.planes import exchange as exchange_module
from gateway.planes.answers import MOST_EVENTS, Answer, answer_in
from gateway.planes.structs import Unexpected
from gateway.planes.stubs import envoy_pb2 as pb
from gateway.wire.inbound import MODERN_CAPABILITIES_KEY
from gateway.wire.returning import returned
from tests.pipeline.house import ALICE, MAIL, UNHINTED, House, decision, text
from tests.planes.asking import (
    CLAIMED,
    PLANE,
    Envoy,
    answered,
    call,
    given,
    headers,
    legacy,
    message,
    on_record,
    opened_house,
    refusal,
    sent,
)

WORST = Label(integrity=Integrity.UNTRUSTED, confidentiality=Confidentiality.PRIVATE)


@pytest.fixture
async def house() -> House:
    return await opened_house()


@pytest.fixture
def envoy(house: House) -> Envoy:
    return Envoy(house)


async def counted(house: House) -> Label:
    return house.debts.counted(await house.runs.of(ALICE, UNHINTED)).label


def outcomes(house: House) -> list[Any]:
    return [one for one in on_record(house) if one.kind is not RecordKind.INTENT]


async def test_a_call_and_its_result_pass_and_are_on_record(house: House, envoy: Envoy) -> None:
    assert sent(await envoy.asked(call())).body_mutation.WhichOneof("mutation") is None
    assert await counted(house) == WORST
    assert json.loads(given(await envoy.back(answered())))["result"] == text("found")
    assert envoy.exchange.is_over
    assert await counted(house) != WORST
    intent, outcome = on_record(house)
    assert (intent.kind, outcome.kind) == (RecordKind.INTENT, RecordKind.OUTCOME)
    assert outcome.fields["plane"] == "edge"


async def test_what_was_decided_on_is_what_is_sent(envoy: Envoy) -> None:
    body = call(**{"douane/run": "mine"})
    told = ("x-note", "accept-encoding", "x-forwarded-note", "x-forwarded-for", "x-request-id")
    names = (*told, SESSION)
    answer = sent(await envoy.asked(body, *((name, "psst") for name in names)))
    changed = answer.body_mutation.body
    assert b"douane/run" not in changed
    assert json.loads(changed)["params"]["arguments"] == {"q": "x"}
    assert set(names) <= set(answer.header_mutation.remove_headers)
    lengths = [one.header.raw_value for one in answer.header_mutation.set_headers]
    assert str(len(changed)).encode() in lengths


BEGINS = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}
SESSION = "mcp-session-id"


async def began(house: House, session: str = "s") -> str:
    """Begin a session as Alice, and return its id as she is given it."""
    envoy = Envoy(house)
    await envoy.asked(legacy("initialize", BEGINS))
    pairs = [(":status", "200"), ("content-type", "application/json"), (SESSION, session)]
    answer = pb.ProcessingRequest(response_headers=pb.HttpHeaders(headers=headers(pairs)))
    head = (await envoy.answered(answer)).response_headers.response.header_mutation
    told = {one.header.key: one.header.raw_value.decode() for one in head.set_headers}
    assert (SESSION in told) != (SESSION in head.remove_headers)
    return told.get(SESSION, "")


def session_in(answer: pb.CommonResponse) -> list[bytes]:
    """Return the session ids that a server is sent, whichever its client wrote."""
    head = answer.header_mutation
    set_ = [one.header.raw_value for one in head.set_headers if one.header.key == SESSION]
    assert set_ or SESSION in head.remove_headers
    return set_


async def test_a_servers_session_goes_on_under_an_id_that_was_given_out(house: House) -> None:
    given_out = await began(house)
    assert given_out != "s"
    answer = sent(await Envoy(house).asked(legacy("tools/list", {}), (SESSION, given_out)))
    assert session_in(answer) == [b"s"]


@pytest.mark.parametrize("session", ["", "two words", "\x7f"])
async def test_what_is_no_session_id_begins_none(house: House, session: str) -> None:
    assert await began(house, session) == ""


async def test_a_session_id_that_was_not_given_out_reaches_no_server(house: House) -> None:
    given_out = await began(house)
    kept = len(on_record(house))
    for told in ("s", "psst" * 100, given_out + "0", given_out.upper()):
        answer = await Envoy(house).asked(legacy("tools/list", {}), (SESSION, told))
        assert answer.immediate_response.status.code == 404
    assert len(on_record(house)) == kept + 4


async def test_no_session_id_goes_on_where_one_begins_or_there_is_none(house: House) -> None:
    for body in (legacy("initialize", BEGINS), call()):
        assert session_in(sent(await Envoy(house).asked(body, (SESSION, "psst")))) == []


def noted(id_: Any = "psst" * 9, **more: Any) -> bytes:
    """Return a call that says more than it is, beside what is decided on."""
    about = {"progressToken": "psst", **more}
    body = message("tools/call", {"name": "search", "arguments": {"q": "x"}}, id_, **about)
    return body.replace(b", ", b",   \t")


async def test_nothing_goes_out_beside_a_call_of_a_run_that_has_read(house: House) -> None:
    await Envoy(house).asked(call())  # what came of it nobody has told yet
    envoy = Envoy(house)
    changed = sent(await envoy.asked(noted(note="psst"))).body_mutation.body
    assert b"psst" not in changed
    assert b"\t" not in changed
    content = json.loads(changed)
    assert content["params"]["arguments"] == {"q": "x"}
    back = json.loads(given(await envoy.back(answered(id_=content["id"]))))
    assert back == {"jsonrpc": "2.0", "id": "psst" * 9, "result": text("found")}
    again = Envoy(house)
    await again.asked(noted())
    assert b"found" not in (await again.back(answered(id_="psst" * 9))).immediate_response.body


async def test_what_a_token_says_of_itself_is_told_with_whom_it_names(
    house: House, envoy: Envoy
) -> None:
    token = {"scope": "tools:list tools:call", "gid": "g", "jti": "t"}
    await envoy.asked(call(), claims={**CLAIMED, **token})
    said = house.plane_gate.said
    assert said is not None
    scopes = frozenset({"tools:list", "tools:call"})
    assert said.shown == Carried(scopes=scopes, grant_id="g", token_id="t")
    assert said.server == MAIL
    for bound, shown in (
        ({"cnf": {"jkt": "k"}}, Carried(is_bound=True)),
        ({"act": {"sub": "robot"}}, Carried(is_for_another=True)),
        ({"aud": "https://gw.example/mcp/mail"}, Carried(audience="https://gw.example/mcp/mail")),
        ({"aud": ["https://gw.example/mcp"]}, Carried(audience="https://gw.example/mcp")),
        ({"aud": ["https://gw.example/mcp", "https://gw.example/mcp/mail"]}, Carried()),
        ({"aud": {"mcp": True}}, Carried()),
    ):
        await Envoy(house).asked(call(), claims={**CLAIMED, **bound})
        said = house.plane_gate.said
        assert said is not None
        assert said.shown == shown


async def test_no_server_is_told_that_a_client_could_be_asked(house: House, envoy: Envoy) -> None:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"sampling": {}, "elicitation": {}},
        "clientInfo": {"name": "t", "version": "1"},
    }
    changed = sent(await envoy.asked(legacy("initialize", params))).body_mutation.body
    assert json.loads(changed)["params"]["capabilities"] == {}
    able: dict[str, Any] = {MODERN_CAPABILITIES_KEY: {"elicitation": {}}}
    changed = sent(await Envoy(house).asked(call(**able))).body_mutation.body
    assert json.loads(changed)["params"]["_meta"][MODERN_CAPABILITIES_KEY] == {}


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"claims": {}}, "unknown_subject"),
        ({"claims": {"sub": "alice"}}, "unknown_subject"),
        ({"claims": {**CLAIMED, "sub": 7}}, "unknown_subject"),
        ({"claims": {**CLAIMED, "iss": "https://other.example"}}, "unknown_subject"),
        ({"claims": {"sub": "alice", "iss": ALICE.issuer}}, "unknown_client"),
        ({"route": ""}, "unknown_server"),
        ({"route": "mail"}, "unknown_server"),
    ],
)
async def test_what_the_plane_does_not_say_is_not_guessed(
    house: House, envoy: Envoy, said: dict[str, Any], code: str
) -> None:
    assert refusal(await envoy.asked(call(), **said)) == code
    assert envoy.exchange.is_over
    (outcome,) = on_record(house)
    assert outcome.fields["plane"] == "edge"


@pytest.mark.parametrize(
    "modes",
    [
        None,
        (pb.BodySendMode.BUFFERED, pb.BodySendMode.STREAMED),
        (pb.BodySendMode.BUFFERED, pb.BodySendMode.NONE),
        (pb.BodySendMode.BUFFERED_PARTIAL, pb.BodySendMode.BUFFERED),
        (pb.BodySendMode.NONE, pb.BodySendMode.BUFFERED),
    ],
)
async def test_bodies_that_are_not_shown_whole_end_it(envoy: Envoy, modes: Any) -> None:
    with pytest.raises(Unexpected, match="BUFFERED"):
        await envoy.begin(modes=modes)


async def test_what_is_told_beside_a_message_is_no_more_than_a_head_has_room_for(
    envoy: Envoy,
) -> None:
    with pytest.raises(Unexpected, match="of the token"):
        await envoy.begin(claims={**CLAIMED, "groups": ["g"] * 70_000})


async def test_nothing_goes_by_a_plane_that_only_watches(envoy: Envoy) -> None:
    with pytest.raises(Unexpected, match="observability_mode"):
        await envoy.begin(watches=True)


async def test_a_body_that_is_cut_ends_it(house: House, envoy: Envoy) -> None:
    await envoy.begin()
    with pytest.raises(Unexpected, match="cut"):
        await envoy.body(call(), whole=False)
    other = Envoy(house)
    await other.asked(call())
    with pytest.raises(Unexpected, match="cut"):
        await other.back(answered(), whole=False)


async def test_a_body_of_another_length_than_is_said_is_refused(envoy: Envoy) -> None:
    response = await envoy.asked(call(), ("content-length", "7"))
    assert response.immediate_response.status.code == 413


async def test_no_query_reaches_a_server(house: House, envoy: Envoy) -> None:
    response = await envoy.asked(call(), (":path", "/mcp/gh?note=psst"))
    assert response.immediate_response.status.code == 400
    assert len(on_record(house)) == 1


OTHERS = ["/mcp/gh/psst", "/mcp/gh;psst", "/mcp/GH", "//mcp/gh", "/mcp/gh/", "/mcp/gh#a", "/", ""]


@pytest.mark.parametrize("path", OTHERS)
async def test_by_no_other_path_anything_reaches_a_server(
    house: House, envoy: Envoy, path: str
) -> None:
    response = await envoy.asked(call(), (":path", path))
    assert response.immediate_response.status.code == 400
    assert len(on_record(house)) == 1


async def test_by_which_path_clients_come_is_configured(house: House) -> None:
    plane = replace(PLANE, paths={"gh": "/code"})
    for path, passes in (("/code", True), ("/mcp/gh", False), ("/code/psst", False)):
        response = await Envoy(house, plane).asked(call(), (":path", path))
        assert (response.WhichOneof("response") == "request_body") is passes


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD", ""])
async def test_only_post_passes(house: House, envoy: Envoy, method: str) -> None:
    response = await envoy.begin(method=method, ends=True)
    assert response.immediate_response.status.code == 405
    assert len(on_record(house)) == 1


async def test_a_post_without_a_body_is_refused(envoy: Envoy) -> None:
    assert (await envoy.begin(ends=True)).immediate_response.status.code == 400


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("subscriptions/listen", {"notifications": {}}),
        ("tasks/get", {"taskId": "t"}),
        ("tasks/update", {"taskId": "t"}),
    ],
)
async def test_what_cannot_be_carried_is_refused(
    envoy: Envoy, method: str, params: dict[str, Any]
) -> None:
    response = await envoy.asked(message(method, params))
    assert response.WhichOneof("response") == "immediate_response"


async def test_an_answer_of_the_clients_is_refused(envoy: Envoy) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"action": "accept"}}).encode()
    response = await envoy.asked(body)
    assert response.WhichOneof("response") == "immediate_response"


@pytest.mark.parametrize(
    ("body", "media"),
    [
        (b"", "application/json"),
        (b"{", "application/json"),
        (answered(id_=8), "application/json"),
        (answered(id_="7"), "application/json"),
        (answered(), "text/plain"),
        (b"[" + answered() + b"]", "application/json"),
        (b"data: {}\n\n", "text/event-stream"),
        (b"data: " + answered() + b"\n\ndata: " + answered() + b"\n\n", "text/event-stream"),
        (b"data: " + answered(), "application/json"),
    ],
)
async def test_what_is_no_answer_is_given_to_nobody(
    house: House, envoy: Envoy, body: bytes, media: str
) -> None:
    await envoy.asked(call())
    response = await envoy.back(body, media=media)
    assert response.WhichOneof("response") == "immediate_response"
    assert b"found" not in response.immediate_response.body
    assert len(outcomes(house)) == 1


async def test_a_compressed_answer_is_given_to_nobody(envoy: Envoy) -> None:
    await envoy.asked(call())
    response = await envoy.back(answered(), ("content-encoding", "gzip"))
    assert response.WhichOneof("response") == "immediate_response"


async def test_only_a_404_tells_a_client_that_its_session_has_ended(house: House) -> None:
    session = await began(house)
    for status, shown in ((404, 404), (500, 200)):
        envoy = Envoy(house)
        await envoy.asked(legacy("tools/list", {}), (SESSION, session))
        response = await envoy.back(b"gone", status=status, media="text/plain")
        assert response.immediate_response.status.code == shown
        assert b"gone" not in response.immediate_response.body


async def test_of_a_stream_the_answer_alone_is_given_out(envoy: Envoy) -> None:
    await envoy.asked(call())
    note = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"psst"}}'
    asks = b'{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{}}'
    other = answered(id_=8)
    stream = b"".join(b"data: " + one + b"\n\n" for one in (note, asks, other, answered()))
    out = given(await envoy.back(stream, media="text/event-stream; charset=utf-8"))
    assert out.count(b"data:") == 1
    assert b"psst" not in out
    assert b"found" in out


async def test_a_long_stream_is_read_beside_the_loop(
    envoy: Envoy, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def watched(*asked: Any) -> Answer | None:
        threads.append(threading.get_ident())
        return answer_in(*asked)

    monkeypatch.setattr(exchange_module, "answer_in", watched)
    await envoy.asked(call())
    stream = b": " + b"x" * 10_000 + b"\n\ndata: " + answered() + b"\n\n"
    assert b"found" in given(await envoy.back(stream, media="text/event-stream"))
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


async def test_a_stream_of_too_many_events_is_given_to_nobody(house: House) -> None:
    for blanks, is_given in ((MOST_EVENTS - 1, True), (MOST_EVENTS, False)):
        envoy = Envoy(house)
        await envoy.asked(call())
        stream = b"\n" * blanks + b"data: " + answered() + b"\n\n"
        response = await envoy.back(stream, media="text/event-stream")
        assert (response.WhichOneof("response") == "response_body") is is_given
    assert "has more than 4096 events" in str(outcomes(house)[-1].fields)
    assert len(outcomes(house)) == 2


async def test_nothing_else_of_a_servers_head_is_given_out(envoy: Envoy) -> None:
    await envoy.asked(call())
    pairs = [(":status", "200"), ("content-type", "application/json"), ("x-note", "psst")]
    head = pb.HttpHeaders(
        headers=pb.HeaderMap(headers=[pb.HeaderValue(key=k, value=v) for k, v in pairs])
    )
    response = await envoy.answered(pb.ProcessingRequest(response_headers=head))
    assert response.response_headers.response.header_mutation.remove_headers == ["x-note"]


@pytest.mark.parametrize("is_call", [True, False])
async def test_a_status_is_the_one_that_our_own_listener_would_give_out(is_call: bool) -> None:
    notice = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    for status in (200, 202, 206, 302, 307, 400, 401, 407, 418, 421, 429, 500, 511):
        envoy = Envoy(await opened_house())
        await envoy.asked(call() if is_call else notice)
        pairs = [(":status", str(status)), ("content-type", "application/json")]
        head = pb.HttpHeaders(headers=headers(pairs), end_of_stream=not is_call)
        response = await envoy.answered(pb.ProcessingRequest(response_headers=head))
        if response.WhichOneof("response") == "immediate_response":
            assert (is_call, status >= 400) == (False, True)
            continue
        changed = response.response_headers.response.header_mutation.set_headers
        told = [one.header.raw_value for one in changed if one.header.key == ":status"]
        ours = returned(status, (), b"{}" if is_call else b"").status
        assert told == ([] if ours == status else [str(ours).encode()])


@pytest.mark.parametrize(
    ("told", "given_out"),
    [
        (["text/html", "application/json; note=psst"], ["application/json"]),
        (["TEXT/event-stream;charset=utf-8"], ["text/event-stream"]),
        (["application/json", "text/html"], []),
    ],
)
async def test_the_media_type_is_the_one_that_an_answer_is_read_as(
    envoy: Envoy, told: list[str], given_out: list[str]
) -> None:
    await envoy.asked(call())
    pairs = [(":status", "200"), *(("content-type", one) for one in told)]
    answer = pb.ProcessingRequest(response_headers=pb.HttpHeaders(headers=headers(pairs)))
    head = (await envoy.answered(answer)).response_headers.response.header_mutation
    assert [one.header.raw_value.decode() for one in head.set_headers] == given_out
    assert ("content-type" in head.remove_headers) == (not given_out)


async def test_a_result_that_policy_refuses_is_given_to_nobody(house: House, envoy: Envoy) -> None:
    await envoy.asked(call())
    house.rule.says = lambda _: decision(Verdict.DENY, "not_this")
    assert refusal(await envoy.back(answered())) == "not_this"
    assert await counted(house) != WORST


async def test_a_duty_is_met_here(house: House, envoy: Envoy) -> None:
    await envoy.asked(call())
    cut = Obligation(duty=Duty.TRUNCATE, detail={"bytes": 2})
    house.rule.says = lambda _: decision(Verdict.ALLOW, obligations=[cut])
    out = given(await envoy.back(answered()))
    assert b"found" not in out


async def test_a_result_that_asks_its_client_is_given_to_nobody(envoy: Envoy) -> None:
    await envoy.asked(call())
    asking = {"resultType": "input_required", "inputRequests": {}}
    assert refusal(await envoy.back(answered(asking))) == "not_complete"


async def test_a_list_is_what_was_approved(house: House, envoy: Envoy) -> None:
    await envoy.asked(message("tools/list", {}))
    offered = [
        {"name": "search", "description": "Now it does more.", "inputSchema": {"type": "object"}},
        {"name": "new", "inputSchema": {"type": "object"}},
    ]
    out = json.loads(given(await envoy.back(answered({"tools": offered}))))
    assert b"more" not in json.dumps(out).encode()
    assert "new" not in [tool["name"] for tool in out["result"]["tools"]]
    assert await counted(house) != WORST


async def test_without_a_record_nothing_is_sent_and_nothing_given_out(house: House) -> None:
    envoy = Envoy(house)
    house.audit.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await envoy.asked(call())
    house.audit.failure = ""
    other = Envoy(house)
    await other.asked(call())
    house.audit.failure = "disk full"
    response = await other.back(answered())
    assert response.WhichOneof("response") == "immediate_response"
    assert b"found" not in response.immediate_response.body
    house.audit.failure = ""
    assert await counted(house) == WORST  # it stays owed


async def test_a_yes_that_comes_too_late_is_a_no(house: House) -> None:
    gate, envoy = asyncio.Event(), Envoy(house, replace(PLANE, deadline_s=0.01))

    async def slow() -> None:
        await gate.wait()

    house.catalogs.first = slow
    with pytest.raises(PolicyUnavailable):
        await envoy.asked(call())
    gate.set()
    async with asyncio.timeout(60):
        while not on_record(house):  # what nobody waits for any more goes on to its record
            await asyncio.sleep(0.001)


async def test_what_envoy_itself_refuses_is_told_by_its_status_alone(envoy: Envoy) -> None:
    challenge = ("www-authenticate", "Bearer")
    pairs = [(":status", "401"), challenge, ("x-note", "psst")]
    head = pb.HttpHeaders(
        headers=pb.HeaderMap(headers=[pb.HeaderValue(key=k, value=v) for k, v in pairs])
    )
    response = await envoy.answered(pb.ProcessingRequest(response_headers=head))
    immediate = response.immediate_response
    assert (immediate.status.code, immediate.body) == (401, b"")
    assert [one.header.key for one in immediate.headers.set_headers] == ["www-authenticate"]


async def test_an_answer_to_what_nobody_asked_about_ends_it(envoy: Envoy) -> None:
    with pytest.raises(Unexpected, match="not sent"):
        await envoy.back(answered())


async def test_nothing_comes_after_the_end(envoy: Envoy) -> None:
    await envoy.asked(call(), route="mail")
    with pytest.raises(Unexpected, match="came where"):
        await envoy.back(answered())


async def test_a_call_without_an_answer_stays_owed(house: House, envoy: Envoy) -> None:
    await envoy.asked(call())
    assert envoy.exchange.left(envoy.force) is None
    assert await counted(house) == WORST
    house.now += PLANE.report_within_s + 1
    await house.debts.settle()
    assert await counted(house) == WORST
    (outcome,) = outcomes(house)
    assert outcome.fields["code"] == "unreported"


async def test_a_message_of_the_protocols_without_an_answer_ends_on_record(
    house: House, envoy: Envoy
) -> None:
    await envoy.asked(message("tools/list", {}))
    left = envoy.exchange.left(envoy.force)
    assert left is not None
    await left
    (outcome,) = outcomes(house)
    assert outcome.fields["code"] == "upstream_failed"


async def test_what_has_no_answer_is_taken_without_a_word(house: House, envoy: Envoy) -> None:
    notice = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    await envoy.asked(notice)
    response = await envoy.back(b"psst", status=202)
    assert response.response_body.response.body_mutation.clear_body
    assert len(outcomes(house)) == 1


async def test_a_header_of_two_values_ends_it(envoy: Envoy) -> None:
    head = pb.HttpHeaders(headers=headers([(":method", "POST")]))
    head.headers.headers[0].value = "GET"
    request = pb.ProcessingRequest(request_headers=head)
    request.protocol_config.request_body_mode = pb.BodySendMode.BUFFERED
    request.protocol_config.response_body_mode = pb.BodySendMode.BUFFERED
    with pytest.raises(Unexpected, match="as bytes"):
        await envoy.answered(request)
