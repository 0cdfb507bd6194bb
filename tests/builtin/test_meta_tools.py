"""The gateway's own tools: what they find is what is listed, and what they call is called."""

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.builtin.briefs import LONGEST_BRIEF
from gateway.builtin.meta_tools import DEFINITIONS
from gateway.domain.calls import OriginKind
from gateway.domain.decisions import Verdict
from gateway.domain.tools import Kind, Profile, Target
from gateway.errors import PolicyUnavailable
from tests.builtin.front import NOTES, OWN_TOOLS, Site, methods, sent, speaks, tool
from tests.builtin.test_same_path import OUTCOMES, staged, told
from tests.dlp.texts import KEY
from tests.pipeline.house import ALICE, MAIL, Seen, text

NAMES = ("mail__search", "mail__send", "notes__read", "notes__search", "notes__nope", "nope")


FOUND = "The same search finds the same. Go on with get_tool_details, then call_tool."


@pytest.fixture
async def site() -> Site:
    return await Site().furnish()


async def use(site: Site, name: str, arguments: Mapping[str, Any], **more: Any) -> Seen:
    return await site.ask("tools/call", {"name": name, "arguments": arguments}, **more)


def said(seen: Seen) -> Any:
    """Return what one of the gateway's own tools answered."""
    result = seen.json["result"]
    assert not result.get("isError"), result
    return json.loads(result["content"][0]["text"])


async def found(site: Site, query: str, **more: Any) -> list[str]:
    caller = {key: more.pop(key) for key in ("who", "profile") if key in more}
    arguments = {"query": query, "detail": "name", "limit": 50, **more}
    answered = said(await use(site, "search_tools", arguments, **caller))
    names = [name for names in answered["servers"].values() for name in names]
    assert answered["found"] == len(names)
    return names


async def detailed(site: Site, *names: str, **more: Any) -> dict[str, str]:
    """Return the hash of each of the definitions that are told."""
    answered = said(await use(site, "get_tool_details", {"names": list(names)}, **more))
    hashes = {one["definition"]["name"]: one["definition_hash"] for one in answered["tools"]}
    assert sorted([*hashes, *answered["unknown"]]) == sorted(set(names))
    return hashes


def hiding(word: str) -> Callable[[Mapping[str, Any]], Verdict]:
    def says(question: Mapping[str, Any]) -> Verdict:
        target, principal = question["target"], question["principal"]
        words = {target["name"], target["server"], principal["sub"]}
        return Verdict.DENY if word in words else Verdict.ALLOW

    return says


@pytest.mark.parametrize("profile", list(Profile))
async def test_they_are_listed_first_and_nobody_changes_them(profile: Profile) -> None:
    for site in (Site(), await Site().furnish()):
        listed = (await site.ask("tools/list", profile=profile)).json["result"]["tools"]
        assert listed[:3] == json.loads(json.dumps(DEFINITIONS))


async def test_a_list_is_told_with_the_servers_of_which_something_is_offered(site: Site) -> None:
    site.house.rule.says = hiding("notes")
    await site.ask("tools/list")
    assert site.told_lists == [("tools/list", ["mail"])]


def test_no_tool_of_a_server_can_be_called_like_them() -> None:
    assert not [name for name in OWN_TOOLS if "__" in name or "--" in name]


async def test_a_search_groups_by_server_and_says_what_answered(site: Site) -> None:
    answered = said(await use(site, "search_tools", {"query": "search"}))
    assert answered == {
        "answered_by": "keyword",
        "found": 2,
        "servers": {
            "mail": [{"name": "mail__search", "description": "Search the mail"}],
            "notes": [{"name": "notes__search", "description": "Search"}],
        },
        "next": FOUND,
    }
    by_pattern = {"query": "^NOTES r", "strategy": "regex", "detail": "name"}
    answered = said(await use(site, "search_tools", by_pattern))
    assert answered == {
        "answered_by": "regex",
        "found": 1,
        "servers": {"notes": ["notes__read"]},
        "next": FOUND,
    }


