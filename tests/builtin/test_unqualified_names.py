"""Names without a server: the operator's order decides, or the user; nothing else does."""

import asyncio
import base64
import json
import threading
import tracemalloc
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.builtin import unqualified
from gateway.domain.calls import Call, Form, Message, Reply
from gateway.domain.decisions import Verdict
from gateway.domain.tools import Kind, Profile, UpstreamId
from gateway.wire import naming
from gateway.wire.jsontext import WireLimits
from gateway.wire.replies import REFUSAL_KEY
from gateway.wire.session import unseal
from gateway.wire.sse import events_of
from tests.builtin.front import NOTES, Site, methods, sent, speaks
from tests.builtin.test_meta_tools import hiding
from tests.pipeline.house import ALICE, KEY, MAIL, Seen, result

BOTH_NAMES = ["mail__search", "notes__search"]
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
FORMS: dict[str, Any] = {"_meta": {CAPABILITIES: {"elicitation": {"form": {}}}}}
BOB = replace(ALICE, subject="bob")


@pytest.fixture
async def site() -> Site:
    return await Site().furnish()


def search(**more: Any) -> dict[str, Any]:
    return {"name": "search", "arguments": {}, **more}


def chosen(name: object, action: str = "accept") -> dict[str, Any]:
    return {"inputResponses": {"douane-name": {"action": action, "content": {"name": name}}}}


def namesakes(seen: Seen) -> list[str]:
    refusal = seen.json["result"]["_meta"][REFUSAL_KEY]
    assert (refusal["code"], seen.json["result"]["isError"]) == ("unknown_tool", True)
    return [one["message"] for one in refusal["reasons"] if one["code"] == "namesake"]


def reached(site: Site) -> dict[str, list[Any]]:
    return {
        str(name): [sent(permit)["params"]["name"] for permit in server.saw]
        for name, server in site.servers.items()
        if server.saw
    }


async def test_one_that_is_asked_for_without_its_server_is_named_and_not_called(site: Site) -> None:
    seen = await site.ask("tools/call", {"name": "send", "arguments": {}, **FORMS})
    assert namesakes(seen) == ["mail__send may be meant"]
    assert reached(site) == {}


async def test_of_several_each_is_named_where_nobody_can_be_asked(site: Site) -> None:
    for params in (search(), search(**chosen("notes__nope")), search(**chosen("x", "decline"))):
        seen = await site.ask("tools/call", params)
        assert namesakes(seen) == [f"{name} may be meant" for name in BOTH_NAMES]
    assert reached(site) == {}


async def test_what_nobody_has_is_unknown_as_before(site: Site) -> None:
    assert namesakes(await site.ask("tools/call", {"name": "weather", "arguments": {}})) == []
    for name in ("sum__up", "search_tools"):
        calls = len(site.house.audit.records)
        await site.ask("tools/call", {"name": name, "arguments": {"query": "x"}})
        looks = [one.fields.get("target") for one in site.house.audit.records[calls:]]
        assert "get_tool_details" not in looks


@pytest.mark.parametrize("profile", list(Profile))
@pytest.mark.parametrize(
    ("priority", "server"), [(["notes", "mail"], "notes"), (["x", "mail"], "mail")]
)
async def test_the_operators_order_decides(
    profile: Profile, priority: Sequence[str], server: str
) -> None:
    site = await Site(priority=priority).furnish()
    for one in site.servers.values():
        one.answer = speaks()
    seen = await site.ask("tools/call", search(), profile=profile)
    assert seen.json["result"]["content"][0]["text"] == "hello"
    called = [name for name, one in site.servers.items() if "tools/call" in methods(one)]
    assert called == [server]
    intents = [one.fields for one in site.house.audit.records if one.kind == "intent"]
    assert (intents[-1]["server"], intents[-1]["target"]) == (server, "search")


async def test_the_order_chooses_among_what_the_principal_can_see_alone() -> None:
    site = await Site(priority=["notes", "mail"]).furnish()
    site.house.rule.says = hiding("notes")
    await site.ask("tools/call", search())
    assert reached(site) == {"mail": ["search"]}


async def test_the_order_chooses_among_all_of_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unqualified, "_MOST_CANDIDATES", 1)
    site = await Site(priority=["notes", "mail"]).furnish()
    await site.ask("tools/call", search())
    assert reached(site) == {"notes": ["search"]}
    site = await Site().furnish()
    assert namesakes(await site.ask("tools/call", search())) == ["mail__search may be meant"]


