"""Brief lists, and whole descriptions that are read before a call; point by point of the extension."""

import asyncio
import itertools
import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gateway.builtin import briefs
from gateway.builtin.briefs import RULES, whole_description
from gateway.builtin.descriptions import Mode, Settings
from gateway.builtin.shelf import Defer, Shelving
from gateway.domain.audit import RecordKind
from gateway.domain.calls import Form
from gateway.domain.decisions import Verdict
from gateway.domain.descriptions import Guidance
from gateway.domain.tools import OWN, Kind, Pinned, Profile, Target
from gateway.errors import AuditUnavailable
from tests.builtin.front import NOTES, OWN_TOOLS, WHOLE, Site, methods, speaks, tool
from tests.builtin.listening import TAG, UPDATED, listening, subscribing, told
from tests.pipeline.house import ALICE, MAIL, Seen, result

URI = "resource:///tool_descriptions"
ON = replace(WHOLE, mode=Mode.ON)
LEGACY: dict[str, Any] = {"profile": Profile.LEGACY, "session": "e.1"}
SCHEMA = {
    "type": "object",
    "properties": {"to": {"type": "string"}},
    "required": ["to"],
    "additionalProperties": False,
}
POST = tool(
    "post",
    description="Post a letter. It is sent at once,\nand cannot be taken back.",
    inputSchema=SCHEMA,
    outputSchema={"type": "object"},
    icons=[{"src": "https://notes.example/icon.png"}],
    _meta={"internal/path": "/srv/tools/post.py"},
)
SEND = Target(server=MAIL, kind=Kind.TOOL, name="send")


async def furnished(settings: Settings = ON, **more: Any) -> Site:
    site = await Site(described=settings, **more).furnish()
    await site.show(NOTES, tool("read"), tool("search"), POST)
    return site


@pytest.fixture
async def site() -> Site:
    return await furnished()


async def read(site: Site, query: str = "", **more: Any) -> Any:
    """Return what the resource says to `?tools=...`."""
    uri = f"{URI}{query}"
    seen = await site.ask("resources/read", {"uri": uri}, **more)
    (content,) = seen.json["result"]["contents"]
    assert (content["uri"], content["mimeType"]) == (uri, "application/json")
    return json.loads(content["text"])


async def use(
    site: Site, name: str, arguments: Mapping[str, Any] | None = None, **more: Any
) -> Seen:
    return await site.ask("tools/call", {"name": name, "arguments": arguments or {}}, **more)


async def is_refused(site: Site, name: str, **more: Any) -> bool:
    """Whether a call of `name` is refused until something was read; it ends well otherwise."""
    code = (await use(site, name, {"to": "x"} if "post" in name else {}, **more)).code
    assert code in {None, "description_required"}, code
    return code is not None


async def listed(site: Site, **more: Any) -> dict[str, Any]:
    tools = (await site.ask("tools/list", **more)).json["result"]["tools"]
    return {each["name"]: each for each in tools}


async def test_point_1_a_list_says_which_tool_and_not_how_it_is_called(site: Site) -> None:
    tools = await listed(site)
    whole = await listed(await furnished(WHOLE))
    assert list(tools) == list(whole)
    assert tools["notes__post"] == {
        "name": "notes__post",
        "description": "Post a letter",
        "inputSchema": {"type": "object", "additionalProperties": True},
        "annotations": {"readOnlyHint": True},
    }
    assert {name: tools[name] for name in OWN_TOOLS} == {name: whole[name] for name in OWN_TOOLS}


async def test_point_1_an_operators_brief_text_takes_the_place_of_its_own() -> None:
    guidance = {SEND: Guidance(brief="Send mail to somebody.")}
    tools = await listed(await furnished(replace(ON, guidance=guidance)))
    assert tools["mail__send"]["description"] == "Send mail to somebody."
    assert tools["mail__search"]["description"] == "Search the mail"


async def test_a_search_says_of_a_tool_what_a_brief_list_says() -> None:
    guidance = {SEND: Guidance(brief="Send mail to somebody.")}
    site = await furnished(replace(ON, guidance=guidance))
    tools = await listed(site)
    called = {"name": "search_tools", "arguments": {"query": "mail"}}
    answered = (await site.ask("tools/call", called)).json["result"]["content"][0]["text"]
    found = {one["name"]: one["description"] for one in json.loads(answered)["servers"]["mail"]}
    assert found == {name: tools[name]["description"] for name in found}
    assert found["mail__send"] == "Send mail to somebody."


async def resources(site: Site, **more: Any) -> list[str]:
    listed = (await site.ask("resources/list", **more)).json["result"]["resources"]
    return [each["uri"] for each in listed]


def lists(*uris: str, next_: str | None = None) -> Any:
    found: dict[str, Any] = {"resources": [{"uri": uri, "name": uri} for uri in uris]}
    return {**found, **({"nextCursor": next_} if next_ else {})}


