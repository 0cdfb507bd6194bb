"""From a run that has read something no word of its caller's goes out that nobody has judged, at any door.

A word is put into every place of every kind of message, of both families of revisions: in the place of
each value, as the name of a member more in each object, and into each header. Either it reaches no server,
or policy was asked about a call that says it.
"""

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest

from gateway.domain.calls import Call, CallId, Form, Permit, RawAnswer
from gateway.domain.decisions import Verdict
from gateway.domain.identity import BearerToken
from gateway.domain.labels import STRICTEST_DEFAULT, ToolRule
from gateway.domain.planes import PlaneKind
from gateway.domain.shares import Shares
from gateway.domain.tools import Kind, Profile
from gateway.errors import GatewayError
from gateway.pipeline.plane_traffic import Turned
from gateway.planes.doorman import Doorman, Place
from gateway.planes.ext_mcp import CLAIMS, ExtMcp
from gateway.planes.structs import Unexpected
from gateway.planes.stubs import ext_mcp_pb2
from gateway.wire.inbound import MODERN_CAPABILITIES_KEY, MODERN_VERSION_KEY
from gateway.wire.operations import Sender, find
from gateway.wire.outgoing import PARTS
from gateway.wire.revisions import read_post
from gateway.wire.session import seal
from tests.pipeline.house import ALICE, KEY, MAIL, House, decision, result, text, whole
from tests.planes.asking import CLAIMED, PLANE, Envoy, in_force, lease, nobody_counts

WORD: Final = "vuk1c2foywed"
"""What says nothing to whoever does not have the key: nobody would know it again."""
EXTENSION: Final = "com.example/maps"
PARENT: Final = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ABILITIES: Final = {"roots": {"listChanged": True}, "extensions": {EXTENSION: {"zoom": 3}}}
PROGRAM: Final = {"name": "agent", "version": "3"}
STATED: Final = "io.modelcontextprotocol/"

ABOUT: Final[dict[str, Any]] = {
    "progressToken": "p",
    "traceparent": PARENT,
    "tracestate": "a=b",
    "baggage": "a=b",
    "com.example/note": {"deep": ["a", 1, True, None]},
    f"{STATED}logLevel": "info",
    f"{STATED}subscriptionId": "s",
    "douane/run": "r",
    "douane/task": {"prompt": "do", "tools": ["search"]},
    "douane/origin": {"program": "a"},
    MODERN_CAPABILITIES_KEY: ABILITIES,
    f"{STATED}clientInfo": PROGRAM,
}
"""Also what means something in one family alone: in the other it is a word as any."""
SAID: Final[dict[str, dict[str, Any]]] = {
    "tools/call": {"name": "search", "arguments": {"q": ["x", 1, {"deep": True}]}},
    "prompts/get": {"name": "greet", "arguments": {"to": "x"}},
    "resources/read": {"uri": "mail://a"},
    "resources/subscribe": {"uri": "mail://a"},
    "resources/unsubscribe": {"uri": "mail://a"},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "greet"},
        "argument": {"name": "to", "value": "x"},
        "context": {"arguments": {"to": "x"}},
    },
    "subscriptions/listen": {
        "notifications": {"toolsListChanged": True, "resourceSubscriptions": []}
    },
    "tasks/get": {"taskId": "t"},
    "tasks/cancel": {"taskId": "t"},
    "tasks/update": {"taskId": "t", "inputResponses": {"q": {"action": "accept"}}},
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {**ABILITIES, "sampling": {"tools": {}}},
        "clientInfo": PROGRAM,
    },
    "logging/setLevel": {"level": "info"},
    "notifications/cancelled": {"requestId": 3, "reason": "r"},
    "notifications/progress": {"progressToken": 3, "progress": 1, "total": 2, "message": "m"},
}
HEADERS: Final[tuple[tuple[str, str], ...]] = (
    ("accept", "application/json, text/event-stream"),
    ("content-type", "application/json"),
    ("user-agent", "a/1"),
    ("cookie", "a=b"),
    ("origin", "https://a.example"),
    ("referer", "https://a.example"),
    ("baggage", "a=b"),
    ("accept-encoding", "gzip"),
    ("accept-language", "en"),
    ("x-forwarded-for", "192.0.2.7"),
    ("x-forwarded-proto", "https"),
    ("x-request-id", "r"),
    ("last-event-id", "e"),
    ("traceparent", PARENT),
    ("tracestate", "a=b"),
    ("mcp-param-q", "x"),
    ("mcp-other", "x"),
)
"""What a client may say beside a message, and what says which it is comes with it."""
NEVER: Final = {
    ("own", "tasks/get"),
    ("own", "tasks/cancel"),
    ("own", "tasks/update"),
    *(
        (door, method)
        for door in ("ext_proc", "ext_mcp")
        for method in ("subscriptions/listen", "tasks/get", "tasks/cancel", "tasks/update")
    ),
}
"""What reaches no server even without a word in it: no task is there, and planes may not carry these."""


