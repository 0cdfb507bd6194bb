"""Choosing servers: it narrows what policy shows, for one principal, in the conversation that asks."""

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.builtin import servers
from gateway.builtin.server_tools import DEFINITIONS
from gateway.domain.audit import RecordKind
from gateway.domain.decisions import Verdict
from gateway.domain.tools import Kind, Profile, UpstreamId
from gateway.turns import QUICK_NODES
from gateway.wire.session import unseal
from tests.builtin.front import NOTES, Site, methods, speaks, tool
from tests.builtin.test_meta_tools import hiding
from tests.pipeline.house import ALICE, KEY, MAIL, Seen

MANAGES = replace(ALICE, scopes=ALICE.scopes | {"servers:manage"})
BOB = replace(MANAGES, subject="bob")
OTHER_PROGRAM = replace(MANAGES, client_id="desktop")
LEGACY = {"profile": Profile.LEGACY}
HERE, LATER = "in_this_conversation", "in_the_next"


@pytest.fixture
async def site() -> Site:
    made = await Site().furnish()
    made.house.gate.people.update(alice=MANAGES, bob=BOB, desktop=OTHER_PROGRAM, reader=ALICE)
    return made


async def use(site: Site, name: str, arguments: Mapping[str, Any], **more: Any) -> Seen:
    return await site.ask("tools/call", {"name": name, "arguments": arguments}, **more)


async def told(site: Site, name: str, arguments: Mapping[str, Any], **more: Any) -> Any:
    result = (await use(site, name, arguments, **more)).json["result"]
    assert not result.get("isError"), result
    return json.loads(result["content"][0]["text"])


def texts_of(refused: Seen) -> Any:
    """Return what a refusal says, whatever it is an answer to."""
    told = refused.json
    return told["error"]["message"] if "error" in told else told["result"]["content"]


async def enable(site: Site, *servers: str, **more: Any) -> Any:
    return await told(site, "enable_server", {"servers": list(servers)}, **more)


async def disable(site: Site, *servers: str, **more: Any) -> Any:
    return await told(site, "disable_server", {"servers": list(servers)}, **more)


async def only(site: Site, *servers: str, **more: Any) -> Any:
    """Hide every server, and show these again."""
    await disable(site, "*", **more)
    return await enable(site, *servers, **more)


async def session(site: Site, who: str = "alice") -> str:
    """Begin a session; return our own id of it, unsealed."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}}
    reply = await site.aggregate.handle(site.call("initialize", params, who=who, **LEGACY))
    sealed = dict(reply.headers)["mcp-session-id"]
    found = unseal(KEY, UpstreamId(""), site.house.gate.people[who].key, sealed)
    assert found is not None
    return found


async def servers_seen(site: Site, **more: Any) -> set[str]:
    """Return the servers of the tools that are listed."""
    names = await site.names(**more)
    return {name.partition("__")[0] for name in names if "__" in name}


async def end_run(site: Site, who: str = "alice") -> None:
    """End the run of a principal's calls, as idle time does."""
    for run in site.house.runs.live(site.house.gate.people[who]):
        await site.house.runs.end(run)


async def test_they_are_listed_for_everybody_alike(site: Site) -> None:
    listed = (await site.ask("tools/list", who="reader")).json["result"]["tools"]
    definitions = {one["name"]: one for one in listed}
    assert [definitions[one["name"]] for one in DEFINITIONS] == json.loads(json.dumps(DEFINITIONS))


async def test_without_a_choice_all_that_policy_shows_is_there(site: Site) -> None:
    assert await servers_seen(site) == {"mail", "notes"}
    found = await told(site, "search_available_servers", {})
    assert found["found"] == 2
    assert [(one["name"], one["tools"], one[HERE], one[LATER]) for one in found["servers"]] == [
        ("mail", 2, True, True),
        ("notes", 2, True, True),
    ]


async def test_servers_are_found_by_what_they_and_their_tools_say(site: Site) -> None:
    for query, names in {
        "MAIL": ["mail"],
        "send": ["mail"],
        "read": ["notes"],
        "read search": ["notes", "mail"],
        "weather": [],
    }.items():
        found = await told(site, "search_available_servers", {"query": query})
        assert [one["name"] for one in found["servers"]] == names