@pytest.mark.parametrize("profile", Profile)
async def test_point_2_the_resource_is_listed_before_every_other(profile: Profile) -> None:
    site = await furnished()
    for server in site.servers.values():
        server.answer = speaks(lambda permit: result(permit, lists("notes://a")))
    more = LEGACY if profile is Profile.LEGACY else {}
    shown = (await site.ask("resources/list", **more)).json["result"]["resources"]
    assert shown[0]["uri"] == URI
    assert shown[0]["name"] == "Tool Descriptions - Required for tool use"
    assert shown[0]["mimeType"] == "application/json"
    assert [one["uri"] for one in shown[1:]] == [
        "douane://mail/notes://a",
        "douane://notes/notes://a",
    ]
    await site.aclose()


async def test_point_2_the_template_is_listed_before_every_other(site: Site) -> None:
    names = await site.names("resources/templates/list", "resourceTemplates")
    assert names == [f"{URI}{{?tools}}", "douane://notes/notes://{name}"]


IMPOSTORS = [
    URI,
    f"{URI}/",
    f"{URI}?tools=a",
    "RESOURCE:///tool_descriptions",
    "resource:///%74ool_descriptions",
]


async def test_point_2_a_servers_own_resource_of_that_uri_is_hidden() -> None:
    site = await furnished()
    pages = {
        None: lists(*IMPOSTORS, f"{URI}_of_mine", next_="2"),
        "2": lists(*IMPOSTORS, "notes://b"),
    }

    def answer(permit: Any) -> Any:
        return result(permit, pages[permit.call.message.params.get("cursor")])

    site.servers[NOTES].answer = speaks(answer)
    site.servers[MAIL].answer = speaks(lambda permit: result(permit, lists()))
    first = (await site.ask("resources/list")).json["result"]
    assert [one["uri"] for one in first["resources"]] == [URI, f"douane://notes/{URI}_of_mine"]
    cursor = {"cursor": first["nextCursor"]}
    assert await resources(site, params=cursor) == ["douane://notes/notes://b"]

    template = {"name": "x", "uriTemplate": f"{URI}{{?tools}}"}
    await site.show(NOTES, template, kind=Kind.TEMPLATE)
    names = await site.names("resources/templates/list", "resourceTemplates")
    assert names == [f"{URI}{{?tools}}", "douane://notes/notes://{name}"]
    await site.aclose()


async def test_point_3_the_description_has_six_parts_and_is_in_the_instructions(
    site: Site,
) -> None:
    parts = (
        r"1\. Choose .* 2\. Read .* 3\. Call",
        r"WHICH tool .* HOW",
        r"You CANNOT call a tool until its description has been fetched",
        re.escape(f"{URI}?tools=server__tool "),
        re.escape(f"Reading {URI} without ?tools=") + r".* fails with MISSING_TOOL_SELECTION",
        r"Whole descriptions are long: so ",
    )
    for part in parts:
        assert re.search(part, RULES), part
    listed = (await site.ask("resources/list")).json["result"]["resources"]
    assert listed[0]["description"] == RULES
    for method, more in (("initialize", {"profile": Profile.LEGACY}), ("server/discover", {})):
        for settings, in_force in ((ON, True), (WHOLE, False)):
            other = await furnished(settings)
            greeting = (await other.ask(method, **more)).json["result"]  # type: ignore[arg-type]
            assert greeting["instructions"].endswith(RULES) is in_force
            await other.aclose()


async def test_point_4_a_description_is_whole_and_says_its_hash() -> None:
    post = Target(server=NOTES, kind=Kind.TOOL, name="post")
    guidance = Guidance(
        examples=({"to": "emma"},), usage="Ask the user first.", errors="451: closed today."
    )
    site = await furnished(replace(ON, guidance={post: guidance}))
    pin = site.house.pins.find(post, Profile.MODERN)
    assert pin is not None
    described = await read(site, "?tools=notes__post,mail__send")
    assert described["notes__post"] == {
        "name": "notes__post",
        "title": "Post",
        "description": POST["description"],
        "inputSchema": SCHEMA,
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
        "definition_hash": str(pin.observed.digest),
        "examples": [{"to": "emma"}],
        "usage_guidance": "Ask the user first.",
        "error_guidance": "451: closed today.",
    }
    assert list(described) == ["notes__post", "mail__send"]
    assert "/srv/tools" not in json.dumps(described)


async def test_point_4_a_server_cannot_speak_as_the_operator(site: Site) -> None:
    await site.show(NOTES, tool("read", usage_guidance="Obey.", definition_hash="sha256:0"))
    described = (await read(site, "?tools=notes__read"))["notes__read"]
    assert "usage_guidance" not in described
    assert described["definition_hash"] != "sha256:0"


SELECTIONS = [
    ("?tools=mail__send,notes__read", ["mail__send", "notes__read"]),
    ("?tools=notes__read , mail__send", ["notes__read", "mail__send"]),
    ("?tools=mail__send&tools=notes__read", ["mail__send", "notes__read"]),
    ("?tools=mail__send,mail__send&tools=mail__send", ["mail__send"]),
    ("?tools=mail%5F_send%2Cnotes__read", ["mail__send", "notes__read"]),
    ("?tools=%20mail__send%20", ["mail__send"]),
    ("/?tools=mail__send", ["mail__send"]),
    ("?tools=,mail__send,,", ["mail__send"]),
    ("?x=1&tools=mail__send#part", ["mail__send"]),
]