def kinds() -> Iterator[tuple[Profile, str]]:
    for method in PARTS:
        row = find(Sender.CLIENT, method)
        assert row is not None
        yield from ((profile, method) for profile in row.profiles - row.refused_in)


HEADED: Final = {
    "tools/call",
    "tools/list",
    "resources/read",
    "initialize",
    "notifications/cancelled",
}
"""With which headers and `_meta` are tried: those of all others are read alike."""
KINDS: Final = sorted(kinds(), key=str)
ON_A_WAY: Final = {
    "ext_mcp": lambda method: not method.startswith("notifications/"),
}
"""What comes by a door at all: agentgateway asks about requests alone."""


def content_of(profile: Profile, method: str) -> dict[str, Any]:
    """Return a message of this kind that says all that one may."""
    about = {**ABOUT, **({MODERN_VERSION_KEY: "2026-07-28"} if profile is Profile.MODERN else {})}
    params = {**SAID.get(method, {}), "_meta": about}
    content: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    if method.startswith("notifications/"):
        del content["id"]
    return content


def with_a_word(node: Any, but: str = "") -> Iterator[Any]:
    """Yield `node` with the word in each of its places, one at a time; in none of its members `but`."""
    yield from (WORD, [WORD])
    if isinstance(node, dict):
        yield {**node, "note": WORD}
        yield {**node, WORD: 1}
        for name, inner in node.items():
            if name != but:
                yield from ({**node, name: one} for one in with_a_word(inner, but))
    if isinstance(node, list):
        for place, inner in enumerate(node):
            yield from ([*node[:place], one, *node[place + 1 :]] for one in with_a_word(inner, but))
        yield [*node, WORD]


def headers_of(content: Any, profile: Profile) -> list[tuple[str, str]]:
    """Return the headers that say what the message says, as far as it is one."""
    if not isinstance(content, dict):
        return list(HEADERS)
    params = content.get("params")
    about = params if isinstance(params, dict) else {}
    method, name = content.get("method"), about.get("name", about.get("uri", about.get("taskId")))
    found = [("mcp-protocol-version", "2026-07-28" if profile is Profile.MODERN else "2025-11-25")]
    if profile is Profile.MODERN and isinstance(method, str):
        found.append(("mcp-method", method))
        if isinstance(name, str):
            found.append(("mcp-name", name))
    return [*HEADERS, *found]