@pytest.mark.parametrize("detail", ["name", "summary", "full"])
async def test_a_host_that_asks_gets_references_beside_the_text(site: Site, detail: str) -> None:
    query = {"query": "search", "detail": detail}
    plain = (await use(site, "search_tools", {**query, "form": "text"})).json["result"]
    assert "structuredContent" not in plain
    assert (await use(site, "search_tools", query)).json["result"] == plain
    asked = (await use(site, "search_tools", {**query, "form": "tool_reference"})).json["result"]
    assert asked["content"] == plain["content"]
    assert asked["structuredContent"] == {
        "content": [
            {"type": "tool_reference", "tool_name": "notes__search"},
            {"type": "tool_reference", "tool_name": "mail__search"},
        ]
    }


async def test_references_name_only_what_the_caller_may_see_the_best_first(site: Site) -> None:
    site.house.rule.says = hiding("mail")
    await site.show(NOTES, tool("unread", description="Search what nobody has read: search."))
    asked = {"query": "search", "form": "tool_reference"}
    found = (await use(site, "search_tools", asked)).json["result"]
    references = found["structuredContent"]["content"]
    assert [one["tool_name"] for one in references] == ["notes__search", "notes__unread"]
    nothing = (await use(site, "search_tools", {**asked, "query": "giraffe"})).json["result"]
    assert nothing["structuredContent"] == {"content": []}


async def test_a_search_keeps_to_its_server_and_its_limit(site: Site) -> None:
    assert await found(site, "search", server="notes") == ["notes__search"]
    assert await found(site, "search", server="nope") == []
    few = {"query": "search", "limit": 1, "detail": "name"}
    answered = said(await use(site, "search_tools", few))
    assert (answered["found"], len(answered["servers"])) == (2, 1)


async def test_a_summary_is_short_and_details_are_what_is_listed(site: Site) -> None:
    await site.show(NOTES, tool("long", description="word " * 100))
    summary = said(await use(site, "search_tools", {"query": "word"}))["servers"]["notes"][0]
    assert 80 < len(summary["description"].encode()) <= LONGEST_BRIEF
    full = said(await use(site, "search_tools", {"query": "word", "detail": "full"}))
    details = said(await use(site, "get_tool_details", {"names": ["notes__long"]}))
    listed = (await site.ask("tools/list")).json["result"]["tools"]
    (long,) = (one for one in listed if one["name"] == "notes__long")
    target = Target(server=NOTES, kind=Kind.TOOL, name="long")
    pin = site.house.pins.find(target, Profile.MODERN)
    assert pin is not None
    told_of = {"definition": long, "definition_hash": str(pin.observed.digest)}
    assert full["servers"]["notes"] == details["tools"] == [told_of]


async def test_whole_definitions_of_an_answer_are_bounded_together(site: Site) -> None:
    """A server's may have 256 KiB each: fifty of them took half a second of everybody's to write."""
    names = [f"long{number}" for number in range(5)]
    await site.show(NOTES, *(tool(name, description="word " * 50_000) for name in names))
    public = [f"notes__{name}" for name in names]
    asked: list[tuple[str, dict[str, Any]]] = [
        ("search_tools", {"query": "word", "detail": "full", "limit": 5}),
        ("get_tool_details", {"names": public}),
    ]
    for name, arguments in asked:
        result = (await use(site, name, arguments)).json["result"]
        assert result["isError"]
        assert result["content"][0]["text"] == (
            "Whole definitions have at most 1024 KiB together; ask for fewer at once. "
            "Nothing was done; try again."
        )
    few = said(await use(site, "search_tools", {**asked[0][1], "limit": 4}))
    assert len(few["servers"]["notes"]) == 4
    assert len(await detailed(site, *public[:4])) == 4
    assert sorted(await found(site, "word")) == public


