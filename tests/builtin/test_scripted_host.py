"""A host without any sense breaks each rule of finding tools, and is right one call after it read why."""

import itertools
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.builtin.advice import Advice
from gateway.builtin.spelling import parts_of
from gateway.domain.calls import Call, Reply
from gateway.domain.decisions import Verdict
from gateway.domain.scripts import InScript, Script, ScriptId
from gateway.domain.tools import Profile
from tests.builtin.front import NOTES, OWN_TOOLS, Site, methods, speaks, tool
from tests.builtin.test_meta_tools import hiding
from tests.builtin.test_shelf import shelving
from tests.pipeline.house import ALICE, MAIL, TOOLS, Seen

SCHEMA = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "times": {"type": "integer"}},
    "required": ["to", "times"],
    "additionalProperties": False,
}
VALUES = {"string": "emma", "integer": 2}
HUGE = {**SCHEMA, "description": "x" * 8_000}


NOTES_TOOLS = [tool("read"), tool("search")]


class Host:
    """Does what its script says, and after an error what the words of that error say."""

    def __init__(self, site: Site, profile: Profile, *, through: bool = False) -> None:
        self.site = site
        self.profile = profile
        self._caller: dict[str, Any] = {"profile": profile}
        if profile is Profile.LEGACY:
            self._caller["session"] = "e.1"
        self._through = through

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Seen:
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        if self._through and name not in OWN_TOOLS:
            params = {"name": "call_tool", "arguments": params}
        return await self.site.ask("tools/call", params, **self._caller)

    async def mended(self, name: str, words: str) -> Seen:
        """Make the one call that `words`, an error about a call of `name`, lead to."""
        if meant := re.search(r"(\S+) may be meant\.|These may be meant: (\S+?)[,.] ", words):
            return await self.call(meant[1] or meant[2], {})
        if schema := re.search(r"Its inputSchema is (\{.*\})", words):
            return await self.call(name, filled(json.loads(schema[1])))
        if wanted := re.search(r"get_tool_details\(names=(\[.*?\])\)", words):
            return await self.call("get_tool_details", {"names": json.loads(wanted[1])})
        assert "search_tools" in words
        return await self.call("search_tools", {"query": "read"})