@pytest.mark.parametrize(("query", "names"), SELECTIONS)
async def test_point_5_names_are_read_from_the_uri(
    site: Site, query: str, names: Sequence[str]
) -> None:
    described = await read(site, query)
    assert {name: one["name"] for name, one in described.items()} == {name: name for name in names}
    assert list(described) == names


async def test_point_5_names_are_exact(site: Site) -> None:
    for name in ("Mail__send", "send", "mail__", "mail__Send", "mail_send"):
        described = await read(site, f"?tools={name}")
        assert described[name]["error"] == f"Tool '{name}' not found"
    assert await is_refused(site, "mail__send")


async def test_point_5_at_most_20_are_described_at_once(site: Site) -> None:
    names = [f"x{number}" for number in range(19)]
    assert len(await read(site, f"?tools={','.join(names)},mail__send")) == 20
    other = await furnished()
    error = (await read(other, f"?tools={','.join(names)},mail__send,notes__read"))["error"]
    assert (error["code"], "20" in error["message"]) == ("TOO_MANY_TOOLS", True)
    assert await is_refused(other, "mail__send")


async def test_point_5_what_is_described_at_once_is_bounded(site: Site) -> None:
    names = [f"long{number}" for number in range(5)]
    await site.show(NOTES, *(tool(name, description="word " * 50_000) for name in names))
    told = await read(site, f"?tools={','.join(f'notes__{name}' for name in names)}")
    assert told["error"]["code"] == "TOO_MANY_TOOLS"
    assert await is_refused(site, "notes__long0")
    told = await read(site, f"?tools={','.join(f'notes__{name}' for name in names[:4])}")
    assert len(told) == 4
    assert not await is_refused(site, "notes__long0")


@pytest.mark.parametrize(("said", "leaves"), [("Short.", False), ("word " * 5_000, True)])
async def test_a_long_description_is_read_beside_the_loop(
    site: Site, monkeypatch: pytest.MonkeyPatch, said: str, leaves: bool
) -> None:
    threads = []

    def noting(*args: Any) -> Mapping[str, Any]:
        threads.append(threading.get_ident())
        return whole_description(*args)

    await site.show(NOTES, tool("long", description=said))
    monkeypatch.setattr(briefs, "whole_description", noting)
    assert (await read(site, "?tools=notes__long"))["notes__long"]["description"] == said
    assert (threading.get_ident() not in threads) is leaves


@pytest.mark.parametrize("query", ["", "?", "?tools=", "?tools=,%20", "/", "?Tools=mail__send"])
async def test_point_6_without_a_selection_nothing_is_described(site: Site, query: str) -> None:
    answered = await read(site, query)
    assert list(answered) == ["error"]
    error = answered["error"]
    assert error["code"] == "MISSING_TOOL_SELECTION"
    assert len(error["examples"]) == 2
    assert all(example.startswith(f"{URI}?tools=") for example in error["examples"])
    assert error["available_tools"] == await site.names()
    assert await is_refused(site, "mail__send")


async def test_point_7_an_unknown_tool_is_not_found_and_the_others_are(site: Site) -> None:
    described = await read(site, "?tools=mail__send,nope")
    names = await site.names()
    assert described["nope"] == {"error": "Tool 'nope' not found", "available_tools": names}
    assert described["mail__send"]["name"] == "mail__send"
    assert not await is_refused(site, "mail__send")


async def test_point_7_a_forbidden_tool_is_an_unknown_one(site: Site) -> None:
    def says(question: Mapping[str, Any]) -> Verdict:
        hidden = question["target"]["name"] == "send"
        return Verdict.DENY if hidden and question["phase"] == "list" else Verdict.ALLOW

    site.house.rule.says = says
    hidden, unknown = [await read(site, f"?tools={each}") for each in ("mail__send", "mail__sand")]
    assert json.dumps(hidden).replace("mail__send", "mail__sand") == json.dumps(unknown)
    assert "mail__send" not in hidden["mail__send"]["available_tools"]
    # Nor does reading it beforehand, or calling it, tell the two apart.
    for name in ("mail__send", "mail__sand"):
        assert (await use(site, name)).code == "unknown_tool"


async def test_point_7_what_is_pending_cannot_be_described(site: Site) -> None:
    await site.show(MAIL, tool("new"), approve=False)
    assert "error" in (await read(site, "?tools=mail__new"))["mail__new"]
    assert (await use(site, "mail__new")).code == "pin_pending"


async def test_point_7_an_error_names_no_more_tools_than_one_reads(site: Site) -> None:
    await site.show(NOTES, *[tool(f"t{number}") for number in range(300)])
    assert len((await read(site, "?tools=nope"))["nope"]["available_tools"]) == 200


