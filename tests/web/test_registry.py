"""Which tools count by name, and what all of them cost to read."""

import math
from typing import Any

import pytest

from gateway.domain.tools import Kind, Profile, Target, UpstreamId
from gateway.web.registry import Registry
from gateway.wire import jsontext
from tests.pipeline.house import MAIL, TOOLS, House


@pytest.fixture
async def house() -> House:
    house = House()
    for profile in Profile:
        await house.approve_all(profile)
    return house


def registry_of(house: House, *servers: str) -> Registry:
    return Registry(house.pins, lambda: servers or (MAIL,))


def tokens_of(*definitions: dict[str, Any]) -> int:
    return math.ceil(sum(len(jsontext.write(one).encode()) for one in definitions) / 4)


async def test_a_server_s_approved_tools_are_weighed_once_for_both_families(house: House) -> None:
    size = registry_of(house).sizes()[MAIL]
    assert (size.tools, size.cost) == (len(TOOLS), tokens_of(*TOOLS.values()))


async def test_where_the_families_differ_the_larger_definition_counts(house: House) -> None:
    longer = {**TOOLS["send"], "description": "Send mail. " * 20}
    await house.show(longer, TOOLS["search"], profile=Profile.LEGACY)
    await house.approve(Kind.TOOL, "send", Profile.LEGACY)
    assert registry_of(house).sizes()[MAIL].cost == tokens_of(longer, TOOLS["search"])


async def test_what_waits_or_was_revoked_weighs_nothing(house: House) -> None:
    await house.show(*TOOLS.values(), {"name": "new", "inputSchema": {"type": "object"}})
    for profile in Profile:
        target = Target(server=MAIL, kind=Kind.TOOL, name="send")
        await house.pins.revoke(target, profile, by="bob", note="")
    size = registry_of(house).sizes()[MAIL]
    assert (size.tools, size.cost) == (1, tokens_of(TOOLS["search"]))


async def test_what_has_not_changed_is_not_weighed_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks at the metrics looks often, and calls wait meanwhile."""
    registry = registry_of(house)
    before = registry.sizes()
    with monkeypatch.context() as patched:
        patched.setattr("gateway.web.registry.jsontext.write", None)
        assert registry.sizes() == before
    await house.show({**TOOLS["send"], "description": "Send mail. " * 20}, TOOLS["search"])
    await house.approve(Kind.TOOL, "send")
    assert registry.sizes()[MAIL].cost > before[MAIL].cost


async def test_servers_are_those_of_the_configuration(house: House) -> None:
    sizes = registry_of(house, "notes").sizes()
    assert {name: (size.tools, size.cost) for name, size in sizes.items()} == {"notes": (0, 0)}


@pytest.mark.parametrize(
    ("server", "name", "known"),
    [
        ("mail", "search", True),
        ("mail", "new", False),
        ("mail", "mail", False),
        ("notes", "search", False),
    ],
)
async def test_a_name_is_known_once_somebody_approved_a_tool_of_that_server(
    house: House, server: str, name: str, known: bool
) -> None:
    await house.show(*TOOLS.values(), {"name": "new", "inputSchema": {"type": "object"}})
    assert registry_of(house).knows(UpstreamId(server), name) is known


async def test_an_approval_is_noticed(house: House) -> None:
    registry = registry_of(house)
    await house.show(*TOOLS.values(), {"name": "new", "inputSchema": {"type": "object"}})
    assert not registry.knows(MAIL, "new")
    await house.approve(Kind.TOOL, "new")
    assert registry.knows(MAIL, "new")