@pytest.mark.parametrize(
    ("profile", "who", "hidden"),
    list(itertools.product(Profile, ["alice", "bob"], ["nothing", "read", "mail", "alice"])),
    ids=str,
)
async def test_lists_searches_details_and_calls_agree(
    profile: Profile, who: str, hidden: str
) -> None:
    site = await Site().furnish()
    site.house.gate.people["bob"] = replace(ALICE, subject="bob", client_id="other")
    site.house.rule.says = hiding(hidden)
    for server in site.servers.values():
        server.answer = speaks()
    caller: dict[str, Any] = {"profile": profile, "who": who}
    listed = [name for name in await site.names(**caller) if name not in OWN_TOOLS]
    assert sorted(await found(site, ".", strategy="regex", **caller)) == listed
    assert sorted(await found(site, "search read send mail", **caller)) == listed
    hashes = await detailed(site, *NAMES, **caller)
    assert sorted(hashes) == listed
    for name in NAMES:
        ends = {
            (await use(site, name, {}, **caller)).code,
            (await use(site, "call_tool", {"name": name}, **caller)).code,
            (
                await use(
                    site,
                    "call_tool",
                    {"name": name, "arguments": {}, "definition_hash": hashes.get(name, "x")},
                    **caller,
                )
            ).code,
        }
        assert ends == {None if name in listed else "unknown_tool"}, name
    await site.aclose()


@pytest.mark.parametrize("state", ["pending", "drifted", "revoked"])
async def test_only_approved_definitions_are_found(site: Site, state: str) -> None:
    assert await found(site, "read") == ["notes__read"]
    match state:
        case "pending":
            await site.show(NOTES, tool("read_all"), approve=False)
            assert await found(site, "read") == ["notes__read"]
            return
        case "drifted":
            changed = tool("read", description="Changed.")
            await site.show(NOTES, changed, approve=False)
        case _:
            target = Target(server=NOTES, kind=Kind.TOOL, name="read")
            for profile in Profile:
                await site.house.pins.revoke(target, profile, by="bob", note="")
    assert await found(site, "read") == []
    assert await detailed(site, "notes__read") == {}


async def test_what_is_approved_anew_is_found_by_its_new_words(site: Site) -> None:
    assert await found(site, "giraffe") == []
    await site.show(NOTES, tool("read", description="Feeds a giraffe."))
    assert await found(site, "giraffe") == ["notes__read"]


async def test_a_hidden_tool_changes_neither_order_nor_counts(site: Site) -> None:
    await site.show(MAIL, tool("look", description="notes notes notes"))
    site.house.rule.says = hiding("look")
    hidden = said(await use(site, "search_tools", {"query": "look at notes"}))
    other = await Site().furnish()
    assert said(await use(other, "search_tools", {"query": "look at notes"})) == hidden


@pytest.mark.parametrize("name", ["search_tools", "get_tool_details"])
async def test_finding_asks_no_server_and_is_recorded_as_a_list(site: Site, name: str) -> None:
    arguments = {"query": "read"} if name == "search_tools" else {"names": ["notes__read"]}
    before = len(site.house.audit.records)
    said(await use(site, name, arguments))
    assert site.servers[MAIL].saw == site.servers[NOTES].saw == []
    records = site.house.audit.records[before:]
    assert [record.kind.value for record in records] == ["intent", "list"]
    for record in records:
        fields = record.fields
        assert (fields["server"], fields["target"], fields["arguments"]) == ("", name, arguments)


@pytest.mark.parametrize("scopes", [ALICE.scopes, frozenset[str]()])
async def test_what_is_searched_for_has_no_secret_on_record(
    site: Site, scopes: frozenset[str]
) -> None:
    site.house.gate.people["alice"] = replace(ALICE, scopes=scopes)
    before = len(site.house.audit.records)
    await use(site, "search_tools", {"query": KEY.encode().hex()})
    told = [record.fields["arguments"] for record in site.house.audit.records[before:]]
    assert told == [{"query": "[masked]"}] * len(told) != []