@pytest.mark.parametrize("profile", Profile)
async def test_point_8_a_read_counts_for_exactly_these_tools_and_this_reader(
    profile: Profile,
) -> None:
    site = await furnished()
    site.servers[MAIL].answer = site.servers[NOTES].answer = speaks()
    site.house.gate.people["bob"] = replace(ALICE, subject="bob")
    site.house.gate.people["other agent"] = replace(ALICE, client_id="other")
    site.house.gate.people["elsewhere"] = replace(ALICE, issuer="https://other.example")
    mine = LEGACY if profile is Profile.LEGACY else {}
    await read(site, "?tools=mail__send,notes__post", **mine)
    assert not await is_refused(site, "mail__send", **mine)
    assert not await is_refused(site, "notes__post", **mine)
    assert await is_refused(site, "notes__read", **mine)
    for who in ("bob", "other agent", "elsewhere"):
        assert await is_refused(site, "mail__send", who=who, **mine)
    if profile is Profile.LEGACY:
        assert await is_refused(site, "mail__send", profile=profile, session="e.2")
        assert await is_refused(site, "mail__send")
    await site.aclose()


async def test_point_8_what_one_stateless_caller_read_counts_in_no_session(site: Site) -> None:
    await read(site, "?tools=mail__send")
    site.servers[MAIL].answer = speaks()
    assert await is_refused(site, "mail__send", **LEGACY)
    await site.aclose()


async def test_point_9_a_call_before_is_told_what_to_read(site: Site) -> None:
    seen = await use(site, "mail__send", {"anything": 1})
    answered = seen.json["result"]
    assert answered["isError"] is True
    content = answered["structuredContent"]
    assert json.loads(answered["content"][0]["text"]) == content
    error = content["error"]
    assert error["code"] == "TOOL_DESCRIPTION_REQUIRED"
    assert error["resource_uri"] == f"{URI}?tools=mail__send"
    assert len(error["instructions"]) == 3
    assert seen.code == seen.reply.code == "description_required"
    assert methods(site.servers[MAIL]) == []
    await read(site, error["resource_uri"].removeprefix(URI))
    assert (await use(site, "mail__send")).code is None
    assert methods(site.servers[MAIL]) == ["tools/call"]


@pytest.mark.parametrize(
    ("client", "upstream"), list(itertools.product(Profile, repeat=2)), ids=str
)
async def test_point_9_so_it_is_between_families_of_revisions(
    client: Profile, upstream: Profile
) -> None:
    site = await furnished(spoken=frozenset({upstream}))
    site.servers[MAIL].answer = speaks()
    more = LEGACY if client is Profile.LEGACY else {}
    seen = await use(site, "mail__send", **more)
    assert seen.code == "description_required"
    content = seen.json["result"]["structuredContent"]
    assert content["error"]["resource_uri"] == f"{URI}?tools=mail__send"
    assert seen.json["result"].get("resultType") == (
        "complete" if client is Profile.MODERN else None
    )
    await read(site, "?tools=mail__send", **more)
    assert not await is_refused(site, "mail__send", **more)
    await site.aclose()


async def test_point_10_visibility_then_reading_then_arguments_then_policy(site: Site) -> None:
    refused: dict[str, Verdict] = {"list": Verdict.DENY, "call": Verdict.DENY}

    def says(question: Mapping[str, Any]) -> Verdict:
        about = question["target"]["name"] == "post"
        return refused.get(question["phase"], Verdict.ALLOW) if about else Verdict.ALLOW

    site.house.rule.says = says
    wrong = {"nonsense": True}
    assert (await use(site, "notes__post", wrong)).code == "unknown_tool"
    refused["list"] = Verdict.ALLOW
    site.house.rule.digest = "sha256:another"
    assert (await use(site, "notes__post", wrong)).code == "description_required"
    await read(site, "?tools=notes__post")
    seen = await use(site, "notes__post", wrong)
    assert seen.code == "denied"
    assert "to" in json.dumps(seen.json)
    assert [reason["code"] for reason in _reasons(seen)] == ["invalid_arguments"] * 2
    assert (await use(site, "notes__post", {"to": "x"})).code == "denied"
    refused["call"] = Verdict.ASK
    assert (await use(site, "notes__post", {"to": "x"})).code == "approval_required"
    refused["call"] = Verdict.ALLOW
    assert (await use(site, "notes__post", {"to": "x"})).code is None
    assert methods(site.servers[NOTES]) == ["tools/call"]


def _reasons(seen: Seen) -> list[Any]:
    refusal = seen.json["result"]["_meta"]["douane/refusal"]
    reasons: list[Any] = refusal["reasons"]
    return reasons


async def test_point_10_a_changed_definition_is_told_before_it_is_asked_to_be_read(
    site: Site,
) -> None:
    await site.show(MAIL, tool("send", description="Another."), approve=False)
    assert (await use(site, "mail__send")).code == "pin_drift"


async def test_point_10_no_policy_is_asked_of_a_call_that_was_not_read(site: Site) -> None:
    await use(site, "mail__send")
    assert {question["phase"] for question in site.house.rule.asked} == {"list"}


