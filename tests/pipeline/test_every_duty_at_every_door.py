"""Every duty at every door: it is met there, or what it is about is withheld. It is never dropped."""

import base64
import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from gateway.domain.calls import Form, RawAnswer, ServerEvent
from gateway.domain.decisions import Duty, Obligation, Phase, Verdict
from gateway.domain.labels import Confidentiality
from gateway.domain.tools import Kind, Profile
from gateway.pipeline.filter import meet
from tests.pipeline.house import ALICE, TOOLS, UNHINTED, Events, House, decision, event

SECRET = "4111111111111111"
LONG = "x" * 60
DUTIES: dict[Duty, dict[str, Any]] = {
    Duty.REDACT: {"patterns": [r"\d{16}"]},
    Duty.MASK: {"classes": ["card"]},
    Duty.TOKENIZE: {"classes": ["card"]},
    Duty.DROP: {"classes": ["card"]},
    Duty.TRUNCATE: {"bytes": 20},
    Duty.DROP_STRUCTURED: {},
    Duty.RATE_LIMIT: {"calls_per_minute": 1},
    Duty.REQUIRE_STEP_UP: {"scopes": ["root"]},
    Duty.LABEL: {"confidentiality": "secret"},
}
CARRIED = {"structuredContent": {"card": int(SECRET), SECRET: 4.111111111111111e15}}
BLOCK = {"type": "text", "text": f"{SECRET} {LONG}"}
DOORS: dict[str, tuple[str, dict[str, Any], list[dict[str, Any]]]] = {
    "result": ("tools/call", {"name": "search", "arguments": {}}, [{"result": {"content": [BLOCK], **CARRIED}}]),
    "error": ("tools/call", {"name": "search", "arguments": {}}, [{"error": {"code": 1, "message": f"{SECRET} {LONG}", "data": CARRIED}}]),
    "progress": ("tools/call", {"name": "search", "arguments": {}}, [{"method": "notifications/progress", "params": {"progress": 1, "message": f"{SECRET} {LONG}"}}]),
    "log": ("tools/call", {"name": "search", "arguments": {}}, [{"method": "notifications/message", "params": {"level": "info", "data": {"a": f"{SECRET} {LONG}", **CARRIED}}}]),
    "log of a session": ("GET", {}, [{"method": "notifications/message", "params": {"level": "info", "data": f"{SECRET} {LONG}"}}]),
    "news of a resource": ("GET", {}, [{"method": "notifications/resources/updated", "params": {"uri": "a", "title": f"{SECRET} {LONG}"}}]),
    "sampling": ("tools/call", {"name": "search", "arguments": {}}, [{"id": "q", "method": "sampling/createMessage", "params": {"messages": [{"role": "user", "content": BLOCK}]}}]),
    "elicitation": ("GET", {}, [{"id": "q", "method": "elicitation/create", "params": {"message": f"{SECRET} {LONG}"}}]),
    "link in an error": ("tools/call", {"name": "search", "arguments": {}}, [{"error": {"code": -32042, "message": "a", "data": {"elicitations": [{"message": f"{SECRET} {LONG}"}]}}}]),
    "input required": ("tools/call", {"name": "search", "arguments": {}}, [{"result": {"resultType": "input_required", "inputRequests": {"a": {"method": "elicitation/create", "params": {"message": f"{SECRET} {LONG}"}}}}}]),
    "prompt": ("prompts/get", {"name": "greet"}, [{"result": {"messages": [{"role": "user", "content": BLOCK}]}}]),
    "resource": ("resources/read", {"uri": "a"}, [{"result": {"contents": [{"uri": "a", "text": f"{SECRET} {LONG}"}]}}]),
    "blob": ("resources/read", {"uri": "a"}, [{"result": {"contents": [{"uri": "a", "blob": base64.b64encode(f"{SECRET} {LONG}".encode()).decode()}]}}]),
    "archive": ("resources/read", {"uri": "a"}, [{"result": {"contents": [{"uri": "a", "blob": base64.b64encode(b"PK\x03\x04\xff" + SECRET.encode()).decode()}]}}]),
    "completion": ("completion/complete", {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "a", "value": "b"}}, [{"result": {"completion": {"values": [f"{SECRET} {LONG}"]}}}]),
}  # fmt: skip


@pytest.fixture
async def house() -> House:
    built = House()
    await built.approve_all(Profile.LEGACY)
    await built.show({"name": "greet"}, kind=Kind.PROMPT, profile=Profile.LEGACY)
    await built.approve(Kind.PROMPT, "greet", Profile.LEGACY)
    return built


def asks(house: House, phase: Phase, duty: Duty) -> None:
    told = [Obligation(duty=duty, detail=DUTIES[duty])]
    house.rule.says = lambda q: (
        decision(Verdict.ALLOW, obligations=told) if q["phase"] == phase else Verdict.ALLOW
    )


def _answered(events: list[ServerEvent], _: object) -> RawAnswer:
    return Events(events).answer()


