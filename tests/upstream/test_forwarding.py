"""What was permitted is what is sent, once, with nobody's credential but ours."""

import gzip

import pytest
from aiohttp import web

from gateway.domain.calls import Form, RawAnswer
from gateway.domain.tools import Profile
from gateway.errors import CredentialRequired, LimitExceeded, UpstreamFailed
from gateway.upstream.settings import HeaderCredential, Limits
from tests.servers.raw import answers, hangs, raw_upstream, resets, streams
from tests.upstream.opened import opened
from tests.upstream.permits import INBOUND_TOKEN, SENT_ON, permit_for

OURS = HeaderCredential(name="Authorization", value="Bearer our-own-token")


async def test_the_bytes_that_were_decided_on_are_the_bytes_that_arrive():
    body = b'{"jsonrpc":"2.0", "id":1e0,\n "method":"tools/call","params":{"name":"\xc3\xa4"}}'
    async with opened(answers("{}")) as (upstream, server):
        await upstream.forward(permit_for(body=body))
    assert [(seen.method, seen.body) for seen in server.seen] == [("POST", body)]


async def test_a_body_of_several_megabytes_arrives_whole():
    body = b'{"a":"' + b"x" * 3_000_000 + b'"}'
    async with opened(answers("{}")) as (upstream, server):
        await upstream.forward(permit_for(body=body))
    assert server.seen[0].body == body


async def test_exactly_the_allowed_header_fields_arrive():
    carried = (
        *SENT_ON,
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "echo"),
        ("mcp-param-region", "eu"),
        ("last-event-id", "4"),
        ("traceparent", "00-1-2-01"),
        ("tracestate", "a=b"),
    )
    async with opened(answers("{}"), credential=OURS) as (upstream, server):
        await upstream.forward(permit_for(headers=carried, session="s1"))
    headers = dict(server.seen[0].headers)
    del headers["host"], headers["content-length"]
    assert headers == {
        **dict(carried),
        "mcp-session-id": "s1",
        "accept-encoding": "identity",
        "user-agent": "douane",
        "authorization": "Bearer our-own-token",
    }


async def test_no_inbound_credential_ever_arrives():
    smuggled = (
        *SENT_ON,
        ("authorization", f"Bearer {INBOUND_TOKEN}"),
        ("Authorization", f"Bearer {INBOUND_TOKEN}"),
        ("proxy-authorization", INBOUND_TOKEN),
        ("cookie", INBOUND_TOKEN),
        ("x-api-key", INBOUND_TOKEN),
        ("mcp-session-id", INBOUND_TOKEN),
        ("x-forwarded-for", INBOUND_TOKEN),
        ("host", "elsewhere.example"),
        ("accept-encoding", "gzip"),
    )
    async with opened(answers("{}")) as (upstream, server):
        await upstream.forward(permit_for(headers=smuggled))
    headers = server.seen[0].headers
    assert INBOUND_TOKEN not in str(headers)
    assert headers["host"] != "elsewhere.example"
    assert headers["accept-encoding"] == "identity"


async def test_a_cookie_that_an_upstream_sets_is_not_sent_back_for_somebody_else():
    async with opened(answers("{}", headers={"Set-Cookie": "who=alice; Path=/"})) as (
        upstream,
        server,
    ):
        await upstream.forward(permit_for())
        await upstream.forward(permit_for())
    assert [seen.headers.get("cookie") for seen in server.seen] == [None, None]


async def test_a_proxy_of_the_environment_is_not_for_us(monkeypatch: pytest.MonkeyPatch):
    async with raw_upstream(answers('"proxy"')) as proxy, opened(answers("{}")) as (upstream, _):
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        answer = await upstream.forward(permit_for())
    assert answer.body == b"{}"
    assert proxy.seen == []