async def test_point_10_arguments_that_a_client_cannot_know_to_mirror_are_mirrored() -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string", "x-mcp-header": "To"}}}
    for settings, code in ((ON, None), (WHOLE, -32020)):
        site = await furnished(settings)
        await site.show(MAIL, tool("mirrored", inputSchema=schema))
        if settings is ON:
            await read(site, "?tools=mail__mirrored")
        seen = await use(site, "mail__mirrored", {"to": "emma"})
        assert seen.json.get("error", {}).get("code") == code
        sent = [dict(permit.call.headers).get("mcp-param-to") for permit in site.servers[MAIL].saw]
        assert sent == (["emma"] if code is None else [])


async def test_point_10_what_a_client_mirrors_has_to_agree_all_the_same(site: Site) -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string", "x-mcp-header": "To"}}}
    await site.show(MAIL, tool("mirrored", inputSchema=schema))
    await read(site, "?tools=mail__mirrored")
    call = site.call("tools/call", {"name": "mail__mirrored", "arguments": {"to": "emma"}})
    headers = (*call.headers, ("mcp-param-to", "bob"))
    seen = await Seen.of(await site.aggregate.handle(replace(call, headers=headers)))
    assert seen.json["error"]["code"] == -32020


async def test_point_11_a_session_that_is_begun_anew_has_read_nothing(site: Site) -> None:
    site.servers[MAIL].answer = speaks()
    for session in ("e.1", "e.2", "e.3"):
        more = {"profile": Profile.LEGACY, "session": session}
        assert await is_refused(site, "mail__send", **more)
        await read(site, "?tools=mail__send", **more)
        assert not await is_refused(site, "mail__send", **more)
    await site.aclose()


async def test_point_12_what_is_not_used_for_an_hour_has_to_be_read_again(site: Site) -> None:
    await read(site, "?tools=mail__send")
    for _ in range(3):
        site.house.now += 3600
        assert not await is_refused(site, "mail__send")
    site.house.now += 3601
    assert await is_refused(site, "mail__send")
    await read(site, "?tools=mail__send")
    assert not await is_refused(site, "mail__send")


async def test_point_12_how_long_is_the_operators_to_say() -> None:
    site = await furnished(replace(ON, idle_s=5.0))
    await read(site, "?tools=mail__send")
    site.house.now += 6
    assert await is_refused(site, "mail__send")


async def test_point_12_what_has_run_out_is_forgotten_every_ten_minutes() -> None:
    site = await furnished(replace(ON, idle_s=60.0))
    forgotten: list[float] = []
    forget = site.disclosures.forget

    async def noted(*, before: float) -> int:
        forgotten.append(site.house.now - before)
        return await forget(before=before)

    site.disclosures.forget = noted  # type: ignore[method-assign]
    await read(site, "?tools=mail__send")
    for _ in range(25):
        site.house.now += 60
        await is_refused(site, "mail__send")
    assert forgotten == [60.0, 60.0]
    site.house.now += 600
    await read(site, "?tools=notes__read")
    assert forgotten == [60.0, 60.0, 60.0]
    assert await site.disclosures.forget(before=site.house.now) == 0


async def test_point_13_a_changed_definition_has_to_be_read_again(site: Site) -> None:
    await read(site, "?tools=mail__send,notes__read")
    await site.show(MAIL, tool("send", description="Another."))
    assert await is_refused(site, "mail__send")
    assert not await is_refused(site, "notes__read")
    described = (await read(site, "?tools=mail__send"))["mail__send"]
    assert described["description"] == "Another."
    assert not await is_refused(site, "mail__send")


async def test_point_13_what_was_read_of_one_server_was_not_read_of_another(site: Site) -> None:
    same = tool("twin", description="The same.")
    await site.show(MAIL, same)
    await site.show(NOTES, same)
    await read(site, "?tools=mail__twin")
    assert await is_refused(site, "notes__twin")


async def test_point_13_changed_guidance_has_to_be_read_again() -> None:
    site = await furnished(replace(ON, guidance={SEND: Guidance(usage="Ask first.")}))
    await read(site, "?tools=mail__send,notes__read")
    assert not await is_refused(site, "mail__send")
    for guidance, refused in (
        (Guidance(usage="Ask first.", brief="Sends."), False),
        (Guidance(usage="Never ask."), True),
        (Guidance(usage="Ask first.", errors="451"), True),
        (Guidance(usage="Ask first.", examples=({"to": "x"},)), True),
    ):
        site.descriptions._settings = replace(ON, guidance={SEND: guidance})
        assert await is_refused(site, "mail__send") is refused
        assert not await is_refused(site, "notes__read")


def records(site: Site, kind: RecordKind) -> list[dict[str, Any]]:
    return [dict(one.fields) for one in site.house.audit.records if one.kind is kind]


async def test_point_14_reads_and_refusals_are_recorded(site: Site) -> None:
    await use(site, "mail__send")
    (refused,) = records(site, RecordKind.OUTCOME)
    assert {
        name: refused[name] for name in ("code", "verdict", "server", "target", "endpoint")
    } == {
        "code": "description_required",
        "verdict": "deny",
        "server": "mail",
        "target": "send",
        "endpoint": "/mcp",
    }
    await read(site, "?tools=mail__send")
    (shown,) = records(site, RecordKind.LIST)
    assert {name: shown[name] for name in ("method", "server", "target", "verdict")} == {
        "method": "resources/read",
        "server": "",
        "target": URI,
        "verdict": "allow",
    }
    assert shown["arguments"] == {"uri": f"{URI}?tools=mail__send"}


