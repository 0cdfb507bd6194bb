"""Who has waited in vain for a server's list waits hardly at all the next time, and nobody else does."""

import asyncio
from dataclasses import replace

import pytest

from gateway.builtin import waits as waits_module
from gateway.builtin.waits import Waits
from gateway.domain.calls import Permit, RawAnswer
from gateway.domain.identity import BearerToken
from tests.builtin.front import NOTES, Site
from tests.builtin.test_between_families import with_resources
from tests.pipeline.house import ALICE, MAIL, House

CALL = House().call()
ELSE = replace(CALL, credential=BearerToken(text="another"))


def test_a_wait_in_vain_is_followed_by_rests_and_short_waits() -> None:
    waits = Waits()
    assert waits.longest_s(CALL, MAIL, 0) == 10
    for now, rest in ((10, 5), (16, 10), (27, 20), (48, 40), (89, 60), (150, 60)):
        waits.in_vain(CALL, MAIL, now)
        assert waits.longest_s(CALL, MAIL, now) == 0
        assert waits.longest_s(CALL, MAIL, now + rest - 0.1) == 0
        assert waits.longest_s(CALL, MAIL, now + rest) == 1
    assert waits.longest_s(CALL, MAIL, 610) == 10
    waits.in_vain(CALL, MAIL, 620)
    assert waits.longest_s(CALL, MAIL, 625) == 1


def test_of_several_waits_at_once_one_counts() -> None:
    waits = Waits()
    for now in (10, 11, 12):
        waits.in_vain(CALL, MAIL, now)
    assert waits.longest_s(CALL, MAIL, 15) == 1


def test_an_answer_in_time_ends_it() -> None:
    waits = Waits()
    waits.in_vain(CALL, MAIL, 10)
    waits.answered(CALL, MAIL)
    assert waits.longest_s(CALL, MAIL, 10) == 10


def test_it_holds_for_that_caller_and_that_server_alone() -> None:
    waits = Waits()
    waits.in_vain(CALL, MAIL, 10)
    assert waits.longest_s(ELSE, MAIL, 10) == waits.longest_s(CALL, NOTES, 10) == 10


def test_no_more_is_kept_than_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits_module, "_MOST", 1)
    waits = Waits()
    for call in (CALL, ELSE):
        waits.in_vain(call, MAIL, 10)
    assert (waits.longest_s(CALL, MAIL, 10), waits.longest_s(ELSE, MAIL, 10)) == (10, 0)


async def test_a_server_that_hangs_is_left_out_of_the_next_list_unasked_until_it_is_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waits_module, "_WHOLE_S", 0.5)
    site = await Site().furnish()
    site.house.gate.people["bob"] = replace(ALICE, subject="bob")
    for server, uri in ((MAIL, "m:1"), (NOTES, "n:1")):
        site.servers[server].answer = with_resources({None: ([uri], None)})
    well, asked = site.servers[MAIL].forward, []

    async def hangs(permit: Permit) -> RawAnswer:
        asked.append(permit.principal.subject)
        await asyncio.Event().wait()
        raise AssertionError

    async def uris(who: str) -> list[str]:
        listed = (await site.ask("resources/list", who=who)).json["result"]["resources"]
        return [one["uri"] for one in listed]

    monkeypatch.setattr(site.servers[MAIL], "forward", hangs)
    for _ in range(3):
        assert await uris("alice") == ["douane://notes/n:1"]
    assert asked == ["alice"]
    assert await uris("bob") == ["douane://notes/n:1"]
    assert asked == ["alice", "bob"]
    monkeypatch.setattr(site.servers[MAIL], "forward", well)
    assert await uris("alice") == ["douane://notes/n:1"]
    monkeypatch.setattr(waits_module, "_FORGOTTEN_S", 0.0)
    monkeypatch.setattr(waits_module, "_WHOLE_S", 10.0)
    assert await uris("alice") == ["douane://mail/m:1", "douane://notes/n:1"]
    monkeypatch.undo()
    assert await uris("alice") == ["douane://mail/m:1", "douane://notes/n:1"]
    await site.aclose()
