"""How tools are searched for: as the caller says, or the operator, and the answer says how it was."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.decisions import Verdict
from gateway.domain.tools import Kind, PinStatus, Profile, Target
from gateway.search.meaning import Vectorized
from tests.builtin.front import NOTES, Site, tool
from tests.builtin.test_meta_tools import hiding, said, use
from tests.pipeline.house import ALICE
from tests.search.tools_to_find import Hashed, Remembering

EVERY_STRATEGY = ("keyword", "regex", "embedding", "hybrid", "subagent")


class Choosing:
    """Chooses what a test says, and remembers what it was asked."""

    def __init__(self, *names: str, answers: bool = True) -> None:
        self._names = names if answers else None
        self.asked: list[tuple[str, Mapping[str, str], int]] = []

    async def choose(
        self, request: str, *, tools: Mapping[str, str], limit: int
    ) -> Sequence[str] | None:
        self.asked.append((request, dict(tools), limit))
        return self._names


async def searched(site: Site, **arguments: Any) -> tuple[str, int, list[str]]:
    """Return how a search for `read` was answered, how many there are, and their names."""
    wanted = {"query": "read", "detail": "name", **arguments}
    answered = said(await use(site, "search_tools", wanted))
    names = [name for names in answered["servers"].values() for name in names]
    return answered["answered_by"], answered["found"], names


@pytest.mark.parametrize("strategy", EVERY_STRATEGY)
async def test_what_cannot_be_had_is_answered_by_keyword_and_says_so(strategy: str) -> None:
    site = await Site().furnish()
    by = "regex" if strategy == "regex" else "keyword"
    assert await searched(site, strategy=strategy) == (by, 1, ["notes__read"])


@pytest.mark.parametrize("strategy", [None, *EVERY_STRATEGY])
async def test_with_a_model_each_strategy_answers_when_it_is_asked_for(
    strategy: str | None,
) -> None:
    site = await Site(meaning=Vectorized(Hashed(), Remembering())).furnish()
    more = {} if strategy is None else {"strategy": strategy}
    assert (await searched(site, **more))[0] in {"keyword", "regex"}  # no vector is there yet
    await site.catalog.make_ready(site.offers.approved_tools())
    expected = {None: "hybrid", "subagent": "keyword"}.get(strategy, strategy)
    by, _, names = await searched(site, **more)
    assert (by, names[0]) == (expected, "notes__read")


async def test_the_operator_says_how_it_is_searched_by_default() -> None:
    meaning = Vectorized(Hashed(), Remembering())
    site = await Site(meaning=meaning, strategy="embedding").furnish()
    await site.catalog.make_ready(site.offers.approved_tools())
    assert (await searched(site))[0] == "embedding"
    assert (await searched(site, strategy="keyword"))[0] == "keyword"


async def test_what_is_listed_of_the_search_is_the_same_everywhere() -> None:
    listed = []
    for site in (
        Site(),
        Site(meaning=Vectorized(Hashed(), Remembering()), subagent=Choosing(), strategy="hybrid"),
    ):
        first = (await site.ask("tools/list")).json["result"]["tools"][0]
        assert tuple(first["inputSchema"]["properties"]["strategy"]["enum"]) == EVERY_STRATEGY
        listed.append(json.dumps(first))
    assert listed[0] == listed[1]


async def test_a_subagent_chooses_among_what_the_caller_may_see() -> None:
    subagent = Choosing("notes__search", "mail__send", "notes__read")
    site = await Site(subagent=subagent).furnish()
    site.house.rule.says = hiding("search")
    await site.show(NOTES, tool("waiting"), approve=False)
    by, count, names = await searched(site, strategy="subagent", limit=7)
    assert (by, count, names) == ("subagent", 2, ["mail__send", "notes__read"])
    assert subagent.asked == [("read", {"mail__send": "Send mail.", "notes__read": ""}, 7)]


async def test_what_is_hidden_or_changed_while_a_subagent_chooses_is_answered_as_it_is_then() -> (
    None
):
    class Slow(Choosing):
        async def choose(
            self, request: str, *, tools: Mapping[str, str], limit: int
        ) -> Sequence[str] | None:
            site.house.rule.digest = "sha256:meanwhile"
            site.house.rule.says = hiding("search")
            await site.show(NOTES, tool("read", description="Read it anew."), tool("later"))
            return ["notes__search", "notes__read", "notes__later"]

    site = await Site(subagent=Slow()).furnish()
    wanted = {"query": "read", "strategy": "subagent"}
    answered = said(await use(site, "search_tools", wanted))
    assert answered["found"] == 1
    assert answered["servers"] == {
        "notes": [{"name": "notes__read", "description": "Read it anew"}]
    }


async def test_a_subagent_is_asked_only_where_it_is_named() -> None:
    subagent = Choosing("notes__read")
    site = await Site(subagent=subagent).furnish()
    for strategy in ({}, *({"strategy": one} for one in EVERY_STRATEGY if one != "subagent")):
        await searched(site, **strategy)
    assert subagent.asked == []
    site = await Site(subagent=subagent, strategy="subagent").furnish()
    assert (await searched(site))[0] == "subagent"
    assert (await searched(site, server="notes"))[0] == "subagent"
    assert sorted(subagent.asked[1][1]) == ["notes__read", "notes__search"]


async def test_without_its_answer_keyword_answers() -> None:
    subagent = Choosing(answers=False)
    meaning = Vectorized(Hashed(), Remembering())
    site = await Site(subagent=subagent, meaning=meaning, strategy="subagent").furnish()
    await site.catalog.make_ready(site.offers.approved_tools())
    assert await searched(site) == ("keyword", 1, ["notes__read"])
    assert len(subagent.asked) == 1


async def test_words_of_the_server_itself_are_searched_once_they_are_approved() -> None:
    site = await Site().furnish()
    info = {"name": "n", "title": "Aquarium", "description": "All about sharks."}
    itself = {"capabilities": {"tools": {}}, "serverInfo": info, "instructions": "Feed daily."}
    for approve in (False, True):
        await site.show(NOTES, itself, kind=Kind.SERVER, approve=approve)
        for query in ("aquarium", "sharks", "feed"):
            _, count, _ = await searched(site, query=query)
            assert count == (2 if approve else 0), query
    target = Target(server=NOTES, kind=Kind.SERVER, name=NOTES)
    for profile in Profile:
        await site.house.pins.revoke(target, profile, by="bob", note="")
    assert (await searched(site, query="aquarium"))[1] == 0


async def test_a_list_follows_what_is_approved_and_what_policy_says() -> None:
    """Lists are kept for who may see them, for as long as nothing changes."""
    site = await Site().furnish()
    assert (await searched(site))[2] == ["notes__read"]
    asked = len(site.house.rule.asked)
    assert (await searched(site))[2] == ["notes__read"]
    phases = [question["phase"] for question in site.house.rule.asked[asked:]]
    assert "list" not in phases
    await site.show(NOTES, tool("read_all"))
    assert (await searched(site))[2] == ["notes__read", "notes__read_all"]
    site.house.rule.digest = "sha256:other"
    site.house.rule.says = lambda question: (
        Verdict.DENY if question["target"]["name"] == "read" else Verdict.ALLOW
    )
    assert (await searched(site))[2] == ["notes__read_all"]


async def test_what_nobody_approved_changes_nothing_for_anybody() -> None:
    """A server shows as much of it, and as often, as it likes."""
    site = await Site().furnish()
    call = site.call("tools/list", {})
    tools, listed = site.offers.approved_tools(), await site.offers.of(call, ALICE, Kind.TOOL)
    for description in ("One.", "Another."):
        await site.show(NOTES, tool("read_all", description=description), approve=False)
        assert site.offers.approved_tools() is tools
        assert await site.offers.of(call, ALICE, Kind.TOOL) is listed
    await site.show(NOTES, tool("read_all"))
    assert len(site.offers.approved_tools()) > len(tools)
    assert len(await site.offers.of(call, ALICE, Kind.TOOL)) == len(listed) + 1


async def test_others_have_their_turn_while_much_is_offered() -> None:
    site = await Site().furnish()
    await site.show(NOTES, *(tool(f"t{number}") for number in range(500)))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    seen = [pin for pin in site.house.pins.all() if pin.target.server == NOTES]
    await site.offers._named_alone(seen, Profile.MODERN)
    beside.cancel()
    assert turns >= 7


async def test_a_list_is_not_kept_that_policy_changed_under() -> None:
    site = await Site().furnish()

    def swaps(question: Mapping[str, Any]) -> Verdict:
        site.house.rule.digest = "sha256:swapped"
        return Verdict.DENY if question["target"]["name"] == "read" else Verdict.ALLOW

    before = site.house.rule.digest
    site.house.rule.says = swaps
    assert (await searched(site))[2] == []
    site.house.rule.digest = before
    site.house.rule.says = lambda _: Verdict.ALLOW
    assert (await searched(site))[2] == ["notes__read"]


async def test_much_may_be_forgotten_while_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.pipeline.visibility._MOST_ANSWERS", 0)
    site = await Site().furnish()
    assert (await searched(site))[2] == ["notes__read"]
    await site.show(NOTES, tool("read_all"))
    assert (await searched(site))[2] == ["notes__read", "notes__read_all"]


async def test_a_list_is_kept_for_nobody_else() -> None:
    site = await Site().furnish()
    site.house.gate.people["bob"] = replace(ALICE, subject="bob", client_id="other")
    site.house.rule.says = hiding("bob")
    for who, shown in 2 * (("alice", 1), ("bob", 0)):
        answered = said(await use(site, "search_tools", {"query": "read"}, who=who))
        assert answered["found"] == shown


async def test_a_list_is_not_kept_that_pins_changed_under() -> None:
    site = await Site().furnish()
    target = Target(server=NOTES, kind=Kind.TOOL, name="read")

    def revokes(question: Mapping[str, Any]) -> Verdict:
        if question["phase"] == "list":
            for profile in Profile:
                pin = site.house.pins.find(target, profile)
                assert pin is not None
                site.house.pins._pins.put([replace(pin, status=PinStatus.REVOKED)])
            site.offers.approved_tools()  # as somebody else does meanwhile
        return Verdict.ALLOW

    site.house.rule.says = revokes
    await searched(site)
    assert "notes__read" not in await site.names()


async def test_lists_are_kept_for_so_many_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.builtin.offers._MOST_LISTS", 2)
    site = await Site().furnish()
    for who in ("alice", "bob", "carol", "dave"):
        site.house.gate.people[who] = replace(ALICE, subject=who)
        said(await use(site, "search_tools", {"query": "read"}, who=who))
    assert len(site.offers._lists) == 2