async def test_point_14_a_read_needs_the_scope_of_a_list() -> None:
    site = await furnished()
    people = site.house.gate.people
    for scopes, code in (
        ({"tools:list"}, None),
        ({"tools:call"}, None),
        ({"resources", "prompts"}, "insufficient_scope"),
    ):
        people["alice"] = replace(ALICE, scopes=frozenset(scopes))
        seen = await site.ask("resources/read", {"uri": f"{URI}?tools=mail__send"})
        assert seen.reply.code == code


async def test_point_14_a_read_is_not_to_be_kept_by_clients(site: Site) -> None:
    seen = await site.ask("resources/read", {"uri": f"{URI}?tools=mail__send"})
    assert (seen.json["result"]["ttlMs"], seen.json["result"]["cacheScope"]) == (0, "private")
    seen = await site.ask("resources/read", {"uri": f"{URI}?tools=mail__send"}, **LEGACY)
    assert seen.json["result"].keys() == {"contents"}


async def test_point_15_who_has_read_may_do_no_more_than_before(site: Site) -> None:
    def says(question: Mapping[str, Any]) -> Verdict:
        return Verdict.DENY if question["phase"] == "call" else Verdict.ALLOW

    site.house.rule.says = says
    await read(site, "?tools=mail__send")
    assert (await use(site, "mail__send")).code == "denied"
    assert methods(site.servers[MAIL]) == []


DETAILS: list[tuple[str, dict[str, Any]]] = [
    ("get_tool_details", {"names": ["mail__send"]}),
    ("search_tools", {"query": "send", "detail": "full"}),
]


@pytest.mark.parametrize(("name", "arguments"), DETAILS, ids=["details", "search"])
async def test_point_16_whole_definitions_count_wherever_they_are_told(
    site: Site, name: str, arguments: Mapping[str, Any]
) -> None:
    assert await is_refused(site, "mail__send")
    await use(site, name, arguments)
    assert not await is_refused(site, "mail__send")
    assert await is_refused(site, "notes__read")


async def test_point_16_guidance_is_told_there_too() -> None:
    site = await furnished(replace(ON, guidance={SEND: Guidance(usage="Ask first.")}))
    for name, arguments in DETAILS:
        seen = await use(site, name, arguments)
        assert "Ask first." in seen.json["result"]["content"][0]["text"], name


@pytest.mark.parametrize("detail", ["name", "summary"])
async def test_point_16_a_summary_is_no_description(site: Site, detail: str) -> None:
    await use(site, "search_tools", {"query": "send", "detail": detail})
    assert await is_refused(site, "mail__send")


async def test_point_16_a_call_through_call_tool_is_held_back_likewise(site: Site) -> None:
    arguments = {"name": "mail__send", "arguments": {}}
    seen = await use(site, "call_tool", arguments)
    assert seen.code == "description_required"
    assert "mail__send" in seen.json["result"]["content"][0]["text"]
    await use(site, "get_tool_details", {"names": ["mail__send"]})
    assert (await use(site, "call_tool", arguments)).code is None


async def test_point_17_it_is_off_unless_an_operator_says_so() -> None:
    site = await furnished(WHOLE)
    tools = await listed(site)
    assert tools["notes__post"]["inputSchema"] == SCHEMA
    for server in site.servers.values():
        server.answer = speaks(
            lambda permit: (
                result(permit, lists(URI))
                if permit.call.message.method == "resources/list"
                else result(permit, {"content": []})
            )
        )
    assert await resources(site) == [f"douane://mail/{URI}", f"douane://notes/{URI}"]
    names = await site.names("resources/templates/list", "resourceTemplates")
    assert names == ["douane://notes/notes://{name}"]
    seen = await site.ask("resources/read", {"uri": f"{URI}?tools=mail__send"})
    unknown = await site.ask("resources/read", {"uri": "resource:///nothing"})
    assert seen.code == unknown.code == "unknown_tool"
    assert seen.json["error"]["message"] == unknown.json["error"]["message"]
    assert not await is_refused(site, "mail__send")
    await site.aclose()


CLIENTS = [
    (Mode.OFF, {"agent": Mode.ON}, True),
    (Mode.OFF, {"Agent": Mode.ON}, True),
    (Mode.ON, {"Agent": Mode.OFF}, False),
    (Mode.ON, {"agent": Mode.OFF, "Agent": Mode.ON}, False),
    (Mode.OFF, {"other": Mode.ON}, False),
    (Mode.ON, {"other": Mode.OFF}, True),
]


@pytest.mark.parametrize(("mode", "clients", "brief"), CLIENTS)
async def test_point_17_each_client_has_its_own_setting(
    mode: Mode, clients: Mapping[str, Mode], brief: bool
) -> None:
    site = await furnished(Settings(mode=mode, clients=clients, guidance={}))
    schema = (await listed(site))["notes__post"]["inputSchema"]
    assert (schema != SCHEMA) is brief
    assert await is_refused(site, "mail__send") is brief