@pytest.mark.parametrize("name", ["search_tools", "get_tool_details"])
async def test_finding_needs_the_scope_of_lists(site: Site, name: str) -> None:
    arguments = {"query": "read"} if name == "search_tools" else {"names": ["notes__read"]}
    for scope, code in (("prompts", "insufficient_scope"), ("tools:list", None)):
        site.house.gate.people["alice"] = replace(ALICE, scopes=frozenset({scope}))
        assert (await use(site, name, arguments)).reply.code == code


async def test_nobody_finds_anything_where_policy_gives_no_answer(site: Site) -> None:
    def silent(_: Mapping[str, Any]) -> Verdict:
        raise PolicyUnavailable("nobody answers")

    site.house.rule.says = silent
    assert (await use(site, "search_tools", {"query": "read"})).code == "policy_unavailable"


WRONG: list[tuple[str, Any, str]] = [
    ("search_tools", {}, "Query must be"),
    ("search_tools", {"query": ""}, "Query must be"),
    ("search_tools", {"query": "x" * 4001}, "Query must be"),
    ("search_tools", {"query": "x", "server": 1}, "Server must be"),
    ("search_tools", {"query": "x", "detail": "all"}, "Detail must be"),
    ("search_tools", {"query": "x", "form": "xml"}, "Form must be"),
    ("search_tools", {"query": "x", "limit": 0}, "Limit must be"),
    ("search_tools", {"query": "x", "limit": 51}, "Limit must be"),
    ("search_tools", {"query": "x", "limit": True}, "Limit must be"),
    ("search_tools", {"query": "x", "strategy": "guess"}, "Strategy must be"),
    ("search_tools", {"query": "x", "more": 1}, "The arguments are query"),
    ("search_tools", {"query": "(", "strategy": "regex"}, "Not a regular expression"),
    ("get_tool_details", {}, "Names must be"),
    ("get_tool_details", {"names": []}, "Names must be"),
    ("get_tool_details", {"names": "x"}, "Names must be"),
    ("get_tool_details", {"names": [1]}, "Names must be"),
    ("get_tool_details", {"names": ["x"] * 51}, "Names must be"),
    ("get_tool_details", {"names": ["x"], "more": 1}, "The arguments are names"),
    ("call_tool", {}, "Name must be"),
    ("call_tool", {"name": ""}, "Name must be"),
    ("call_tool", {"name": 1}, "Name must be"),
    ("call_tool", {"name": "call_tool", "arguments": {"name": "x"}}, "Call_tool calls other"),
    ("call_tool", {"name": "mail__search", "arguments": []}, "Arguments must be"),
    ("call_tool", {"name": "mail__search", "definition_hash": 1}, "Definition_hash must be"),
    ("call_tool", {"name": "mail__search", "q": "x"}, "The arguments are name"),
]


@pytest.mark.parametrize(("name", "arguments", "words"), WRONG, ids=str)
async def test_wrong_arguments_are_told_what_is_wrong(
    site: Site, name: str, arguments: Any, words: str
) -> None:
    result = (await use(site, name, arguments)).json["result"]
    assert result["isError"] is True
    assert result["content"][0]["text"].startswith(words)
    assert site.servers[MAIL].saw == []


@pytest.mark.parametrize(("case", "profile"), list(itertools.product(OUTCOMES, Profile)), ids=str)
async def test_a_call_through_call_tool_ends_as_a_direct_one(case: str, profile: Profile) -> None:
    session: dict[str, Any] = {"session": "e.1"} if profile is Profile.LEGACY else {}
    ends = []
    for name in ("direct", "through"):
        site, target, arguments = await staged(case, profile)
        inner = {"name": f"mail__{target}", "arguments": arguments}
        params = inner if name == "direct" else {"name": "call_tool", "arguments": inner}
        seen = await site.ask("tools/call", params, profile=profile, **session)
        records = told(site)
        origin = OriginKind.DIRECT if name == "direct" else OriginKind.META_TOOL
        assert {fields.pop("origin", origin.value) for _, fields in records} == {origin.value}
        ends.append((seen.reply.status, seen.reply.code, seen.code, records))
        await site.aclose()
    direct, through = ends
    assert through == direct