@pytest.mark.parametrize(
    ("form", "method", "verb"),
    [
        (Form.NOTIFICATION, "notifications/initialized", "POST"),
        (Form.RESPONSE, "", "POST"),
        (Form.STREAM, "GET", "GET"),
        (Form.END, "DELETE", "DELETE"),
    ],
)
async def test_every_form_of_message_has_its_verb(form: Form, method: str, verb: str):
    async with opened(answers(status=202, media=None)) as (upstream, server):
        permit = permit_for(method, form=form, profile=Profile.LEGACY, session="s1")
        answer = await upstream.forward(permit)
    assert answer == RawAnswer(status=202, headers=(), session=None, body=b"")
    assert [(seen.method, seen.body) for seen in server.seen] == [(verb, permit.call.message.body)]


async def test_an_answer_comes_back_with_the_allowed_header_fields_only():
    sent = {
        "Cache-Control": "no-store",
        "Mcp-Session-Id": "s9",
        "Retry-After": "3",
        "Set-Cookie": "a=b",
        "X-Powered-By": "them",
    }
    script = answers('{"a": 1e3}', media="Application/JSON; charset=utf-8", headers=sent)
    async with opened(script) as (upstream, _):
        answer = await upstream.forward(permit_for())
    assert answer == RawAnswer(
        status=200,
        headers=(
            ("content-type", "Application/JSON; charset=utf-8"),
            ("cache-control", "no-store"),
            ("retry-after", "3"),
        ),
        session="s9",
        body=b'{"a": 1e3}',
    )


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
async def test_an_error_in_json_is_relayed_with_its_body(status: int):
    async with opened(answers('{"error":1}', status=status)) as (upstream, _):
        answer = await upstream.forward(permit_for())
    assert (answer.status, answer.body) == (status, b'{"error":1}')


async def test_nothing_has_changed_is_no_answer_to_a_call():
    async with opened(answers("", status=304, media=None)) as (upstream, _):
        with pytest.raises(UpstreamFailed):
            await upstream.forward(permit_for())


@pytest.mark.parametrize("status", [400, 403, 404, 405])
async def test_of_a_client_error_in_any_other_form_only_the_status_is_relayed(status: int):
    script = answers("<html>", status=status, media="text/html", headers={"Allow": "POST"})
    async with opened(script) as (upstream, _):
        answer = await upstream.forward(permit_for())
    assert answer == RawAnswer(status=status, headers=(("allow", "POST"),), session=None, body=b"")


@pytest.mark.parametrize(
    ("status", "media"),
    [(500, "text/html"), (502, None), (200, "text/html"), (200, "application/xml")],
)
async def test_any_other_media_type_is_a_fault(status: int, media: str | None):
    async with opened(answers("<html>", status=status, media=media)) as (upstream, _):
        with pytest.raises(UpstreamFailed, match=f"status {status}, media type"):
            await upstream.forward(permit_for())


async def test_a_server_error_without_a_body_is_a_fault():
    async with opened(answers(status=503, media=None)) as (upstream, _):
        with pytest.raises(UpstreamFailed, match="status 503"):
            await upstream.forward(permit_for())


@pytest.mark.parametrize("status", [404, 500])
async def test_an_error_is_no_stream(status: int):
    script = answers("data: {}\n\n", status=status, media="text/event-stream")
    async with opened(script) as (upstream, _):
        if status == 404:
            assert (await upstream.forward(permit_for())).body == b""
        else:
            with pytest.raises(UpstreamFailed, match="status 500"):
                await upstream.forward(permit_for())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_a_fault_and_is_not_followed(status: int):
    script = answers(status=status, headers={"Location": "/elsewhere"})
    async with opened(script) as (upstream, server):
        with pytest.raises(UpstreamFailed, match=f"status {status}"):
            await upstream.forward(permit_for())
    assert len(server.seen) == 1