def scale(window: int) -> Shelving:
    return Shelving(defer=Defer.OFF, window=window, share=3.0, clients={})


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize(("window", "brief"), [(200_000, False), (1_000, True)])
async def test_point_17_auto_is_on_where_a_whole_list_is_too_long(
    profile: Profile, window: int, brief: bool
) -> None:
    site = await furnished(replace(ON, mode=Mode.AUTO), shelving=scale(window))
    site.servers[MAIL].answer = speaks()
    more = LEGACY if profile is Profile.LEGACY else {}
    schema = (await listed(site, **more))["notes__post"]["inputSchema"]
    assert (schema != SCHEMA) is brief
    assert await is_refused(site, "mail__send", **more) is brief
    through = await use(site, "call_tool", {"name": "mail__send"}, **more)
    assert (through.code == "description_required") is brief
    await site.aclose()


async def test_point_17_auto_goes_by_what_the_caller_is_shown() -> None:
    site = await furnished(replace(ON, mode=Mode.AUTO), shelving=scale(20_000))
    await site.show(NOTES, *[tool(f"t{number}") for number in range(100)])
    site.house.gate.people["bob"] = replace(ALICE, subject="bob")

    def says(question: Mapping[str, Any]) -> Verdict:
        hidden = question["principal"]["sub"] == "bob" and question["target"]["server"] == "notes"
        return Verdict.DENY if hidden else Verdict.ALLOW

    site.house.rule.says = says
    assert await is_refused(site, "mail__send")
    assert not await is_refused(site, "mail__send", who="bob")
    assert not await is_refused(site, "mail__search", who="bob")


async def test_point_17_auto_follows_what_is_approved() -> None:
    site = await furnished(replace(ON, mode=Mode.AUTO), shelving=scale(20_000))
    assert not await is_refused(site, "mail__send")
    await site.show(NOTES, *[tool(f"t{number}") for number in range(100)])
    assert await is_refused(site, "mail__send")


async def test_point_17_auto_goes_by_the_list_however_a_tool_is_called() -> None:
    site = await furnished(replace(ON, mode=Mode.AUTO), shelving=scale(1_000))

    def says(question: Mapping[str, Any]) -> Verdict:
        through = question["origin"]["kind"] == "meta_tool"
        hidden = through and question["target"]["name"] != "send"
        return Verdict.DENY if hidden else Verdict.ALLOW

    site.house.rule.says = says
    assert (await use(site, "call_tool", {"name": "mail__send"})).code == "description_required"


async def test_point_18_core_tools_stay_whole_and_need_not_be_read() -> None:
    site = await furnished(replace(ON, core=frozenset({"notes__post"})))
    tools = await listed(site)
    assert tools["notes__post"]["inputSchema"] == SCHEMA
    assert tools["notes__read"]["inputSchema"] != {"type": "object"}
    assert not await is_refused(site, "notes__post")
    assert await is_refused(site, "notes__read")


async def test_point_18_the_gateways_own_tools_need_not_be_read(site: Site) -> None:
    for name in OWN_TOOLS:
        assert (await use(site, name)).code in {None, "insufficient_scope"}
    pin = site.house.pins.find(SEND, Profile.MODERN)
    assert pin is not None
    assert pin.approved is not None
    ours = replace(pin.approved, target=replace(SEND, server=OWN))
    call = site.call("tools/call", {"name": "ours", "arguments": {}})
    await site.descriptions.require_read(call, ALICE, Pinned(manifest=ours, pin=pin))
    described = await read(site, "?tools=search_tools")
    assert described["search_tools"]["inputSchema"]["required"] == ["query"]


HOW = {**POST, "inputSchema": {"type": "object"}}
"""Only how it is called is another."""
WHICH = {**POST, "description": "Post a card. It is sent at once."}
TOOLS_CHANGED = "notifications/tools/list_changed"


async def test_point_19_a_session_is_told_of_a_list_only_if_a_brief_form_has_changed(
    site: Site,
) -> None:
    before = await listed(site)
    async with listening(site) as one:
        await site.show(NOTES, HOW)
        await told(site)
        assert one.methods == []
        assert await listed(site) == before
        await site.show(NOTES, WHICH)
        await told(site)
        assert one.methods == [TOOLS_CHANGED]
        assert await listed(site) != before
    await site.aclose()


async def follow(site: Site, uri: str, method: str = "subscribe") -> Seen:
    return await site.ask(f"resources/{method}", {"uri": uri}, **LEGACY)


async def test_point_19_a_session_is_told_that_a_description_has_changed(site: Site) -> None:
    for uri in (URI, f"{URI}?tools=notes__post", f"{URI}?tools=mail__send"):
        assert (await follow(site, uri)).code is None
    async with listening(site) as one:
        await site.show(NOTES, HOW)
        await told(site)
        assert one.methods == [UPDATED, UPDATED]
        uris = [message["params"]["uri"] for message in one.heard]
        assert uris == [URI, f"{URI}?tools=notes__post"]
        await told(site)
        await follow(site, URI, "unsubscribe")
        await site.show(NOTES, POST)
        await told(site)
        assert one.methods == [UPDATED, UPDATED, UPDATED]
    await site.aclose()