async def test_an_order_that_names_none_of_them_decides_nothing() -> None:
    site = await Site(priority=["weather"]).furnish()
    assert len(namesakes(await site.ask("tools/call", search()))) == 2


async def test_hidden_ones_are_neither_named_nor_asked_about(site: Site) -> None:
    site.house.rule.says = hiding("notes")
    seen = await site.ask("tools/call", search(**FORMS))
    assert namesakes(seen) == ["mail__search may be meant"]
    assert "notes" not in json.dumps(seen.json)


async def test_the_user_is_asked_and_the_call_goes_on_under_what_they_chose(site: Site) -> None:
    asked = (await site.ask("tools/call", search(**FORMS))).json["result"]
    assert asked["resultType"] == "input_required"
    form = asked["inputRequests"]["douane-name"]
    assert form["method"] == "elicitation/create"
    assert form["params"]["requestedSchema"]["properties"]["name"]["enum"] == BOTH_NAMES
    assert reached(site) == {}
    await site.ask("tools/call", search(**FORMS, **chosen("notes__search")))
    assert reached(site) == {"notes": ["search"]}
    assert "inputResponses" not in sent(site.servers[NOTES].saw[0])["params"]


async def test_a_call_through_call_tool_is_asked_about_as_well(site: Site) -> None:
    through = {"name": "call_tool", "arguments": {"name": "search", "arguments": {}}}
    asked = (await site.ask("tools/call", {**through, **FORMS})).json["result"]
    assert "douane-name" in asked["inputRequests"]
    await site.ask("tools/call", {**through, **FORMS, **chosen("mail__search")})
    assert reached(site) == {"mail": ["search"]}


@pytest.mark.parametrize(
    "answer", ["mail__send", "notes__read", "notes__nope", "search", "enable_server", None, ["x"]]
)
async def test_an_answer_with_another_name_calls_nothing(site: Site, answer: object) -> None:
    seen = await site.ask("tools/call", search(**FORMS, **chosen(answer)))
    assert len(namesakes(seen)) == 2
    assert reached(site) == {}


async def test_an_answer_about_what_is_hidden_meanwhile_calls_nothing(site: Site) -> None:
    site.house.rule.says = hiding("notes")
    seen = await site.ask("tools/call", search(**FORMS, **chosen("notes__search")))
    assert namesakes(seen) == ["mail__search may be meant"]
    assert reached(site) == {}


async def test_an_answer_to_no_question_decides_what_it_would_have_to_say_anyway(
    site: Site,
) -> None:
    site.house.gate.people["bob"] = BOB
    site.house.rule.says = lambda asked: (
        Verdict.DENY
        if asked["phase"] == "call" and asked["principal"]["sub"] == "bob"
        else Verdict.ALLOW
    )
    seen = await site.ask("tools/call", search(**chosen("notes__search")), who="bob")
    assert seen.code == "denied"
    assert reached(site) == {}


async def test_what_a_server_asks_in_turn_is_answered_in_the_chosen_call(site: Site) -> None:
    needed = {
        "resultType": "input_required",
        "inputRequests": {"who": {"method": "elicitation/create", "params": {}}},
        "requestState": "theirs",
    }
    site.servers[NOTES].answer = speaks(lambda permit: result(permit, needed))
    asked = (await site.ask("tools/call", search(**FORMS, **chosen("notes__search")))).json[
        "result"
    ]
    assert asked["requestState"].startswith("douane-name.")
    site.servers[NOTES].answer = speaks()
    again = {
        "inputResponses": {"who": {"action": "decline"}},
        "requestState": asked["requestState"],
    }
    seen = await site.ask("tools/call", search(**FORMS, **again))
    assert seen.json["result"]["content"][0]["text"] == "hello"
    params = sent(site.servers[NOTES].saw[-1])["params"]
    assert (params["requestState"], params["inputResponses"]) == (
        "theirs",
        {"who": {"action": "decline"}},
    )


@pytest.mark.parametrize("state", ["douane-name.", "douane-name.e30=", "douane-name.WzEsMl0="])
async def test_a_state_that_is_none_of_ours_chooses_nothing(site: Site, state: str) -> None:
    seen = await site.ask("tools/call", search(**FORMS, requestState=state))
    assert len(namesakes(seen)) == 2
    assert reached(site) == {}


