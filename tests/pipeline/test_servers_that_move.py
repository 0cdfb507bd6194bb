"""A pin is of one server at one address: what another one shows under its name is not approved."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.audit import RecordKind
from gateway.domain.tools import Disposition, Kind, PinStatus, Profile, Sighting, Target
from tests.pipeline.house import MAIL, TOOLS, House, result
from tests.storage.memory import MemoryPinStore

SEARCH = Target(server=MAIL, kind=Kind.TOOL, name="search")
SERVER = Target(server=MAIL, kind=Kind.SERVER, name=MAIL)
ELSEWHERE = "https://other.example:443/mcp"


async def moved() -> House:
    """Approve everything, and start again with another address under the same name."""
    house = House()
    await house.approve_all()
    house.identities[MAIL] = ELSEWHERE
    return house


async def test_x02_nothing_is_called_at_a_new_address_before_anybody_looked_at_it():
    house = await moved()
    seen = await house.handle(house.call())
    assert (seen.code, house.server.saw) == ("pin_drift", [])


async def test_x02_the_same_definitions_at_a_new_address_wait_for_a_person():
    house = await moved()
    house.audit.records.clear()
    house.rule.pin = "approve"
    await house.show(*TOOLS.values())
    pin = house.pins.find(SEARCH, Profile.MODERN)
    assert pin is not None
    assert (pin.status, pin.observed.identity) == (PinStatus.DRIFTED, ELSEWHERE)
    assert [
        (r.fields["target"], r.fields["verdict"], r.fields["reasons"][1]["code"])
        for r in house.audit.records
        if r.kind is RecordKind.PIN
    ] == [("search", "hold", "moved"), ("send", "hold", "moved")]
    assert (await house.handle(house.call())).code == "pin_drift"
    await house.approve(Kind.TOOL, "search")
    assert (await house.handle(house.call())).code is None


async def test_x02_coming_back_ends_no_drift():
    house = await moved()
    await house.show(*TOOLS.values())
    house.identities[MAIL] = "https://mail.example:443/mcp"
    await house.show(*TOOLS.values())
    assert (await house.handle(house.call())).code == "pin_drift"


async def test_x02_a_store_moves_no_pin_whatever_policy_says():
    """The keeper asks nobody; a sighting that says `approve` all the same approves nothing."""
    house = await moved()
    pin = house.pins.find(SEARCH, Profile.MODERN)
    assert pin is not None
    store = MemoryPinStore(clock=house.clock, pins=[pin])
    elsewhere = replace(pin.observed, identity=ELSEWHERE)
    await store.observe(
        [Sighting(manifest=elsewhere, disposition=Disposition.APPROVE, seen_at=house.now)]
    )
    found = store.find(SEARCH, Profile.MODERN)
    assert found is not None
    assert found.status is PinStatus.DRIFTED


@pytest.mark.parametrize("method", ["tools/list", "resources/list"])
async def test_x02_what_a_new_address_lists_is_not_shown(method: str):
    house = await moved()
    items: dict[str, Any] = {"tools": list(TOOLS.values()), "resources": [{"uri": "mail://inbox"}]}
    house.server.answer = lambda permit: result(permit, items)
    seen = await house.handle(house.request(method))
    assert seen.json["result"][method.partition("/")[0]] == []


async def test_x02_instructions_of_a_new_address_are_not_served():
    house = await moved()
    house.server.answer = lambda permit: result(permit, {"instructions": "Be kind."})
    seen = await house.handle(house.request("server/discover"))
    assert seen.json["result"] == {}


async def test_a_new_release_at_the_same_address_changes_nothing():
    house = House()
    await house.approve_all()
    await house.keeper.compare(MAIL, Profile.MODERN, Kind.TOOL, list(TOOLS.values()), "2.0")
    assert (await house.handle(house.call())).code is None


async def test_capabilities_and_all_that_a_server_says_of_itself_are_pinned():
    house = House()
    await house.approve_all()
    itself = {"name": "mail", "instructions": "Be kind.", "capabilities": {"sampling": {}}}
    await house.show(itself, kind=Kind.SERVER)
    pin = house.pins.find(SERVER, Profile.MODERN)
    assert pin is not None
    assert pin.status is PinStatus.DRIFTED
