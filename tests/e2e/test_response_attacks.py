"""Answers that slip past a filter elsewhere; the ids are those of known attacks."""

import json
from typing import Any

import pytest
from aiohttp import web

from tests.e2e.posting import LEGACY, Poster, body_of, modern_params
from tests.e2e.scripted import FRESH, TOOLS, Raw, answer, instead
from tests.e2e.site import Corridor
from tests.e2e.sockets import Answered
from tests.servers.raw import Script, answers, streams

SHOWN = ["allowed", "denied", "slow", "located", "page", "remove", "amounts"]
LIST: dict[str, Any] = {"tools": TOOLS, **FRESH}


def listing(**given: Any) -> Script:
    """Answer tools/list with everything, in an HTTP response that the test spells."""

    async def script(request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read())
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": LIST}).encode()
        media = given.get("media", "application/json")
        return web.Response(
            body=body, status=given.get("status", 200), headers={"Content-Type": media}
        )

    return script


def names(answered: Answered) -> list[str]:
    return [tool["name"] for tool in answered.messages[-1]["result"]["tools"]]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_hidden_tool_is_in_no_list(either: Poster, raw: Raw, era: str) -> None:
    raw.play(instead("tools/list", listing()))
    assert names(getattr(either, era)("tools/list", {})) == SHOWN


def test_r01_a_media_type_in_other_letters_is_filtered(either: Poster, raw: Raw) -> None:
    raw.play(instead("tools/list", listing(media="Application/JSON; charset=utf-8")))
    assert names(either.modern("tools/list", {})) == SHOWN


@pytest.mark.parametrize("media", ["text/html", "application/jsonl", "text/json", ""])
def test_r01_another_media_type_is_refused(either: Poster, raw: Raw, media: str) -> None:
    raw.play(instead("tools/list", listing(media=media)))
    answered = either.modern("tools/list", {})
    assert answered.refusal == "upstream_failed"
    assert b"hidden" not in answered.body


@pytest.mark.parametrize("status", [200, 201, 202, 203, 206, 299])
def test_r02_every_good_status_is_filtered(either: Poster, raw: Raw, status: int) -> None:
    raw.play(instead("tools/list", listing(status=status)))
    assert names(either.modern("tools/list", {})) == SHOWN


@pytest.mark.parametrize("status", [400, 404, 500])
def test_r02_a_list_under_a_bad_status_is_filtered(either: Poster, raw: Raw, status: int) -> None:
    raw.play(instead("tools/list", listing(status=status)))
    answered = either.modern("tools/list", {})
    assert b'"hidden"' not in answered.body


def event(message: object, *, end: bytes = b"\n", begin: bytes = b"") -> bytes:
    return begin + b"data: " + json.dumps(message).encode() + end + end


def result(id_: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "result": LIST}


def streamed(poster: Poster, raw: Raw, *pieces: bytes) -> Answered:
    """Ask for the list with id 7 and have it answered with a stream of `pieces`."""
    raw.play(instead("tools/list", streams(*pieces)))
    body = body_of("tools/list", modern_params({}), id=7)
    return poster.post(body, ("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/list"))


LINE_BY_LINE = json.dumps(result(7), indent=1).encode()
FILTERED = {
    "R06-line-feeds": event(result(7)),
    "R06-carriage-returns": event(result(7), end=b"\r"),
    "R06-both": event(result(7), end=b"\r\n"),
    "R06-mixed": b"event: message\r" + b"id: 1\r\n" + event(result(7)),
    "R06-byte-order-mark": event(result(7), begin=b"\xef\xbb\xbf"),
    "R06-comments": event(result(7), begin=b": data: {}\r: x\n"),
    "R06-no-space": b"data:" + json.dumps(result(7)).encode() + b"\n\n",
    "R06-many-lines": b"".join(b"data: " + ln + b"\n" for ln in LINE_BY_LINE.splitlines()) + b"\n",
    "R06-another-type": b"event: other\n" + event(result(7)),
}


@pytest.mark.parametrize("case", FILTERED)
def test_a_stream_is_filtered_however_its_lines_end(either: Poster, raw: Raw, case: str) -> None:
    answered = streamed(either, raw, FILTERED[case])
    assert names(answered) == SHOWN
    assert b'"hidden"' not in answered.body