async def test_a_call_reaches_the_server_with_all_that_came_along(site: Site) -> None:
    arguments = {"name": "mail__search", "arguments": {"q": "x"}}
    params = {"name": "call_tool", "arguments": arguments, "_meta": {"k": 1}}
    seen = await site.ask("tools/call", params, id_=7)
    (permit,) = site.servers[MAIL].saw
    assert sent(permit)["params"] == {"name": "search", "arguments": {"q": "x"}, "_meta": {"k": 1}}
    assert dict(permit.call.headers)["mcp-name"] == "search"
    assert seen.json == {"jsonrpc": "2.0", "id": 7, "result": text("hello")}


async def test_what_nobody_mirrors_is_mirrored(site: Site) -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string", "x-mcp-header": "To"}}}
    await site.show(MAIL, tool("mirrored", inputSchema=schema))
    arguments = {"name": "mail__mirrored", "arguments": {"to": "emma"}}
    assert (await use(site, "call_tool", arguments)).code is None
    (permit,) = site.servers[MAIL].saw
    assert dict(permit.call.headers)["mcp-param-to"] == "emma"


async def test_a_call_after_an_older_look_is_refused_until_it_is_looked_at_again(
    site: Site,
) -> None:
    before = (await detailed(site, "notes__read"))["notes__read"]
    await site.show(NOTES, tool("read", description="Changed."))
    arguments = {"name": "notes__read", "definition_hash": before}
    seen = await use(site, "call_tool", arguments)
    assert seen.code == "pin_drift"
    words = seen.json["result"]["content"][0]["text"]
    assert "get_tool_details" in words
    assert "person" not in words
    assert methods(site.servers[NOTES]) == []
    again = (await detailed(site, "notes__read"))["notes__read"]
    seen = await use(site, "call_tool", {**arguments, "definition_hash": again})
    assert seen.code is None
    assert methods(site.servers[NOTES]) == ["tools/call"]


async def test_that_a_definition_is_another_is_told_only_to_who_may_call_it(site: Site) -> None:
    def denies_calls(question: Mapping[str, Any]) -> Verdict:
        return Verdict.DENY if question["phase"] == "call" else Verdict.ALLOW

    site.house.rule.says = denies_calls
    arguments = {"name": "notes__read", "definition_hash": "sha256:0"}
    assert (await use(site, "call_tool", arguments)).code == "denied"


async def test_what_policy_shows_through_call_tool_it_is_asked_for_apart(site: Site) -> None:
    def says(question: Mapping[str, Any]) -> Verdict:
        through = question["origin"]["kind"] == "meta_tool"
        return Verdict.DENY if through and question["phase"] == "list" else Verdict.ALLOW

    site.house.rule.says = says
    for _ in range(2):
        assert (await use(site, "mail__search", {})).code is None
        assert (await use(site, "call_tool", {"name": "mail__search"})).code == "unknown_tool"


async def test_a_search_through_call_tool_is_a_search(site: Site) -> None:
    arguments = {"name": "search_tools", "arguments": {"query": "read", "detail": "name"}}
    answered = said(await use(site, "call_tool", arguments))
    assert answered["servers"] == {"notes": ["notes__read"]}


async def test_a_plain_name_is_found_without_a_look_at_every_pin(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looks(*_: object) -> None:
        pytest.fail("every pin was looked at")

    monkeypatch.setattr(site.house.pins, "all", looks)
    assert (await use(site, "notes__read", {})).code is None


@pytest.mark.parametrize("name", OWN_TOOLS)
async def test_at_a_server_they_are_tools_like_any_other(site: Site, name: str) -> None:
    call = site.house.request("tools/call", {"name": name, "arguments": {"query": "x"}})
    seen = await Seen.of(await site.house.pipeline.handle(call))
    assert seen.code == "unknown_tool"