async def said(house: House, door: str) -> tuple[bytes, bytes]:
    """Use `door` twice, and return what came through each time."""
    method, params, messages = DOORS[door]
    parts = []
    for id_ in (1, 2):
        events = [
            event({"jsonrpc": "2.0", **({} if "method" in one else {"id": id_}), **one})
            for one in messages
        ]
        house.server.answer = partial(_answered, events)
        streams = method == "GET"
        call = house.request(
            method,
            params,
            profile=Profile.LEGACY,
            session="s1",
            form=Form.STREAM if streams else Form.REQUEST,
            id_=None if streams else id_,
        )
        parts.append((await house.handle(call)).bytes)
    return parts[0], parts[1]


def numbers_in(body: bytes) -> bool:
    shown = b""
    for part in body.split(b'"'):
        with suppress(ValueError):
            shown += base64.b64decode(part, validate=True)
    return SECRET.encode() in body + shown or b"4.111111111111111e15" in body


MET: dict[Duty, Callable[[bytes, bytes], bool]] = {
    Duty.REDACT: lambda first, second: not numbers_in(first + second),
    Duty.MASK: lambda first, second: not numbers_in(first + second),
    Duty.TOKENIZE: lambda first, second: not numbers_in(first + second),
    Duty.DROP: lambda first, second: not numbers_in(first + second),
    Duty.TRUNCATE: lambda first, second: LONG.encode()[:30] not in first,
    Duty.DROP_STRUCTURED: lambda first, second: b'"card"' not in first,
    Duty.RATE_LIMIT: lambda first, second: (
        SECRET.encode() not in second and "eHh4eHh4" not in second.decode()
    ),
    Duty.REQUIRE_STEP_UP: lambda first, second: SECRET.encode() not in first + second,
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("duty", MET)
@pytest.mark.parametrize("phase", [Phase.CALL, Phase.RESULT])
async def test_it_is_met_or_nothing_passes(
    house: House, phase: Phase, duty: Duty, door: str
) -> None:
    if (
        phase is Phase.CALL
        and DOORS[door][0] == "GET"
        and DOORS[door][2][0]["method"].startswith("not")
    ):
        pytest.skip("no call is decided on there")
    asks(house, phase, duty)
    assert MET[duty](*await said(house, door))


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("phase", [Phase.CALL, Phase.RESULT])
async def test_a_label_raises_the_run(house: House, phase: Phase, door: str) -> None:
    if (
        phase is Phase.CALL
        and DOORS[door][0] == "GET"
        and DOORS[door][2][0]["method"].startswith("not")
    ):
        pytest.skip("no call is decided on there")
    asks(house, phase, Duty.LABEL)
    await said(house, door)
    run = await house.runs.of(ALICE, UNHINTED)
    assert run.label.confidentiality is Confidentiality.SECRET


async def test_what_a_list_shows_is_redacted_or_not_shown(house: House) -> None:
    word = Obligation(duty=Duty.REDACT, detail={"patterns": ["Search"]})
    house.rule.says = lambda q: decision(Verdict.ALLOW, obligations=[word])
    answer = {"tools": list(TOOLS.values()), "resources": [{"uri": "a", "name": "Search"}]}
    house.server.answer = lambda permit: Events(
        [event({"jsonrpc": "2.0", "id": 1, "result": answer})]
    ).answer()
    for method in ("tools/list", "resources/list"):
        seen = await house.handle(house.request(method, profile=Profile.LEGACY))
        listed = seen.messages[-1]["result"]["tools" if method == "tools/list" else "resources"]
        assert "Search" not in json.dumps(listed)
        assert len(listed) == 1


@pytest.mark.parametrize("duty", [Duty.MASK, Duty.TOKENIZE, Duty.DROP])
async def test_what_a_list_says_of_resources_is_masked(house: House, duty: Duty) -> None:
    asks(house, Phase.LIST, duty)
    listed = [{"uri": "a", "name": "a"}, {"uri": "b", "name": "b", "description": f"no. {SECRET}"}]
    house.server.answer = lambda permit: Events(
        [event({"jsonrpc": "2.0", "id": 1, "result": {"resources": listed}})]
    ).answer()
    seen = await house.handle(house.request("resources/list", profile=Profile.LEGACY))
    shown = seen.messages[-1]["result"]["resources"]
    assert shown[0] == listed[0]
    assert (shown[1]["uri"], SECRET in json.dumps(shown)) == ("b", False)


@pytest.mark.parametrize(
    "spelt",
    [SECRET, int(SECRET), 4.111111111111111e15, -int(SECRET), {SECRET: 1}, [float(SECRET)],
     "\uff14" + SECRET[1:], "4\u200b" + SECRET[1:]],
)  # fmt: skip
def test_a_number_is_hidden_in_every_spelling(spelt: Any) -> None:
    duty = Obligation(duty=Duty.REDACT, detail={"patterns": [r"\d{16}"]})
    met = meet([duty], {"structuredContent": {"a": spelt, "b": 7}})
    assert SECRET[1:] not in json.dumps(met, ensure_ascii=False)
    assert met["structuredContent"]["b"] == 7


def test_what_a_path_hides_is_hidden_where_it_is_a_number_or_a_name() -> None:
    duty = Obligation(duty=Duty.REDACT, detail={"paths": ["$.structuredContent.card"]})
    found = {"card": int(SECRET), "again": float(SECRET), SECRET: "x", "text": f"no. {SECRET}"}
    assert SECRET not in json.dumps(meet([duty], {"structuredContent": found}))