@pytest.mark.parametrize("profile", list(Profile))
async def test_a_choice_holds_at_once_where_it_is_made_and_adds(
    site: Site, profile: Profile
) -> None:
    more: dict[str, Any] = {"profile": profile}
    if profile is Profile.LEGACY:
        more["session"] = await session(site)
        site.servers[NOTES].answer = speaks()
    assert await servers_seen(site, **more) == {"mail", "notes"}
    hidden = await disable(site, "*", **more)
    assert (hidden["servers"], hidden["and_later_ones"]) == ([], False)
    assert await servers_seen(site, **more) == set()
    assert (await use(site, "notes__read", {}, **more)).code == "unknown_tool"
    assert (await enable(site, "notes", **more))["servers"] == ["notes"]
    assert await servers_seen(site, **more) == {"notes"}
    assert (await use(site, "notes__read", {}, **more)).code is None
    answered = await enable(site, "mail", **more)
    assert answered["servers"] == ["mail", "notes"]
    assert "at once" in answered["from_when"]
    found = (await told(site, "search_available_servers", {}, **more))["servers"]
    assert [(one["name"], one[HERE], one[LATER]) for one in found] == [
        ("mail", True, True),
        ("notes", True, True),
    ]


async def test_who_may_choose_keeps_no_list(site: Site) -> None:
    for who, kept in {"alice": 0, "reader": 60_000}.items():
        listed = (await site.ask("tools/list", who=who)).json["result"]
        assert listed["ttlMs"] == kept


async def test_who_sees_everything_loses_nothing_by_enabling(site: Site) -> None:
    answered = await enable(site, "notes")
    assert (answered["servers"], answered["and_later_ones"]) == (["mail", "notes"], True)
    assert await servers_seen(site) == {"mail", "notes"}


async def test_other_sessions_that_are_under_way_stay_and_the_next_one_sees_what_was_chosen(
    site: Site,
) -> None:
    asks, other = await session(site), await session(site)
    await disable(site, "mail", session=asks, **LEGACY)
    assert await servers_seen(site, session=asks, **LEGACY) == {"notes"}
    assert await servers_seen(site, session=other, **LEGACY) == {"mail", "notes"}
    assert await servers_seen(site) == {"mail", "notes"}
    assert await servers_seen(site, session=await session(site), **LEGACY) == {"notes"}
    await end_run(site)
    assert await servers_seen(site) == {"notes"}


async def test_what_a_conversation_adds_it_adds_to_what_it_sees(site: Site) -> None:
    one, other = await session(site), await session(site)
    await disable(site, "*", session=one, **LEGACY)
    await disable(site, "mail", session=other, **LEGACY)
    await enable(site, "mail", session=one, **LEGACY)
    assert await servers_seen(site, session=one, **LEGACY) == {"mail"}
    assert await servers_seen(site, session=other, **LEGACY) == {"notes"}


async def test_what_is_chosen_without_a_session_changes_none(site: Site) -> None:
    other = await session(site)
    await disable(site, "mail")
    assert await servers_seen(site) == {"notes"}
    assert await servers_seen(site, session=other, **LEGACY) == {"mail", "notes"}


async def test_a_run_that_a_host_begins_after_it_sees_what_was_chosen(site: Site) -> None:
    site.house.gate.people["alice"] = replace(MANAGES, trusted_host=True)
    before = (await site.ask("douane/run/begin")).json["result"]["run"]
    asks = (await site.ask("douane/run/begin")).json["result"]["run"]
    await only(site, "mail", run=asks)
    after = (await site.ask("douane/run/begin")).json["result"]["run"]
    assert await servers_seen(site, run=before) == {"mail", "notes"}
    assert await servers_seen(site, run=asks) == {"mail"}
    assert await servers_seen(site, run=after) == {"mail"}
    assert await servers_seen(site) == {"mail", "notes"}


@pytest.mark.parametrize("profile", list(Profile))
async def test_what_the_operator_has_always_on_nobody_hides(profile: Profile) -> None:
    site = await Site(always_on=[NOTES]).furnish()
    site.house.gate.people.update(alice=MANAGES)
    more: dict[str, Any] = {"profile": profile}
    if profile is Profile.LEGACY:
        more["session"] = await session(site)
    refused = (await use(site, "disable_server", {"servers": ["mail", "notes"]}, **more)).json
    assert "always shows notes" in refused["result"]["content"][0]["text"]
    assert await servers_seen(site, **more) == {"mail", "notes"}
    assert (await disable(site, "*", **more))["servers"] == ["notes"]
    assert await servers_seen(site, **more) == {"notes"}
    assert (NOTES, MANAGES.key) not in site.ended
    found = (await told(site, "search_available_servers", {}, **more))["servers"]
    assert [(one["name"], one[LATER], one["always_on"]) for one in found] == [
        ("mail", False, False),
        ("notes", True, True),
    ]
    if profile is Profile.LEGACY:
        more["session"] = await session(site)
    assert await servers_seen(site, **more) == {"notes"}