both = {**result(7), "error": {"code": 1, "message": "hidden"}}
REFUSED = {
    "R06-two-messages-in-one-event": b"data: " + json.dumps(result(8)).encode() + b"\n" + event(result(7)),
    "R06-both-result-and-error": event(both),
    "R06-batch": event([result(7)]),
    "R06-result-twice": event(result(7)).replace(b'"result"', b'"result": {"tools": []}, "result"'),
    "R06-neither": event({"jsonrpc": "2.0", "id": 7}),
    "R06-another-id": event(result(8)),
    "R06-the-id-as-text": event(result("7")),
    "R06-no-id": event(result(None)),
    "R06-an-unended-event": b"data: " + json.dumps(result(7)).encode(),
    "R06-a-list-that-is-none": event({"jsonrpc": "2.0", "id": 7, "result": {"tools": {"hidden": 1}}}),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_an_ambiguous_answer_is_withheld(either: Poster, raw: Raw, case: str) -> None:
    answered = streamed(either, raw, REFUSED[case])
    assert b'"hidden"' not in answered.body
    if answered.body:  # a stream that ends early has nothing to say
        assert answered.refusal == "upstream_failed"


def test_r06_what_comes_after_the_response_is_withheld(either: Poster, raw: Raw) -> None:
    answered = streamed(either, raw, event(result(7)) + event(result(7)))
    assert len(answered.messages) == 1
    assert b'"hidden"' not in answered.body


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_r11_what_policy_hides_is_hidden_by_every_other_name_too(
    poster: Poster, raw: Raw, era: str
) -> None:
    ask = getattr(poster, era)
    for method, params in (
        ("prompts/get", {"name": "hidden"}),
        ("resources/read", {"uri": "raw://hidden"}),
        ("tools/call", {"name": "hidden", "arguments": {}}),
    ):
        assert ask(method, params).refusal == "unknown_tool"
    ref = {"type": "ref/prompt", "name": "hidden"}
    completes = {"ref": ref, "argument": {"name": "a", "value": "b"}}
    assert ask("completion/complete", completes).refusal == "unknown_tool"
    if era == "legacy":
        assert ask("resources/subscribe", {"uri": "raw://hidden"}).refusal == "unknown_tool"
    else:
        listen = {"notifications": {"resourceSubscriptions": ["raw://hidden"]}}
        assert ask("subscriptions/listen", listen).refusal == "unknown_tool"
    assert raw.seen == []
    shown = ask("prompts/list", {}).json["result"]["prompts"]
    assert [prompt["name"] for prompt in shown] == ["greeting"]
    shown = ask("resources/list", {}).json["result"]["resources"]
    assert [resource["uri"] for resource in shown] == ["raw://page"]


def asks(method: str) -> Script:
    """Answer a call with a question that the client is to answer first (MCP 2026-07-28)."""

    async def script(request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read())
        if "inputResponses" in message["params"]:
            return answer(message, {"content": [], "resultType": "complete"})
        form = {"type": "object", "properties": {"name": {"type": "string"}}}
        question = {"method": method, "params": {"message": "who?", "requestedSchema": form}}
        return answer(
            message,
            {
                "resultType": "input_required",
                "inputRequests": {"who": question},
                "requestState": "sealed-by-the-server",
            },
        )

    return script


def test_r10_an_answer_to_a_question_is_a_call_and_is_decided_on_again(
    poster: Poster, raw: Raw
) -> None:
    raw.play(instead("tools/call", asks("elicitation/create")))
    answered = poster.call("allowed")
    first = answered.json["result"]
    assert first["resultType"] == "input_required", answered.refusal
    assert "sealed-by-the-server" not in first["requestState"]
    again = {
        "requestState": first["requestState"],
        "inputResponses": {"who": {"action": "accept", "content": {"name": "x"}}},
    }
    raw.forget()
    for tool in ("denied", "hidden"):
        # Neither the state nor the question is one of a call of these, whatever they are.
        forged = poster.modern("tools/call", {"name": tool, "arguments": {}, **again})
        assert (forged.status, forged.json["error"]["code"]) == (400, -32602)
    assert raw.seen == []
    raw.play(instead("tools/call", asks("elicitation/create")))
    honest = poster.modern("tools/call", {"name": "allowed", "arguments": {}, **again})
    assert honest.json["result"]["resultType"] == "complete"
    assert raw.seen[0].json["params"]["requestState"] == "sealed-by-the-server"


def test_r10_a_question_that_policy_does_not_know_is_withheld(poster: Poster, raw: Raw) -> None:
    raw.play(instead("tools/call", asks("shell/execute")))
    answered = poster.call("allowed")
    assert answered.refusal == "denied"
    assert b"who?" not in answered.body


def test_a_redirect_is_not_followed(either: Poster, raw: Raw) -> None:
    raw.play(instead("tools/call", answers(status=307, headers={"Location": "/elsewhere"})))
    assert either.call("allowed").refusal == "upstream_failed"
    assert raw.methods == ["tools/call"]


def test_an_upstreams_challenge_and_cookies_stay_with_the_gateway(poster: Poster, raw: Raw) -> None:
    challenge = {"WWW-Authenticate": 'Bearer resource_metadata="http://169.254.169.254/"'}
    raw.play(instead("tools/call", answers(status=401, headers=challenge)))
    answered = poster.call("allowed")
    assert (answered.status, answered.refusal) == (200, "credential_required")
    assert "www-authenticate" not in answered.headers
    assert b"169.254" not in answered.body

    async def with_cookie(request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read())
        told = answer(message, {"content": [], "resultType": "complete"})
        told.set_cookie("a", "b")
        return told

    raw.play(instead("tools/call", with_cookie))
    assert "set-cookie" not in poster.call("allowed").headers
    assert "set-cookie" not in poster.call("allowed").headers
    assert "cookie" not in raw.seen[-1].headers


def test_a_page_instead_of_an_answer_is_a_failure(gateway: Corridor, raw: Raw) -> None:
    page = answers("<h1>hidden</h1>", media="text/html")
    raw.play(instead("tools/call", page))
    answered = Poster(gateway, "raw").legacy("tools/call", {"name": "allowed", "arguments": {}})
    assert answered.refusal == "upstream_failed"
    assert b"hidden" not in answered.body
    assert raw.seen[0].headers["mcp-protocol-version"] == LEGACY
