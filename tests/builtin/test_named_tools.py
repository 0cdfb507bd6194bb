"""What a host's program may be given leave for: what its principal may know of, by its name."""

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.builtin.named_tools import NamedTools
from gateway.domain.decisions import Verdict
from gateway.domain.tools import Profile
from gateway.errors import PolicyUnavailable
from tests.builtin.front import BOTH, NOTES, Site
from tests.pipeline.house import ALICE, MAIL, decision

LEGACY, MODERN = frozenset({Profile.LEGACY}), frozenset({Profile.MODERN})


async def named(site: Site) -> Mapping[str, Any]:
    tools = NamedTools()
    tools.connect(site.offers)
    return await tools.of(ALICE, "192.0.2.7")


@pytest.mark.parametrize("spoken", [BOTH, LEGACY, MODERN], ids=["both", "legacy", "modern"])
async def test_each_tool_has_its_name_whatever_its_server_speaks(
    spoken: frozenset[Profile],
) -> None:
    found = await named(await Site(spoken=spoken).furnish(spoken))
    assert found["mail__search"] == (MAIL, "search")
    assert {server for server, _ in found.values()} == {MAIL, NOTES}
    assert all(name == f"{server}__{tool}" for name, (server, tool) in found.items())


async def test_what_is_shown_in_one_family_alone_is_named_as_well() -> None:
    site = await Site().furnish(MODERN)
    assert "mail__search" in await named(site)


async def test_what_policy_hides_has_no_name() -> None:
    site = await Site().furnish()
    site.house.rule.says = lambda question: decision(
        Verdict.DENY if question["target"]["name"] == "search" else Verdict.ALLOW, "hidden"
    )
    found = await named(site)
    assert found
    assert not {"mail__search", "notes__search", "search", "search_tools"} & found.keys()


async def test_policy_is_asked_about_a_program_of_a_hosts() -> None:
    site = await Site().furnish()
    site.house.rule.asked.clear()
    await named(site)
    told = {
        (one["phase"], one["origin"]["kind"], one["context"]["endpoint"], one["context"]["ip"])
        for one in site.house.rule.asked
    }
    assert told == {("list", "host_sandbox", "/mcp", "192.0.2.7")}


async def test_nothing_is_known_before_anything_is_connected() -> None:
    with pytest.raises(PolicyUnavailable):
        await NamedTools().of(ALICE, "192.0.2.7")
