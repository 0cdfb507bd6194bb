"""What `/mcp` says by itself: what has changed for its caller, and nothing else."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from gateway.builtin import mailbox
from gateway.domain.calls import Form
from gateway.domain.decisions import Verdict
from gateway.domain.tools import Kind, Profile, Target
from gateway.errors import PolicyUnavailable
from tests.builtin.front import NOTES, Site, tool
from tests.builtin.listening import (
    ACKNOWLEDGED,
    LEGACY,
    TAG,
    Listener,
    listening,
    settled,
    subscribing,
    told,
)
from tests.pipeline.house import ALICE

TOOLS_CHANGED = "notifications/tools/list_changed"
PROMPTS_CHANGED = "notifications/prompts/list_changed"
RESOURCES_CHANGED = "notifications/resources/list_changed"
EVERYTHING = {
    "toolsListChanged": True,
    "promptsListChanged": True,
    "resourcesListChanged": True,
}
BOB = replace(ALICE, subject="bob", client_id="other", token_id="t2")


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = await Site().furnish()
    made.house.gate.people["bob"] = BOB
    yield made
    await made.aclose()


async def new_tool(site: Site, name: str = "another") -> None:
    await site.show(NOTES, tool(name))
    await told(site)


async def test_a_session_is_told_that_its_tools_have_changed_and_only_these(site: Site) -> None:
    async with listening(site) as one:
        assert one.heard == []
        await new_tool(site)
        assert one.heard == [{"jsonrpc": "2.0", "method": TOOLS_CHANGED}]
        await told(site)
        assert len(one.heard) == 1


async def test_a_stream_of_the_stateless_revision_says_first_what_it_will_tell(site: Site) -> None:
    async with subscribing(site, EVERYTHING) as one:
        await new_tool(site)
        acknowledged, changed = one.heard
        assert acknowledged["method"] == ACKNOWLEDGED
        assert acknowledged["params"] == {"notifications": EVERYTHING, "_meta": {TAG: 7}}
        assert (changed["method"], changed["params"]) == (TOOLS_CHANGED, {"_meta": {TAG: 7}})


async def test_nothing_is_told_that_was_not_asked_for(site: Site) -> None:
    async with subscribing(site, {"promptsListChanged": True, "toolsListChanged": "yes"}) as one:
        await new_tool(site)
        assert one.methods == [ACKNOWLEDGED]
        await site.show(NOTES, {"name": "prompt"}, kind=Kind.PROMPT)
        await told(site)
        assert one.methods == [ACKNOWLEDGED, PROMPTS_CHANGED]
        template = {"name": "t", "uriTemplate": "x://{y}"}
        await site.show(NOTES, template, kind=Kind.TEMPLATE)
        await told(site)
        assert len(one.heard) == 2


async def test_a_template_is_a_change_of_resources(site: Site) -> None:
    async with listening(site) as one:
        await site.show(NOTES, {"name": "t", "uriTemplate": "x://{y}"}, kind=Kind.TEMPLATE)
        await told(site)
        assert one.methods == [RESOURCES_CHANGED]


@pytest.mark.parametrize("change", ["revoked", "drifted", "hidden", "reworded"])
async def test_whatever_takes_a_tool_away_or_changes_it_is_told(site: Site, change: str) -> None:
    async with listening(site) as one:
        match change:
            case "revoked":
                target = Target(server=NOTES, kind=Kind.TOOL, name="read")
                await site.house.pins.revoke(target, Profile.LEGACY, by="bob", note="")
            case "drifted":
                await site.show(NOTES, tool("read", description="Changed."), approve=False)
            case "hidden":
                site.house.rule.digest = "sha256:other"
                site.house.rule.says = lambda question: (
                    Verdict.DENY if question["target"]["name"] == "read" else Verdict.ALLOW
                )
            case _:
                await site.show(NOTES, tool("read", description="Changed."))
        await told(site)
        assert one.methods == [TOOLS_CHANGED]


@pytest.mark.parametrize("hidden", [["notes"], ["*"]])
async def test_a_session_in_which_servers_are_chosen_is_told_and_no_other(
    site: Site, hidden: list[str]
) -> None:
    site.house.gate.people["alice"] = replace(ALICE, scopes=ALICE.scopes | {"servers:manage"})
    chosen = {"name": "disable_server", "arguments": {"servers": hidden}}
    async with listening(site) as one, listening(site, session="e.2") as other:
        await site.ask("tools/call", chosen, session="e.1", **LEGACY)
        await told(site)
        assert one.methods == [TOOLS_CHANGED, PROMPTS_CHANGED, RESOURCES_CHANGED]
        assert other.methods == []
        again = {"name": "enable_server", "arguments": {"servers": hidden}}
        await site.ask("tools/call", again, session="e.1", **LEGACY)
        await told(site)
        assert len(one.methods) == 6
        assert other.methods == []


async def test_without_a_session_whoever_listens_is_told_what_is_chosen(site: Site) -> None:
    site.house.gate.people["alice"] = replace(ALICE, scopes=ALICE.scopes | {"servers:manage"})
    async with subscribing(site, {"toolsListChanged": True}) as one:
        chosen = {"name": "disable_server", "arguments": {"servers": ["notes"]}}
        await site.ask("tools/call", chosen)
        await told(site)
        assert one.methods == [ACKNOWLEDGED, TOOLS_CHANGED]


async def test_what_changes_nothing_for_a_principal_is_not_told_to_it(site: Site) -> None:
    site.house.rule.says = lambda question: (
        Verdict.DENY
        if question["target"]["name"] == "secret" and question["principal"]["sub"] == "alice"
        else Verdict.ALLOW
    )
    async with listening(site) as alice, listening(site, who="bob") as bob:
        await new_tool(site, "secret")
        assert (alice.methods, bob.methods) == ([], [TOOLS_CHANGED])
        await site.show(NOTES, tool("waits"), approve=False)
        site.house.rule.digest = "sha256:other"
        await told(site)
        assert (alice.methods, bob.methods) == ([], [TOOLS_CHANGED])


async def test_what_a_token_may_not_list_is_not_told(site: Site) -> None:
    site.house.gate.people["alice"] = replace(ALICE, scopes=frozenset({"prompts"}))
    async with listening(site) as one:
        await new_tool(site)
        await site.show(NOTES, {"name": "prompt"}, kind=Kind.PROMPT)
        await told(site)
        assert one.methods == [PROMPTS_CHANGED]


async def test_whoever_holds_no_token_any_more_is_told_nothing_more(site: Site) -> None:
    async with listening(site) as one, subscribing(site, EVERYTHING) as other:
        del site.house.gate.people["alice"]
        await new_tool(site)
        assert one.ended.is_set()
        assert one.heard == []
        assert other.methods == [ACKNOWLEDGED, "response"]


async def test_a_stream_is_told_what_its_token_may_see_by_now(site: Site) -> None:
    async with listening(site) as one:
        site.house.gate.people["alice"] = replace(ALICE, scopes=frozenset({"prompts"}))
        await new_tool(site)
        assert one.heard == []
        site.house.gate.people["alice"] = BOB
        await new_tool(site, "more")
        assert one.ended.is_set()
        assert one.heard == []


async def test_a_stream_ends_in_good_order_for_a_client_without_sessions(site: Site) -> None:
    async with subscribing(site, {}, id_="x") as one:
        del site.house.gate.people["alice"]
        await new_tool(site)
        result = {"resultType": "complete", "_meta": {TAG: "x"}}
        assert one.heard[-1] == {"jsonrpc": "2.0", "id": "x", "result": result}


async def test_no_call_tells_anybody_anything(site: Site) -> None:
    async with listening(site) as one, subscribing(site, EVERYTHING) as other:
        await site.ask("tools/call", {"name": "mail__search", "arguments": {}})
        await site.ask("tools/list")
        await site.ask("tools/list", session="e.1", **LEGACY)
        await told(site)
        assert (one.heard, other.methods) == ([], [ACKNOWLEDGED])


async def test_while_nobody_knows_what_may_be_told_nothing_is(site: Site) -> None:
    async with listening(site) as one:
        says = site.house.rule.says
        site.house.rule.says = unavailable
        await new_tool(site)
        assert one.heard == []
        site.house.rule.says = says
        await told(site)
        assert one.methods == [TOOLS_CHANGED]


def unavailable(question: Any) -> Verdict:
    raise PolicyUnavailable("no answer")


async def test_a_server_that_lists_other_resources_is_told_to_whom_it_said_so(site: Site) -> None:
    async with listening(site) as alice, listening(site, who="bob") as bob:
        site.followers.relisted(NOTES, ALICE.key)
        await told(site)
        assert (alice.methods, bob.methods) == ([RESOURCES_CHANGED], [])
        site.followers.relisted(NOTES, "")
        await told(site)
        assert (len(alice.heard), bob.methods) == (2, [RESOURCES_CHANGED])


async def test_of_a_server_that_is_not_shown_no_resources_change(site: Site) -> None:
    site.house.identities[NOTES] = "https://elsewhere.example:443/mcp"
    async with listening(site) as one:
        site.followers.relisted(NOTES, "")
        await told(site)
        assert one.heard == []


async def test_what_was_missed_comes_to_whoever_comes_back(site: Site) -> None:
    async with listening(site) as first:
        await new_tool(site, "one")
        primed, sent = first.ids
        assert first.raw[0] == f"id: {primed}\nretry: 1000\ndata:\n\n".encode()
    await new_tool(site, "two")
    async with listening(site, after=sent) as second:
        await told(site)
        assert second.methods == [TOOLS_CHANGED]
    async with listening(site, after=primed) as third:
        assert third.methods == [TOOLS_CHANGED] * 2
    async with listening(site) as fourth:
        assert fourth.methods == []


@pytest.mark.parametrize("after", ["", "x", "id0-0", "1", "-1", f"{'9' * 30}-1"])
async def test_an_id_that_is_none_of_the_sessions_begins_anew(site: Site, after: str) -> None:
    async with listening(site) as before, listening(site, session="e.other") as others:
        await new_tool(site)
        assert len(before.heard) == len(others.heard) == 1
    async with listening(site, after=others.ids[0]) as one:
        assert one.heard == []
    async with listening(site, after=after) as one:
        assert one.heard == []


async def test_another_principals_session_is_another_one(site: Site) -> None:
    async with listening(site) as alice:
        await new_tool(site)
    async with listening(site, who="bob", after=alice.ids[0]) as bob:
        assert bob.heard == []


async def test_a_client_of_an_earlier_revision_gets_no_empty_event(site: Site) -> None:
    call = site.call("GET", form=Form.STREAM, id_=None, session="e.1", **LEGACY)
    reply = await site.aggregate.handle(replace(call, revision="2025-06-18"))
    one = Listener(reply)
    reading = asyncio.create_task(one.read())
    await settled()
    await new_tool(site)
    assert (one.methods, len(one.raw)) == ([TOOLS_CHANGED], 1)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)


async def test_a_newer_stream_of_a_session_takes_the_place_of_the_one_before(site: Site) -> None:
    async with listening(site) as first, listening(site) as second:
        await new_tool(site)
        assert first.ended.is_set()
        assert (first.heard, second.methods) == ([], [TOOLS_CHANGED])


async def test_a_quiet_stream_is_kept_alive(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "_QUIET_S", 0.01)
    async with listening(site) as one:
        while b": still here\n\n" not in one.raw:
            await asyncio.sleep(0.01)
        await new_tool(site)
        assert one.methods == [TOOLS_CHANGED]


async def test_a_stream_without_a_session_is_refused(site: Site) -> None:
    call = site.call("GET", form=Form.STREAM, id_=None, **LEGACY)
    reply = await site.aggregate.handle(call)
    assert (reply.status, reply.code) == (400, "protocol_error")


async def test_a_session_that_has_ended_is_none_any_more(site: Site) -> None:
    await site.ask("logging/setLevel", {"level": "debug"}, session="e.1", **LEGACY)
    async with listening(site) as one, listening(site, session="e.2") as other:
        end: dict[str, Any] = {"form": Form.END, "id_": None, **LEGACY}
        ended = await site.ask("DELETE", session="e.1", **end)
        assert (ended.reply.status, ended.bytes, site.levels) == (200, b"", {})
        await told(site)
        assert (one.ended.is_set(), other.ended.is_set()) == (True, False)
        for method, form in (("DELETE", Form.END), ("GET", Form.STREAM)):
            again = await site.ask(method, form=form, id_=None, session="e.1", **LEGACY)
            assert (again.reply.status, again.reply.code) == (404, "protocol_error")
        assert (await site.ask("ping", session="e.1", **LEGACY)).reply.status == 404
        assert (await site.ask("ping", session="e.2", **LEGACY)).reply.status == 200
        assert (await site.ask("ping", session="e.1", who="bob", **LEGACY)).reply.status == 200


async def test_opening_and_closing_a_stream_is_recorded(site: Site) -> None:
    async with listening(site):
        pass
    kinds = [(r.kind.value, r.fields.get("method")) for r in site.house.audit.records[-2:]]
    assert kinds == [("intent", "GET"), ("outcome", "GET")]


async def test_a_call_to_listen_needs_a_token(site: Site) -> None:
    call = site.call("subscriptions/listen", {"notifications": EVERYTHING})
    reply = await site.aggregate.handle(replace(call, credential=None))
    assert (reply.status, reply.code) == (401, "unauthenticated")