@pytest.mark.parametrize("profile", list(Profile))
async def test_what_is_not_enabled_is_as_unknown_as_what_is_not_there(
    site: Site, profile: Profile
) -> None:
    more: dict[str, Any] = {"profile": profile}
    if profile is Profile.LEGACY:
        more["session"] = await session(site)
    await only(site, "mail", **more)
    for server in site.servers.values():
        server.saw.clear()
    kinds = {
        "tools/call": ("name", "notes__read", "notes__nope"),
        "prompts/get": ("name", "notes__sum_up", "notes__nope"),
        "resources/read": ("uri", "douane://notes/notes://a", "douane://nope/notes://a"),
    }
    for method, (member, hidden, unknown) in kinds.items():
        one, other = [await site.ask(method, {member: name}, **more) for name in (hidden, unknown)]
        assert one.code == other.code == "unknown_tool"
        assert texts_of(one) == texts_of(other)
    ref = {"type": "ref/prompt", "name": "notes__sum_up"}
    argument = {"name": "a", "value": "b"}
    asked = await site.ask("completion/complete", {"ref": ref, "argument": argument}, **more)
    assert asked.code == "unknown_tool"
    through = {"name": "notes__read", "arguments": {}}
    assert (await use(site, "call_tool", through, **more)).code == "unknown_tool"
    details = await told(site, "get_tool_details", {"names": ["notes__read"]}, **more)
    assert details["unknown"] == ["notes__read"]
    found = await told(site, "search_tools", {"query": "read search"}, **more)
    assert set(found["servers"]) == {"mail"}
    assert await site.names("prompts/list", "prompts", **more) == []
    assert await site.names("resources/templates/list", "resourceTemplates", **more) == []
    await site.ask("resources/list", **more)
    assert site.servers[NOTES].saw == []


async def test_its_own_endpoint_stays_as_it_is(site: Site) -> None:
    await only(site, "mail")
    made = site.house.request(
        "tools/call", {"name": "read", "arguments": {}}, endpoint="/mcp/notes"
    )
    seen = await Seen.of(await site.aggregate._carrier.handle(replace(made, server=NOTES)))
    assert seen.code is None
    assert methods(site.servers[NOTES])[-1] == "tools/call"


@pytest.mark.parametrize("other", ["bob", "desktop"])
async def test_a_choice_is_nobody_elses(site: Site, other: str) -> None:
    await only(site, "mail")
    for who in ("alice", "bob", "desktop"):
        await end_run(site, who)
    assert await servers_seen(site) == {"mail"}
    assert await servers_seen(site, who=other) == {"mail", "notes"}


async def test_nothing_that_policy_hides_can_be_enabled_and_it_is_told_as_unknown(
    site: Site,
) -> None:
    site.house.rule.says = hiding("notes")
    found = await told(site, "search_available_servers", {})
    assert [one["name"] for one in found["servers"]] == ["mail"]
    for tool_ in ("enable_server", "disable_server"):
        texts = []
        for name in ("notes", "weather"):
            result = (await use(site, tool_, {"servers": ["mail", name]})).json["result"]
            assert result["isError"]
            texts.append(result["content"][0]["text"].replace(name, "X"))
        assert texts[0] == texts[1]
    assert site.house.choices.of(MANAGES.key).made == ()


async def test_what_policy_hides_later_stays_hidden_whatever_was_chosen(site: Site) -> None:
    await only(site, "mail", "notes")
    site.house.rule.digest, site.house.rule.says = "sha256:other", hiding("notes")
    assert await servers_seen(site) == {"mail"}


@pytest.mark.parametrize("tools", [True, False], ids=["its-tools-do-not", "so-do-its-tools"])
async def test_a_server_that_waits_for_approval_is_not_there(site: Site, tools: bool) -> None:
    weather = UpstreamId("weather")
    site.house.identities[weather] = "https://weather.example:443/mcp"
    site.spoken[weather] = site.spoken[MAIL]
    item = {"name": "weather", "capabilities": {"tools": {}}}
    await site.show(weather, item, kind=Kind.SERVER, approve=False)
    site.house.rules.servers[weather] = site.house.rules.servers[NOTES]  # type: ignore[index]
    await site.show(weather, tool("now"), approve=tools)
    found = await told(site, "search_available_servers", {})
    assert [one["name"] for one in found["servers"]] == ["mail", "notes"]
    assert (await use(site, "enable_server", {"servers": ["weather"]})).json["result"]["isError"]