async def test_a_prompt_is_no_different(site: Site) -> None:
    site.servers[NOTES].answer = speaks(lambda permit: result(permit, {"messages": []}))
    refused = await site.ask("prompts/get", {"name": "sum_up"})
    reasons = refused.json["error"]["data"]["reasons"]
    assert [one["message"] for one in reasons] == ["notes__sum_up may be meant"]
    await site.show(MAIL, {"name": "sum_up"}, kind=Kind.PROMPT)
    asked = (await site.ask("prompts/get", {"name": "sum_up", **FORMS})).json["result"]
    assert "douane-name" in asked["inputRequests"]
    got = await site.ask("prompts/get", {"name": "sum_up", **FORMS, **chosen("notes__sum_up")})
    assert got.json["result"]["messages"] == []


@pytest.mark.parametrize(("described", "leaves"), [(1, False), (20_000, True)])
async def test_what_may_be_meant_is_read_out_of_a_long_list_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch, site: Site, described: int, leaves: bool
) -> None:
    for number in range(50):
        shown = {"name": f"p{number}", "description": "d" * described}
        await site.show(MAIL, shown, kind=Kind.PROMPT)
    read: set[bool] = set()
    here = threading.get_ident()

    def noted(text: bytes) -> Any:
        read.add(threading.get_ident() != here)
        return json.loads(text)

    monkeypatch.setattr(unqualified, "json", SimpleNamespace(loads=noted))
    refused = await site.ask("prompts/get", {"name": "p49"})
    reasons = refused.json["error"]["data"]["reasons"]
    assert [one["message"] for one in reasons] == ["mail__p49 may be meant"]
    assert read == {leaves}


class Session:
    """A client of a session that can show forms."""

    def __init__(self, site: Site, who: str = "alice") -> None:
        self.site = site
        self.who = who
        self.id = ""

    async def begin(self, capabilities: Mapping[str, Any]) -> "Session":
        params = {"protocolVersion": "2025-11-25", "capabilities": capabilities}
        call = self.site.call("initialize", params, who=self.who, profile=Profile.LEGACY)
        sealed = dict((await self.site.aggregate.handle(call)).headers)["mcp-session-id"]
        key = self.site.house.gate.people[self.who].key
        self.id = unseal(KEY, UpstreamId(""), key, sealed) or ""
        assert self.id
        return self

    def call(self, method: str, params: Mapping[str, Any], **more: Any) -> Call:
        return self.site.call(
            method, params, who=self.who, session=self.id, profile=Profile.LEGACY, **more
        )

    async def ask(self, params: Mapping[str, Any]) -> Reply:
        return await self.site.aggregate.handle(self.call("tools/call", params))

    async def answer(self, id_: str, result: Mapping[str, Any], **changes: Any) -> Reply:
        made = self.call("", result, form=Form.RESPONSE, id_=id_)
        return await self.site.aggregate.handle(replace(made, **changes))


class Stream:
    """What comes on the stream of an answer."""

    def __init__(self, reply: Reply) -> None:
        assert not isinstance(reply.body, bytes)
        self._parts = reply.body

    async def next(self) -> Any:
        async for part in self._parts:
            for event in events_of(part, WireLimits()):
                if event.data:
                    return json.loads(event.data)
        raise AssertionError("the stream has ended")

    async def aclose(self) -> None:
        await self._parts.aclose()


@pytest.fixture
async def session(site: Site) -> Session:
    for one in site.servers.values():
        one.answer = speaks()
    return await Session(site).begin({"elicitation": {}})


async def test_the_user_of_a_session_is_asked_on_the_stream_of_the_answer(session: Session) -> None:
    stream = Stream(await session.ask(search()))
    asked = await stream.next()
    assert asked["method"] == "elicitation/create"
    assert asked["params"]["requestedSchema"]["properties"]["name"]["enum"] == BOTH_NAMES
    waiting = asyncio.create_task(stream.next())
    accepted = {"action": "accept", "content": {"name": "notes__search"}}
    assert (await session.answer(asked["id"], accepted)).status == 202
    assert (await waiting)["result"]["content"][0]["text"] == "hello"
    assert "tools/call" in methods(session.site.servers[NOTES])
    assert "tools/call" not in methods(session.site.servers[MAIL])


@pytest.mark.parametrize(
    "answer",
    [
        {"action": "decline"},
        {"action": "cancel"},
        {"action": "accept", "content": {"name": "mail__send"}},
        {"action": "accept"},
    ],
)
async def test_a_user_who_does_not_choose_has_nothing_called(
    session: Session, answer: Mapping[str, Any]
) -> None:
    stream = Stream(await session.ask(search()))
    asked = await stream.next()
    waiting = asyncio.create_task(stream.next())
    await session.answer(asked["id"], answer)
    refusal = (await waiting)["result"]["_meta"][REFUSAL_KEY]
    assert refusal["code"] == "unknown_tool"
    assert not any("tools/call" in methods(one) for one in session.site.servers.values())


