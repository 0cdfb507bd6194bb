"""What the gateway answers itself in front of all servers, in both families of revisions."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from gateway.builtin.names import public_name
from gateway.builtin.offers import Offer
from gateway.domain.audit import RecordKind
from gateway.domain.calls import Form
from gateway.domain.decisions import Verdict
from gateway.domain.document import Document
from gateway.domain.tools import OWN, Kind, Profile, Target, UpstreamId
from gateway.wire.own_abilities import abilities_of
from gateway.wire.session import unseal
from tests.builtin.front import NOTES, OWN_TOOLS, Site, tool
from tests.pipeline.house import ALICE, KEY, MAIL, TOOLS, Seen

LEGACY: dict[str, Any] = {"profile": Profile.LEGACY}
SHOWN = [*OWN_TOOLS, "mail__search", "mail__send", "notes__read", "notes__search"]


@pytest.fixture
async def site() -> Site:
    return await Site().furnish()


@pytest.mark.parametrize(
    ("proposed", "agreed"),
    [
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
    ],
)
async def test_a_session_begins_with_a_revision_that_both_know(
    site: Site, proposed: str, agreed: str
) -> None:
    seen = await site.ask("initialize", {"protocolVersion": proposed}, **LEGACY)
    result = seen.json["result"]
    assert result["protocolVersion"] == agreed
    assert result["serverInfo"]["name"] == "douane"
    assert "server__name" in result["instructions"]
    assert set(result["capabilities"]) == {
        "tools",
        "prompts",
        "resources",
        "completions",
        "logging",
    }


@pytest.mark.parametrize("profile", list(Profile))
async def test_what_is_told_without_a_call_is_declared(site: Site, profile: Profile) -> None:
    method = "initialize" if profile is Profile.LEGACY else "server/discover"
    seen = await site.ask(method, {"protocolVersion": "2025-11-25"}, profile=profile)
    capabilities = seen.json["result"]["capabilities"]
    assert capabilities["tools"] == capabilities["prompts"] == {"listChanged": True}
    assert capabilities["resources"] == {"listChanged": True, "subscribe": True}


async def test_a_session_is_sealed_and_says_what_its_client_can_do(site: Site) -> None:
    capabilities: dict[str, Any] = {
        "elicitation": {"url": {}},
        "roots": {},
        "sampling": {"tools": {}},
    }
    params = {"protocolVersion": "2025-11-25", "capabilities": capabilities}
    seen = await site.ask("initialize", params, **LEGACY)
    sealed = dict(seen.reply.headers)["mcp-session-id"]
    session = unseal(KEY, OWN, ALICE.key, sealed)
    assert set(abilities_of(session)) == set("urst")
    assert unseal(KEY, MAIL, ALICE.key, sealed) is None
    again = await site.ask("initialize", params, **LEGACY)
    assert dict(again.reply.headers)["mcp-session-id"] != sealed


async def test_a_session_of_one_server_is_none_of_the_endpoint_in_front(site: Site) -> None:
    call = site.call("ping", **LEGACY)
    relayed = site.house.request("ping", session="s", profile=Profile.LEGACY).session
    reply = await site.aggregate.handle(replace(call, session=relayed))
    assert (reply.status, reply.code) == (404, "protocol_error")


async def test_a_stateless_client_discovers_and_gets_no_session(site: Site) -> None:
    seen = await site.ask("server/discover")
    result = seen.json["result"]
    assert result["supportedVersions"] == ["2026-07-28"]
    assert (result["resultType"], result["cacheScope"]) == ("complete", "private")
    assert "mcp-session-id" not in dict(seen.reply.headers)


async def test_a_ping_is_answered_and_recorded(site: Site) -> None:
    seen = await site.ask("ping", session="e.1", id_="x", **LEGACY)
    assert seen.json == {"jsonrpc": "2.0", "id": "x", "result": {}}
    assert site.house.kinds() == ["intent", "outcome"]
    assert (site.house.last["endpoint"], site.house.last["server"]) == ("/mcp", "")


async def test_a_notification_is_taken(site: Site) -> None:
    form: dict[str, Any] = {"form": Form.NOTIFICATION, "id_": None}
    seen = await site.ask("notifications/initialized", session="e.1", **form, **LEGACY)
    assert (seen.reply.status, seen.bytes) == (202, b"")


async def test_a_method_that_is_not_offered_is_told_so(site: Site) -> None:
    seen = await site.ask("resources/unknown")
    assert (seen.reply.status, seen.json["error"]["code"]) == (404, -32601)


async def test_a_level_is_kept_for_the_session_and_an_unknown_one_is_refused(site: Site) -> None:
    seen = await site.ask("logging/setLevel", {"level": "debug"}, session="e.1", **LEGACY)
    assert (seen.json["result"], site.levels) == ({}, {"e.1": "debug"})
    seen = await site.ask("logging/setLevel", {"level": "loud"}, session="e.1", **LEGACY)
    assert (seen.json["error"]["code"], site.levels) == (-32602, {"e.1": "debug"})


async def test_nobody_without_a_token_gets_an_answer(site: Site) -> None:
    for method in ("initialize", "tools/list", "resources/list"):
        params = {"protocolVersion": "2025-11-25"}
        reply = await site.aggregate.handle(
            replace(site.call(method, params, **LEGACY), credential=None)
        )
        assert (reply.status, reply.code) == (401, "unauthenticated")
        assert "/meta/mcp" in dict(reply.headers)["www-authenticate"]
    assert site.servers[MAIL].saw == site.servers[NOTES].saw == []


async def test_a_list_needs_its_scope(site: Site) -> None:
    site.house.gate.people["alice"] = replace(ALICE, scopes=frozenset({"prompts"}))
    assert (await site.ask("tools/list")).reply.code == "insufficient_scope"
    assert (await site.ask("prompts/list")).reply.code is None


@pytest.mark.parametrize("profile", list(Profile))
async def test_all_approved_tools_are_listed_and_no_server_is_asked(
    site: Site, profile: Profile
) -> None:
    assert await site.names(profile=profile) == SHOWN
    assert site.servers[MAIL].saw == site.servers[NOTES].saw == []


async def test_a_schema_is_listed_and_told_as_hosts_can_take_it(site: Site) -> None:
    schema = {"type": "object", "additionalProperties": False, "properties": {}}
    await site.show(MAIL, tool("strict", inputSchema=schema), *TOOLS.values())
    for hosts in ((), ("gemini",)):
        site.house.portable[MAIL] = hosts
        site.offers._lists.clear()
        listed = (await site.ask("tools/list")).json["result"]["tools"]
        (found,) = [one for one in listed if one["name"] == "mail__strict"]
        assert ("additionalProperties" in found["inputSchema"]) is not bool(hosts)
        asked = {"name": "get_tool_details", "arguments": {"names": ["mail__strict"]}}
        told = (await site.ask("tools/call", asked)).json["result"]["content"][0]["text"]
        assert ("additionalProperties" in told) is not bool(hosts)


@pytest.mark.parametrize("profile", list(Profile))
async def test_who_names_streams_first_gets_even_a_list_in_one_in_a_session(
    site: Site, profile: Profile
) -> None:
    answers = []
    for accept in ("application/json, text/event-stream", "text/event-stream, application/json"):
        call = site.call("tools/list", id_=7, profile=profile)
        reply = await site.aggregate.handle(replace(call, headers=(("accept", accept),)))
        answers.append((dict(reply.headers)["content-type"], (await Seen.of(reply)).bytes))
    (kind, whole), other = answers
    assert kind == "application/json"
    streamed = ("text/event-stream", b"data: " + whole + b"\n\n")
    assert other == (streamed if profile is Profile.LEGACY else (kind, whole))
    kinds = Counter(r.kind for r in site.house.audit.records)
    assert (kinds[RecordKind.INTENT], kinds[RecordKind.LIST]) == (2, 2)


async def test_a_definition_is_the_approved_one_with_another_name(site: Site) -> None:
    odd = tool("odd", **{"$schema": "x", "x-unknown": [1, {"b": 1, "a": 2}]})
    await site.show(NOTES, odd)
    listed = {one["name"]: one for one in (await site.ask("tools/list")).json["result"]["tools"]}
    assert json.dumps(listed["notes__odd"]) == json.dumps({**odd, "name": "notes__odd"})


@pytest.mark.parametrize("wanted", ["pending", "drifted", "revoked", "elsewhere", "hidden"])
async def test_what_may_not_be_called_is_not_listed(site: Site, wanted: str) -> None:
    target = Target(server=NOTES, kind=Kind.TOOL, name="read")
    match wanted:
        case "pending":
            await site.show(NOTES, tool("new"), approve=False)
        case "drifted":
            await site.show(NOTES, tool("read", description="Changed."), approve=False)
        case "revoked":
            for profile in Profile:
                await site.house.pins.revoke(target, profile, by="bob", note="")
        case "elsewhere":
            site.house.identities[NOTES] = "https://elsewhere.example:443/mcp"
        case _:
            site.house.rule.says = lambda question: (
                Verdict.DENY if question["target"]["name"] == "read" else Verdict.ALLOW
            )
    names = await site.names()
    if wanted == "pending":
        assert names == SHOWN
    elif wanted == "elsewhere":
        assert names == [*OWN_TOOLS, "mail__search", "mail__send"]
    else:
        assert names == [name for name in SHOWN if name != "notes__read"]


async def test_a_list_is_the_same_whatever_was_called_and_however_it_was_approved(
    site: Site,
) -> None:
    first = (await site.ask("tools/list")).json["result"]
    await site.ask("tools/call", {"name": "mail__search", "arguments": {}})
    await site.ask("tools/call", {"name": "mail__nope", "arguments": {}})
    assert (await site.ask("tools/list")).json["result"] == first
    other = Site()
    await other.show(NOTES, tool("search"), tool("read"))
    await other.show(MAIL, *reversed(TOOLS.values()))
    assert (await other.ask("tools/list")).json["result"]["tools"] == first["tools"]


async def test_a_stateless_list_is_nobody_elses(site: Site) -> None:
    result = (await site.ask("tools/list")).json["result"]
    assert (result["cacheScope"], result["resultType"]) == ("private", "complete")
    assert result["ttlMs"] > 0
    assert set((await site.ask("tools/list", **LEGACY)).json["result"]) == {"tools"}


async def test_pages_hold_all_of_a_list_once() -> None:
    site = await Site(page=7).furnish()
    first = (await site.ask("tools/list")).json["result"]
    second = (await site.ask("tools/list", {"cursor": first["nextCursor"]})).json["result"]
    names = [one["name"] for one in (*first["tools"], *second["tools"])]
    assert (names, len(first["tools"]), "nextCursor" in second) == (SHOWN, 7, False)


@pytest.mark.parametrize("cursor", ["x", "", 1, "ImEi", "W10=", "////", "eyJtYWlsIjoiXHVkODAwIn0="])
@pytest.mark.parametrize("method", ["tools/list", "resources/list"])
async def test_a_cursor_that_is_not_ours_is_refused(
    site: Site, method: str, cursor: object
) -> None:
    error = (await site.ask(method, {"cursor": cursor})).json["error"]
    assert error["code"] == -32602
    assert site.servers[MAIL].saw == []


async def test_of_a_name_that_two_tools_share_neither_is_offered(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.builtin.offers._offer", _all_alike)
    assert await site.names() == [*OWN_TOOLS, "mail__search", "mail__send"]


def _all_alike(target: Target, *_: object) -> object:
    name = "same" if target.server == NOTES else public_name(target)
    text = json.dumps({"name": name})
    definition = Document(text)
    return Offer(
        id=str(target),
        target=target,
        profile=Profile.MODERN,
        definition=definition,
        name=name,
        text=text,
        looks=name,
    )


async def test_prompts_and_templates_are_listed_under_names_of_ours(site: Site) -> None:
    assert await site.names("prompts/list", "prompts") == ["notes__sum_up"]
    templates = await site.names("resources/templates/list", "resourceTemplates")
    assert templates == ["douane://notes/notes://{name}"]


async def test_a_client_of_the_older_revisions_gets_no_schema_that_it_cannot_read() -> None:
    site = await Site(spoken=frozenset({Profile.MODERN})).furnish()
    await site.show(NOTES, tool("many", outputSchema={"type": "array"}))
    for profile, members in ((Profile.LEGACY, False), (Profile.MODERN, True)):
        listed = (await site.ask("tools/list", profile=profile)).json["result"]["tools"]
        (many,) = (one for one in listed if one["name"] == "notes__many")
        assert ("outputSchema" in many) is members


async def test_the_operator_is_told_once_of_names_that_look_alike(site: Site) -> None:
    await site.show(MAIL, tool("n0tes_read"), tool("box"))
    for _ in range(2):
        await site.names()
    assert site.alike == []
    long = UpstreamId("mai")
    site.house.identities[long] = site.house.identities[NOTES]
    site.house.rules.servers[long] = site.house.rules.servers[NOTES]  # type: ignore[index]
    site.spoken[long] = frozenset(Profile)
    await site.show(long, tool("l_box"))
    for _ in range(2):
        assert {"mai__l_box", "mail__box"} <= set(await site.names())
    assert site.alike == [["mai__l_box", "mail__box"]]