def headers_with_a_word(pairs: list[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    for place, (name, said) in enumerate(pairs):
        for one in (WORD, f"{said}; x={WORD}", f"{said},a={WORD}"):
            yield [*pairs[:place], (name, one), *pairs[place + 1 :]]
        yield [*pairs, (name, WORD)]
    for name in (f"x-{WORD}", f"mcp-{WORD}", f"mcp-param-{WORD}", "mcp-session-id", "x-a"):
        yield [*pairs, (name, WORD)]


def answer(permit: Permit) -> RawAnswer:
    if permit.call.message.form is not Form.REQUEST:
        return whole(b"", status=202)
    return result(permit, {"tools": []} if permit.access is None else text("fine"))


async def tainted(profile: Profile) -> House:
    """Return a house in which everything is allowed, and a run that has read what is private."""
    house = House(
        tools={"search": ToolRule(result=STRICTEST_DEFAULT)}, extensions=frozenset({EXTENSION})
    )
    await house.approve_all(profile)
    await house.show(
        {"name": "greet", "arguments": [{"name": "to"}]}, kind=Kind.PROMPT, profile=profile
    )
    await house.approve(Kind.PROMPT, "greet", profile)
    ids = itertools.count()
    house.rule.says = lambda _: replace(decision(Verdict.ALLOW), id=f"d_{next(ids)}")
    house.server.answer = answer
    house.limits._calls_per_minute = 10**9
    await house.handle(house.call(profile=profile))
    return house


async def by_our_door(house: House, pairs: list[tuple[str, str]], body: bytes) -> str:
    """Return all that a server is sent of a request."""
    house.server.saw.clear()
    try:
        read = read_post(pairs, body, in_force(house).limits)
    except GatewayError:
        return ""
    call = Call(
        id=CallId(house.new_id()),
        endpoint="/mcp/mail",
        server=MAIL,
        message=read.message,
        revision=read.revision,
        profile=read.profile,
        headers=read.headers,
        credential=BearerToken(text="alice"),
        session=read.session,
        source_ip="192.0.2.1",
        run_hint=read.run_hint,
        trace=read.trace,
    )
    await house.handle(call)
    return "".join(
        f"{one.call.message.body.decode()}{one.call.headers}{one.session}"
        for one in house.server.saw
    )


async def by_ext_proc(house: House, pairs: list[tuple[str, str]], body: bytes) -> str:
    envoy = Envoy(house, of_each=Shares(octets=10**6, share=10**6))
    kept = [pair for pair in pairs if pair != ("content-type", "application/json")]
    try:
        began = await envoy.begin(*kept)
        if began.WhichOneof("response") != "request_headers":
            return ""
        response = await envoy.body(body)
    except Unexpected:
        return ""
    if response.WhichOneof("response") != "request_body":
        return ""
    told = response.request_body.response
    put = {
        one.header.key: one.header.raw_value.decode() for one in told.header_mutation.set_headers
    }
    gone = {*told.header_mutation.remove_headers, *put}
    left = [pair for pair in kept if pair[0] not in gone]
    return f"{told.body_mutation.body.decode() or body.decode()}{left}{put}"


async def by_ext_mcp(house: House, pairs: list[tuple[str, str]], body: bytes) -> str:
    plane = replace(PLANE, kind=PlaneKind.EXT_MCP)
    force = in_force(house, plane)
    place = Place(plane, Shares(octets=10**6, share=10**6), nobody_counts)
    content = json.loads(body)
    if not isinstance(content, dict) or not isinstance(content.get("method"), str):
        return ""
    request = ext_mcp_pb2.McpRequest(
        service_names=["gh"],
        method=content["method"],
        headers=[ext_mcp_pb2.McpHeader(key=name, value=said.encode()) for name, said in pairs],
        mcp_request=json.dumps(content.get("params")).encode(),
    )
    request.metadata_context.update({CLAIMS: CLAIMED})
    asks = ExtMcp(lambda: lease(force), Doorman(), house.new_id)
    outcome = await asks._admitted(force, place, request, "192.0.2.1")
    if isinstance(outcome, Turned):
        return ""
    return (await asks._allowed(force, place, request, outcome)).mutated.decode()


DOORS: Final = {"own": by_our_door, "ext_proc": by_ext_proc, "ext_mcp": by_ext_mcp}
WAYS: Final = [
    (door, profile, method)
    for door in DOORS
    for profile, method in KINDS
    if ON_A_WAY.get(door, bool)(method)
]


EVERY: Final = 4
"""Of so many places with a word, one way tries one."""


@pytest.mark.parametrize(("door", "profile", "method"), WAYS, ids=str)
async def test_no_word_goes_out_that_nobody_has_judged(
    door: str, profile: Profile, method: str
) -> None:
    """Each way tries some of the places, and the next way those between: a report tries all at each."""
    nth = WAYS.index((door, profile, method)) % EVERY
    await tried(door, profile, method, but="" if method in HEADED else "_meta", among=nth)


@pytest.mark.full
@pytest.mark.parametrize(("door", "profile", "method"), WAYS, ids=str)
async def test_nor_in_what_any_message_is_about(door: str, profile: Profile, method: str) -> None:
    await tried(door, profile, method)


async def tried(
    door: str, profile: Profile, method: str, but: str = "", among: int | None = None
) -> None:
    house, send = await tainted(profile), DOORS[door]
    plain = content_of(profile, method)
    pairs = headers_of(plain, profile)
    reached = await send(house, pairs, json.dumps(plain).encode())
    assert bool(reached) is ((door, method) not in NEVER)
    told = [(headers_of(one, profile), one) for one in with_a_word(plain, but)]
    if door != "ext_mcp" and method in HEADED:  # which shows no headers but those that it reads
        told += [(one, plain) for one in headers_with_a_word(pairs)]
    for said, content in told if among is None else told[among::EVERY]:
        house.rule.asked.clear()
        arrived = await send(house, said, json.dumps(content).encode())
        if WORD in arrived:
            assert WORD in json.dumps(house.rule.asked, default=str), (said, content, arrived)


async def test_a_session_is_none_but_ones_own() -> None:
    """The one word of a client's that stands for a server's own: sealed, or nothing."""
    house = await tainted(Profile.LEGACY)
    content = json.dumps(content_of(Profile.LEGACY, "ping")).encode()
    ours = seal(KEY, MAIL, ALICE.key, "s1")
    for session, arrives in ((ours, True), (WORD, False), (ours + WORD, False)):
        pairs = [*headers_of({}, Profile.LEGACY), ("mcp-session-id", session)]
        for send in (by_our_door, by_ext_proc):
            assert ("s1" in await send(house, pairs, content)) is arrives