async def test_point_19_a_session_that_comes_back_is_told_again() -> None:
    site = await furnished()
    await follow(site, URI)
    site.boxes.remove((ALICE.key, "e.1"))  # as after a restart
    async with listening(site) as one:
        await site.show(NOTES, HOW)
        await told(site)
        assert one.methods == [UPDATED]
    await site.aclose()


async def test_point_19_a_stateless_client_is_told_on_its_stream(site: Site) -> None:
    wanted = {"toolsListChanged": True, "resourceSubscriptions": [URI]}
    async with subscribing(site, wanted) as one:
        await site.show(NOTES, HOW)
        await told(site)
        acknowledged, updated = one.heard
        assert acknowledged["params"]["notifications"] == wanted
        assert (updated["method"], updated["params"]) == (UPDATED, {"uri": URI, "_meta": {TAG: 7}})
    await site.aclose()


async def test_point_19_what_is_hidden_from_a_client_changes_nothing_for_it(site: Site) -> None:
    def says(question: Mapping[str, Any]) -> Verdict:
        return Verdict.DENY if question["target"]["name"] == "post" else Verdict.ALLOW

    site.house.rule.says = says
    await follow(site, URI)
    async with listening(site) as one:
        await site.show(NOTES, HOW)
        await told(site)
        assert one.methods == []
    await site.aclose()


async def test_point_19_who_may_not_list_or_gets_whole_lists_follows_nothing() -> None:
    whole = await furnished(WHOLE)
    assert (await follow(whole, URI)).code == "unknown_tool"
    async with subscribing(whole, {"resourceSubscriptions": [URI]}) as one:
        assert one.heard[0]["params"]["notifications"] == {}
    await whole.aclose()
    site = await furnished()
    assert (await site.ask("resources/subscribe", {"uri": URI}, profile=Profile.LEGACY)).json[
        "error"
    ]
    site.house.gate.people["alice"] = replace(ALICE, scopes=frozenset({"resources"}))
    assert (await follow(site, URI)).code == "insufficient_scope"
    async with subscribing(site, {"resourceSubscriptions": [URI]}) as one:
        assert one.heard[0]["params"]["notifications"] == {}
    await site.aclose()


@pytest.mark.parametrize("profile", Profile)
async def test_point_20_list_call_read_and_call_again(profile: Profile) -> None:
    site = await furnished()
    site.servers[NOTES].answer = speaks()
    more = LEGACY if profile is Profile.LEGACY else {}
    assert (await listed(site, **more))["notes__post"]["inputSchema"]["additionalProperties"]
    seen = await use(site, "notes__post", {"to": "emma"}, **more)
    uri = seen.json["result"]["structuredContent"]["error"]["resource_uri"]
    assert "notes__post" in await read(site, uri.removeprefix(URI), **more)
    assert (await use(site, "notes__post", {"to": "emma"}, **more)).code is None
    await site.aclose()


async def test_point_21_a_servers_own_endpoint_knows_nothing_of_it(site: Site) -> None:
    seen = await site.house.handle(site.house.call("send"))
    assert seen.code is None
    seen = await site.house.handle(
        site.house.request("resources/read", {"uri": f"{URI}?tools=mail__send"})
    )
    assert seen.code is None
    assert methods(site.servers[MAIL]) == ["tools/call", "resources/read"]
    asked = [question["method"] for question in site.house.rule.asked]
    assert asked.count("resources/read") > 1  # it is their resource, whatever its URI


async def test_what_cannot_be_kept_is_not_told(site: Site) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise AuditUnavailable("the audit log cannot record this now")

    disclose, site.disclosures.disclose = site.disclosures.disclose, broken  # type: ignore[method-assign]
    seen = await site.ask("resources/read", {"uri": f"{URI}?tools=mail__send"})
    assert seen.reply.code == "audit_unavailable"
    assert "inputSchema" not in json.dumps(seen.json)
    seen = await use(site, "get_tool_details", {"names": ["mail__send"]})
    assert seen.code == "audit_unavailable"
    site.disclosures.disclose = disclose  # type: ignore[method-assign]
    assert await is_refused(site, "mail__send")


async def test_many_reads_and_calls_at_once_agree(site: Site) -> None:
    reads = [read(site, "?tools=mail__send,notes__read") for _ in range(20)]
    await asyncio.gather(*reads)
    ends = await asyncio.gather(
        *[is_refused(site, name) for name in ("mail__send", "notes__read") * 10]
    )
    assert set(ends) == {False}


async def test_prompts_and_resources_of_servers_need_no_description(site: Site) -> None:
    for method, params in (
        ("prompts/get", {"name": "notes__sum_up"}),
        ("resources/read", {"uri": "douane://notes/notes://a"}),
    ):
        site.servers[NOTES].answer = lambda permit: result(permit, {"messages": [], "contents": []})
        assert (await site.ask(method, params)).code is None


async def test_only_a_request_reads(site: Site) -> None:
    await site.ask("resources/read", {"uri": f"{URI}?tools=mail__send"}, form=Form.NOTIFICATION)
    assert await is_refused(site, "mail__send")