def filled(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {name: VALUES[schema["properties"][name]["type"]] for name in schema["required"]}


def words_of(seen: Seen) -> str:
    result = seen.json["result"]
    assert result["isError"] is True
    return " ".join(block["text"] for block in result["content"])


async def site_of(profile: Profile, *, without: str = "") -> Site:
    """Return a site whose tools are all deferred; none of them is called `without`."""
    site = Site(shelving=shelving(core=()), spoken=frozenset({profile}))
    tools = {MAIL: [*TOOLS.values(), tool("ring", inputSchema=SCHEMA)], NOTES: NOTES_TOOLS}
    for server, definitions in tools.items():
        seen = [one for one in definitions if one["name"] != without]
        await site.show(server, *seen, profiles=frozenset({profile}))
        site.servers[server].answer = speaks()
    return site


@pytest.fixture(
    params=itertools.product(Profile, ["directly", "through"]), ids=lambda p: f"{p[0]}-{p[1]}"
)
async def host(request: pytest.FixtureRequest) -> AsyncIterator[Host]:
    profile, how = request.param
    site = await site_of(profile)
    yield Host(site, profile, through=how == "through")
    await site.aclose()


@pytest.mark.parametrize(
    "guess", ["read", "notes.read", "notes__read_it", "reads", "mail__read", "note-read!"]
)
async def test_who_guesses_a_name_is_told_which_may_be_meant(host: Host, guess: str) -> None:
    refused = await host.call(guess, {})
    assert refused.code == "unknown_tool"
    words = words_of(refused)
    assert "get_tool_details" in words
    assert "search_tools" in words
    assert (await host.mended(guess, words)).code is None
    assert methods(host.site.servers[NOTES])[-1] == "tools/call"


@pytest.mark.parametrize("guess", ["frobnicate", "__", "x" * 5_000])
async def test_who_guesses_a_name_that_is_like_none_is_told_to_search(
    host: Host, guess: str
) -> None:
    words = words_of(await host.call(guess, {}))
    assert words.endswith("Find tools with search_tools: say what is to be done.")
    assert (await host.mended(guess, words)).code is None


@pytest.mark.parametrize("arguments", [{}, {"to": "emma"}, {"to": 1, "times": 2}, {"who": "x"}])
async def test_who_calls_a_tool_unseen_is_told_its_schema(
    host: Host, arguments: dict[str, Any]
) -> None:
    refused = await host.call("mail__ring", arguments)
    assert refused.code == "denied"
    words = words_of(refused)
    assert "Do not retry" not in words
    assert (await host.mended("mail__ring", words)).code is None
    assert methods(host.site.servers[MAIL])[-1] == "tools/call"


async def test_a_schema_that_is_too_large_to_be_told_unasked_is_pointed_to(host: Host) -> None:
    large = tool("large", inputSchema=HUGE)
    await host.site.show(MAIL, large, profiles=frozenset({host.profile}))
    words = words_of(await host.call("mail__large", {}))
    assert len(words) < 1_000
    told = (await host.mended("mail__large", words)).json["result"]["content"][0]["text"]
    assert json.loads(told)["tools"][0]["definition"]["inputSchema"] == HUGE


async def test_who_repeats_a_search_is_told_that_nothing_else_will_be_found(host: Host) -> None:
    answers = [await host.call("search_tools", {"query": "read"}) for _ in range(2)]
    first, second = (one.json["result"]["content"][0]["text"] for one in answers)
    assert first == second
    told = json.loads(second)["next"]
    assert told.startswith("The same search finds the same.")
    assert "get_tool_details" in told
    assert "call_tool" in told
    nothing = await host.call("search_tools", {"query": "frobnicate"})
    answered = json.loads(nothing.json["result"]["content"][0]["text"])
    assert answered["servers"] == {}
    assert "one step in other words" in answered["next"]


async def test_who_searches_for_a_whole_task_is_told_to_take_a_step(host: Host) -> None:
    words = words_of(await host.call("search_tools", {"query": "and then read it " * 300}))
    assert words.startswith("Query must be one step")


async def test_who_asks_for_details_of_what_is_not_there_is_told_to_search(host: Host) -> None:
    for names, hint in ((["notes__nope"], True), (["notes__read"], False)):
        seen = await host.call("get_tool_details", {"names": names})
        answered = json.loads(seen.json["result"]["content"][0]["text"])
        assert ("search_tools" in answered.get("next", "")) is hint


@pytest.mark.parametrize("name", ["notes__read", "mail__send"])
@pytest.mark.parametrize("profile", list(Profile))
async def test_what_is_hidden_is_told_like_what_is_not_there(profile: Profile, name: str) -> None:
    answers = []
    inner = name.partition("__")[2]
    for without in ("", inner):
        site = await site_of(profile, without=without)
        site.house.rule.says = hiding(inner)
        seen = await Host(site, profile).call(name, {})
        answers.append((seen.code, words_of(seen)))
        await site.aclose()
    hidden_one, missing_one = answers
    assert hidden_one == missing_one
    assert hidden_one[0] == "unknown_tool"
    assert f" {name}," not in hidden_one[1]


async def test_nobody_is_told_of_another_tool_by_what_policy_hides(host: Host) -> None:
    host.site.house.rule.says = hiding("read")
    words = words_of(await host.call("notes__reading", {}))
    assert "notes__read," not in words
    assert "notes__search" in words


async def test_who_mistyped_a_name_is_told_the_near_one_alone(host: Host) -> None:
    for slip in ("notes__serach", "notes__rearch", "note__search", "notes__searh"):
        words = words_of(await host.call(slip, {}))
        assert "These may be meant: notes__search. Look" in words


async def test_looking_for_what_was_meant_is_a_call_of_the_callers_own(host: Host) -> None:
    before = len(host.site.house.audit.records)
    await host.call("notes__reads", {})
    records = host.site.house.audit.records[before:]
    assert [(record.kind.value, record.fields["target"]) for record in records] == [
        ("outcome", "reads"),
        ("intent", "search_tools"),
        ("list", "search_tools"),
    ]
    refused, *searched = (record.fields for record in records)
    assert "parent" not in refused
    assert {f"d_{fields['parent']}" for fields in searched} == {refused["decision_id"]}
    assert searched[0]["arguments"] == {
        "query": parts_of("notes__reads"),
        "limit": 50,
        "detail": "name",
        "strategy": "regex",
    }
    assert {fields.get("origin") for fields in searched} == {refused.get("origin")}


async def test_nobody_outside_is_asked_what_was_meant(host: Host) -> None:
    before = len(host.site.house.audit.records)
    await host.call("notes__nothing_like_it", {})
    records = [record.fields for record in host.site.house.audit.records[before:]]
    asked = [one["arguments"]["strategy"] for one in records if one.get("arguments", {})]
    assert list(dict.fromkeys(asked)) == ["regex", "keyword"]


async def test_who_may_call_no_more_is_told_no_names(host: Host) -> None:
    for _ in range(999):  # of a thousand in a minute
        await host.site.house.limits.take(ALICE.person)
    words = words_of(await host.call("notes__reads", {}))
    assert words.endswith("Find tools with search_tools: say what is to be done.")


def searches(host: Host) -> list[Any]:
    """Return what was looked for."""
    records = host.site.house.audit.records
    return [
        record.fields["arguments"]["query"]
        for record in records
        if record.kind.value == "intent" and record.fields["target"] == "search_tools"
    ]


async def test_what_the_refusal_names_is_not_looked_for_again(host: Host) -> None:
    words = words_of(await host.call("read", {}))
    assert "notes__read may be meant." in words
    assert words.endswith("or find others with search_tools.")
    assert searches(host) == []


async def test_a_name_without_a_letter_is_not_looked_for(host: Host) -> None:
    await host.call("--__", {})
    assert searches(host) == []


async def test_a_long_name_is_looked_for_by_its_beginning(host: Host) -> None:
    words = words_of(await host.call(f"notes__read__{'x' * 5_000}", {}))
    assert " notes__read," in words
    assert [len(query) for query in searches(host)] == [198]


async def test_a_call_that_policy_denies_is_told_no_schema(host: Host) -> None:
    host.site.house.rule.says = lambda question: (
        Verdict.DENY if question["phase"] == "call" else Verdict.ALLOW
    )
    words = words_of(await host.call("mail__ring", {"to": "emma", "times": 2}))
    assert "inputSchema" not in words
    assert "Do not retry" in words


async def test_what_passes_is_left_alone(host: Host) -> None:
    assert (await host.call("notes__read", {})).json["result"]["content"] == [
        {"type": "text", "text": "hello"}
    ]


async def test_for_a_program_nothing_is_looked_for(host: Host) -> None:
    script = Script(
        id=ScriptId("s_1"),
        principal=ALICE.key,
        sha256="0" * 64,
        grants=None,
        most=None,
        parent="d_1",
        began=0.0,
        expires_at=0.0,
    )
    call = replace(
        host.site.call("tools/call", {"name": "notes__reads"}, profile=host.profile),
        script=InScript(script=script, seq=1),
    )

    async def carries(_: Call) -> Reply:
        pytest.fail("something was looked for")

    advice = Advice(carry=carries, offers=host.site.offers, new_id=str)
    body = {"jsonrpc": "2.0", "id": 1, "result": {"content": [], "isError": True}}
    refused = Reply(status=200, headers=(), body=json.dumps(body).encode(), code="unknown_tool")
    told = await advice.added(call, refused)
    assert isinstance(told.body, bytes)
    assert b"search_tools" in told.body


async def test_the_rules_stand_where_models_read_them(host: Host) -> None:
    method = "initialize" if host.profile is Profile.LEGACY else "server/discover"
    greeting = await host.site.ask(method, profile=host.profile)
    instructions = greeting.json["result"]["instructions"]
    for rule in (
        "Your list may hold some of the tools alone.",
        "ask search_tools, once for each step and not for the whole task",
        "do not search again for what you have found",
        "Do not call a tool whose definition you have not seen",
    ):
        assert rule in instructions
    listed = (await host.site.ask("tools/list", profile=host.profile)).json["result"]["tools"]
    search, details, through = (one["description"] for one in listed[:3])
    assert "for one step of a task" in search
    assert "not again for a tool that you have seen" in search
    assert "before its first call" in details
    assert "once you have seen its definition" in through