async def test_a_server_with_resources_alone_can_be_chosen_too(site: Site) -> None:
    def says(question: Mapping[str, Any]) -> Verdict:
        hidden = (
            question["target"]["server"] == "notes" and question["target"]["kind"] != "resource"
        )
        return Verdict.DENY if hidden else Verdict.ALLOW

    site.house.rule.says = says
    assert (await only(site, "notes"))["servers"] == ["notes"]


async def test_every_server_can_be_had_again_with_those_that_come_later(site: Site) -> None:
    await only(site, "mail")
    answered = await enable(site, "*")
    assert (answered["servers"], answered["and_later_ones"]) == (["mail", "notes"], True)
    await disable(site, "mail")
    assert await servers_seen(site) == {"notes"}


async def test_a_change_needs_its_scope_and_a_look_does_not(site: Site) -> None:
    for name in ("enable_server", "disable_server"):
        refused = await use(site, name, {"servers": ["mail"]}, who="reader")
        assert (refused.reply.status, refused.code) == (403, "insufficient_scope")
        assert 'scope="servers:manage"' in dict(refused.reply.headers)["www-authenticate"]
    assert (await told(site, "search_available_servers", {}, who="reader"))["found"] == 2


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"servers": []},
        {"servers": "mail"},
        {"servers": [1]},
        {"servers": ["mail", "*"]},
        {"servers": ["mail"], "why": "x"},
        {"servers": ["mail"] * 101},
    ],
)
async def test_wrong_arguments_change_nothing(site: Site, arguments: Mapping[str, Any]) -> None:
    for name in ("enable_server", "disable_server"):
        result = (await use(site, name, arguments)).json["result"]
        assert result["isError"]
        assert "Nothing was done" in result["content"][0]["text"]
    assert site.house.choices.of(MANAGES.key).made == ()


@pytest.mark.parametrize("arguments", [{"query": 1}, {"query": "x" * 1001}, {"q": "x"}])
async def test_a_search_with_wrong_arguments_is_told_what_is_wrong(
    site: Site, arguments: Mapping[str, Any]
) -> None:
    assert (await use(site, "search_available_servers", arguments)).json["result"]["isError"]


async def test_a_choice_is_recorded_before_it_is_made(site: Site) -> None:
    await enable(site, "mail")
    (record,) = [one for one in site.house.audit.records if one.kind is RecordKind.CONFIG]
    fields = record.fields
    assert (fields["principal"], fields["client"], fields["target"], fields["verdict"]) == (
        "alice",
        "agent",
        "enable_server",
        "allow",
    )
    assert fields["reasons"] == [{"code": "servers_chosen", "message": "enable mail"}]


async def test_a_choice_that_cannot_be_recorded_is_not_made(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = site.house.audit.append

    async def failing(record: Any) -> Any:
        site.house.audit.failure = "full" if record.kind is RecordKind.CONFIG else ""
        return await append(record)

    monkeypatch.setattr(site.house.audit, "append", failing)
    assert (await use(site, "enable_server", {"servers": ["mail"]})).code == "audit_unavailable"
    assert site.house.choices.of(MANAGES.key).made == ()


async def test_what_a_choice_leaves_open_with_servers_is_ended(site: Site) -> None:
    await disable(site, "notes")
    assert site.ended == [(NOTES, MANAGES.key)]
    await disable(site, "mail")
    assert site.ended[1:] == [(MAIL, MANAGES.key), (NOTES, MANAGES.key)]


async def test_of_a_long_query_the_first_words_count_and_much_is_looked_through_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch, site: Site
) -> None:
    found = (await told(site, "search_available_servers", {"query": "mail"}))["found"]
    assert found
    words = [f"x{n}" for n in range(32)]
    for query, fitting in ((words[:31], found), (words, 0)):
        asked = {"query": " ".join((*query, "mail"))}
        assert (await told(site, "search_available_servers", asked))["found"] == fitting
    seen: set[int] = set()

    def noted(*_: object) -> int:
        seen.add(threading.get_ident())
        return 0

    monkeypatch.setattr(servers, "fits", noted)
    await told(site, "search_available_servers", {"query": "mail"})
    assert seen == {threading.get_ident()}
    monkeypatch.setattr(servers, "_NODES_OF_A_TOOL", QUICK_NODES)
    await told(site, "search_available_servers", {"query": "mail"})
    assert len(seen) == 2
