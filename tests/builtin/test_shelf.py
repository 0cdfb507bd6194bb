"""What lists hold: the core first, and the rest as long as it does not cost too much."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.builtin.cursors import cursor_of
from gateway.builtin.shelf import ClientShelving, Defer, Shelving
from gateway.domain.tools import Kind, Profile, Target
from tests.builtin.front import EVERYTHING, NOTES, OWN_TOOLS, Site, tool
from tests.builtin.test_meta_tools import hiding
from tests.pipeline.house import ALICE

REST = ["mail__search", "mail__send", "notes__read", "notes__search"]
CORE = ("notes__read", "mail__send")
FIRST = [*OWN_TOOLS, *CORE]
ALL = [*FIRST, "mail__search", "notes__search"]


def shelving(defer: Defer = Defer.ON, **more: Any) -> Shelving:
    return replace(EVERYTHING, defer=defer, **{"core": CORE, **more})


async def site(given: Shelving, **more: Any) -> Site:
    return await Site(shelving=given, **more).furnish()


async def cost(**more: Any) -> int:
    """Return the tokens that all servers' tools are taken to cost at most."""
    listed = (await (await site(EVERYTHING)).ask("tools/list", **more)).json["result"]["tools"]
    texts = [
        json.dumps(one, separators=(",", ":"), ensure_ascii=False)
        for one in listed[len(OWN_TOOLS) :]
    ]
    return -(-len(",".join(texts).encode()) // 3)


@pytest.mark.parametrize("profile", list(Profile))
async def test_what_is_deferred_is_not_listed_and_the_core_is(profile: Profile) -> None:
    assert await (await site(shelving())).names(profile=profile) == FIRST
    assert await (await site(shelving(core=()))).names(profile=profile) == OWN_TOOLS


async def test_nothing_is_deferred_where_that_is_off() -> None:
    assert await (await site(EVERYTHING)).names() == [*OWN_TOOLS, *REST]
    assert await (await site(shelving(Defer.OFF, window=1, share=0.1))).names() == ALL


async def test_a_whole_list_begins_with_the_deferred_one() -> None:
    deferred = (await (await site(shelving())).ask("tools/list")).json["result"]["tools"]
    whole = (await (await site(shelving(Defer.OFF))).ask("tools/list")).json["result"]["tools"]
    assert whole[: len(deferred)] == deferred


async def test_it_is_deferred_by_itself_once_it_costs_more_than_its_share() -> None:
    tokens = await cost()
    for window, names in ((tokens * 20, ALL), (tokens * 20 - 1, FIRST)):
        given = shelving(Defer.AUTO, window=window, share=5.0)
        assert await (await site(given)).names() == names, window


async def test_what_one_may_not_see_costs_nothing() -> None:
    given = shelving(Defer.AUTO, window=await cost(), share=100.0)
    for hidden, names in (("nothing", FIRST), ("large", ALL)):
        own = await site(given)
        await own.show(NOTES, tool("large", description="x" * 3_000))
        own.house.rule.says = hiding(hidden)
        assert await own.names() == names


async def test_bytes_are_counted_and_not_characters() -> None:
    own = await site(shelving(Defer.AUTO, window=1_000, share=100.0))
    await own.show(NOTES, tool("greek", description="é" * 1_400))
    assert await own.names() == FIRST


async def test_no_call_changes_what_is_listed() -> None:
    own = await site(shelving(Defer.AUTO, window=1))
    before = (await own.ask("tools/list")).json["result"]
    for name, arguments in (
        ("search_tools", {"query": "search"}),
        ("get_tool_details", {"names": ["mail__search"]}),
        ("call_tool", {"name": "mail__search"}),
        ("mail__search", {}),
    ):
        await own.ask("tools/call", {"name": name, "arguments": arguments})
        assert (await own.ask("tools/list")).json["result"] == before


async def test_what_is_deferred_is_found_and_called_by_either_name() -> None:
    own = await site(shelving(core=()))
    query = {"name": "search_tools", "arguments": {"query": "search", "detail": "name"}}
    found = (await own.ask("tools/call", query)).json["result"]["content"][0]["text"]
    assert json.loads(found)["servers"] == {"mail": ["mail__search"], "notes": ["notes__search"]}
    through = {"name": "call_tool", "arguments": {"name": "mail__search"}}
    for params in ({"name": "mail__search"}, through):
        assert (await own.ask("tools/call", params)).code is None


@pytest.mark.parametrize(
    ("name", "defer", "names"),
    [
        ("agent", None, FIRST),
        ("Agent", Defer.OFF, ALL),
        ("agent", Defer.OFF, ALL),
        ("agent", Defer.AUTO, ALL),
    ],
    ids=str,
)
async def test_a_client_is_shown_what_is_said_of_it(
    name: str, defer: Defer | None, names: list[str]
) -> None:
    own = await site(shelving(clients={name: ClientShelving(defer=defer)}))
    own.house.gate.people["alice"] = replace(ALICE, client_id="agent", client_name="Agent")
    own.house.gate.people["bob"] = replace(ALICE, client_id="b", client_name="b")
    assert await own.names() == names
    assert await own.names(who="bob") == FIRST


async def test_a_client_has_a_window_of_its_own_and_its_id_says_more_than_its_name() -> None:
    clients = {"Agent": ClientShelving(window=1), "agent": ClientShelving(window=1_000_000)}
    own = await site(shelving(Defer.AUTO, window=1, clients=clients))
    own.house.gate.people["alice"] = replace(ALICE, client_id="agent", client_name="Agent")
    assert await own.names() == ALL
    own.house.gate.people["alice"] = replace(ALICE, client_id="other", client_name="Agent")
    assert await own.names() == FIRST


async def test_what_is_in_the_core_and_not_offered_is_left_out() -> None:
    own = await site(shelving(core=("notes__gone", "notes__read", "notes__read", "mail__send")))
    target = Target(server=NOTES, kind=Kind.TOOL, name="read")
    for profile in Profile:
        await own.house.pins.revoke(target, profile, by="bob", note="")
    assert await own.names() == [*OWN_TOOLS, "mail__send"]


async def test_the_operator_is_told_once_of_a_core_that_nobody_knows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    own = await site(shelving(core=("notes__gone", "gone", "notes__waits", *CORE)))
    await own.show(NOTES, tool("waits"), approve=False)
    for _ in range(2):
        await own.names()
    assert [record.getMessage() for record in caplog.records] == [
        "discovery.core: no tool is called notes__gone",
        "discovery.core: no tool is called gone",
    ]


async def pages(own: Site, cursor: str | None) -> Mapping[str, Any]:
    params = {} if cursor is None else {"cursor": cursor}
    result: Mapping[str, Any] = (await own.ask("tools/list", params)).json["result"]
    return result


async def test_a_list_that_began_whole_ends_whole() -> None:
    own = await site(shelving(Defer.AUTO, window=10_000, share=100.0), page=len(FIRST) + 1)
    first = await pages(own, None)
    assert [one["name"] for one in first["tools"]] == ALL[:-1]
    await own.show(NOTES, tool("zz", description="x" * 40_000))
    assert await own.names() == FIRST
    last = await pages(own, first["nextCursor"])
    assert [one["name"] for one in last["tools"]] == ["notes__search", "notes__zz"]


@pytest.mark.parametrize("defer", [Defer.ON, Defer.AUTO])
async def test_a_list_that_began_deferred_is_the_beginning_of_a_whole_one(defer: Defer) -> None:
    own = await site(shelving(defer, window=1), page=1)
    cursor = cursor_of(OWN_TOOLS[-1])
    assert [one["name"] for one in (await pages(own, cursor))["tools"]] == [CORE[0]]
    assert "nextCursor" not in await pages(own, cursor_of(CORE[0]))


@pytest.mark.parametrize("cursor", ["x", "W10=", cursor_of("notes__nope")])
async def test_a_cursor_that_is_not_ours_is_refused_where_tools_are_deferred(cursor: str) -> None:
    own = await site(shelving())
    refused = (await own.ask("tools/list", {"cursor": cursor})).json
    assert refused["error"]["code"] == -32602