async def test_a_compressed_answer_is_a_fault():
    script = answers(gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"})
    async with opened(script) as (upstream, _):
        with pytest.raises(UpstreamFailed, match="content encoding 'gzip'"):
            await upstream.forward(permit_for())


async def test_a_compressed_stream_is_a_fault():
    script = answers(
        gzip.compress(b"data: {}\n\n"),
        media="text/event-stream",
        headers={"Content-Encoding": "GZIP"},
    )
    async with opened(script) as (upstream, _):
        with pytest.raises(UpstreamFailed, match="content encoding"):
            await upstream.forward(permit_for())


@pytest.mark.parametrize(
    ("status", "challenge"), [(401, "Bearer"), (403, 'Bearer error="insufficient_scope"')]
)
async def test_a_challenge_is_not_for_the_client(status: int, challenge: str):
    script = answers("{}", status=status, headers={"WWW-Authenticate": challenge})
    async with opened(script) as (upstream, _):
        with pytest.raises(CredentialRequired, match=f"status {status}"):
            await upstream.forward(permit_for())


async def test_a_401_without_a_challenge_is_not_for_the_client_either():
    async with opened(answers("{}", status=401)) as (upstream, _):
        with pytest.raises(CredentialRequired):
            await upstream.forward(permit_for())


@pytest.mark.parametrize("chunked", [True, False])
async def test_an_answer_beyond_the_limit_is_refused(chunked: bool):
    async def script(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        if chunked:
            response.enable_chunked_encoding()
        else:
            response.content_length = 1001
        await response.prepare(request)
        await response.write(b" " * 1001)
        return response

    async with opened(script, limits=Limits(result_bytes=1000)) as (upstream, _):
        with pytest.raises(LimitExceeded):
            await upstream.forward(permit_for())


async def test_an_answer_of_exactly_the_limit_is_taken():
    async with opened(answers(b" " * 1000), limits=Limits(result_bytes=1000)) as (upstream, _):
        answer = await upstream.forward(permit_for())
    assert answer.body == b" " * 1000


async def test_a_call_into_a_connection_that_breaks_is_not_sent_again():
    async with opened(answers("{}")) as (upstream, server):
        await upstream.forward(permit_for())
        server.script = resets
        with pytest.raises(UpstreamFailed, match="connection: "):
            await upstream.forward(permit_for())
        server.script = answers("{}")
        await upstream.forward(permit_for())
    assert len(server.seen) == 3


async def test_connections_are_used_again():
    async with opened(answers("{}")) as (upstream, server):
        for _ in range(5):
            await upstream.forward(permit_for())
    assert len(server.connections) == 1


async def test_streams_that_listen_hold_up_no_call():
    limits = Limits(connections=1)
    async with opened(answers("{}"), limits=limits) as (upstream, server):
        server.script = streams(then=hangs)
        listening = permit_for("GET", form=Form.STREAM, profile=Profile.LEGACY, session="s1")
        first, second = await upstream.forward(listening), await upstream.forward(listening)
        server.script = answers("{}")
        answer = await upstream.forward(permit_for())
        for stream in (first.body, second.body):
            await stream.aclose()  # type: ignore[union-attr]
    assert answer.status == 200


async def test_a_rejection_goes_to_the_session_of_the_call():
    carried = (*SENT_ON, ("mcp-protocol-version", "2025-11-25"), ("mcp-name", "echo"))
    permit = permit_for(profile=Profile.LEGACY, headers=carried, session="s1")
    async with opened(answers(status=202, media=None), credential=OURS) as (upstream, server):
        await upstream.reject(permit, b'{"jsonrpc":"2.0","id":3,"error":{}}')
    (seen,) = server.seen
    assert (seen.method, seen.body) == ("POST", b'{"jsonrpc":"2.0","id":3,"error":{}}')
    wanted = ("mcp-session-id", "mcp-protocol-version", "authorization", "mcp-name")
    assert [seen.headers.get(name) for name in wanted] == [
        "s1",
        "2025-11-25",
        "Bearer our-own-token",
        None,
    ]


async def test_a_rejection_that_cannot_be_delivered_is_a_fault():
    async with opened(resets) as (upstream, _):
        with pytest.raises(UpstreamFailed):
            await upstream.reject(permit_for(profile=Profile.LEGACY), b"{}")