async def test_nobody_else_answers_for_the_user(session: Session) -> None:
    site = session.site
    site.house.gate.people["bob"] = BOB
    stream = Stream(await session.ask(search()))
    asked = await stream.next()
    accepted = {"action": "accept", "content": {"name": "notes__search"}}
    other = await Session(site).begin({"elicitation": {}})
    bob = await Session(site, "bob").begin({"elicitation": {}})
    for answered in (
        await other.answer(asked["id"], accepted),
        await bob.answer(asked["id"], accepted),
        await session.answer(asked["id"], accepted, credential=None),
        await session.answer("/made-up", accepted),
    ):
        assert answered.code is not None
    assert not any("tools/call" in methods(one) for one in site.servers.values())
    await stream.aclose()
    assert (await session.answer(asked["id"], accepted)).code is not None


async def test_a_person_is_asked_so_much_at_once_and_others_are_asked_all_the_same(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unqualified, "_MOST_ASKED_OF_ONE", 2)
    site = session.site
    site.house.gate.people["bob"] = BOB
    bob = await Session(site, "bob").begin({"elicitation": {}})
    streams = [Stream(await session.ask(search())) for _ in range(2)]
    for stream in streams:
        assert (await stream.next())["method"] == "elicitation/create"
    third = await session.ask(search())
    assert isinstance(third.body, bytes)  # it is told the names, and asks nobody
    assert len(namesakes(await Seen.of(third))) == 2
    others = Stream(await bob.ask(search()))
    assert (await others.next())["method"] == "elicitation/create"
    await streams[0].aclose()
    again = Stream(await session.ask(search()))
    assert (await again.next())["method"] == "elicitation/create"
    for stream in (streams[1], others, again):
        await stream.aclose()


async def test_of_calls_at_once_no_more_are_asked_about_than_may_wait(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unqualified, "_MOST_ASKED_OF_ONE", 1)
    first, second = [Stream(await session.ask(search())) for _ in range(2)]
    assert (await first.next())["method"] == "elicitation/create"
    refusal = (await second.next())["result"]["_meta"][REFUSAL_KEY]
    assert refusal["code"] == "unknown_tool"
    assert len(session.site.aggregate._unqualified._asked) == 1
    await first.aclose()


async def test_a_user_who_never_answers_is_not_waited_for_for_ever(session: Session) -> None:
    session.site.aggregate._unqualified._patience_s = 0.01
    stream = Stream(await session.ask(search()))
    await stream.next()
    assert (await stream.next())["result"]["isError"]


async def test_a_client_that_shows_no_forms_is_told_the_names(site: Site) -> None:
    session = await Session(site).begin({})
    seen = await Seen.of(await session.ask(search()))
    assert len(namesakes(seen)) == 2


async def test_what_was_refused_is_on_record(site: Site) -> None:
    await site.ask("tools/call", search())
    last = site.house.audit.records[-1].fields
    assert (last["code"], last["target"], last["principal"]) == ("unknown_tool", "search", "alice")


@pytest.mark.parametrize(
    "kept", ["[" + "{}," * 900_000 + "{}]", '["search", ["mail"]]', "[" * 10_000]
)
async def test_what_comes_back_in_our_name_is_read_beside_the_loop_and_never_as_more_than_it_is(
    monkeypatch: pytest.MonkeyPatch, site: Site, kept: str
) -> None:
    """It is one text to whoever reads the message, so nothing has counted what is in it."""
    state = "douane-name." + base64.urlsafe_b64encode(kept.encode()).decode()
    read: set[int] = set()
    built: list[object] = []
    whole = naming.told_in

    def watched(message: Message) -> tuple[Message, naming.Told]:
        read.add(threading.get_ident())
        told = whole(message)
        built.append(told[1])
        return told

    monkeypatch.setattr(unqualified, "told_in", watched)
    seen = await site.ask("tools/call", search(requestState=state, **FORMS))
    assert namesakes(seen)
    assert built == [naming.Told(asked=True, name=None)]
    assert (threading.get_ident() in read) is (len(state) < 1_000_000)


def test_nothing_is_built_of_what_nests_in_what_comes_back_in_our_name() -> None:
    kept = b"[" + b"{}," * 900_000 + b"{}]"
    state = "douane-name." + base64.urlsafe_b64encode(kept).decode()
    message = Message(
        body=b"", form=Form.REQUEST, method="tools/call", id=1, params={"requestState": state}
    )
    tracemalloc.start()
    try:
        naming.told_in(message)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 4 * len(kept)
