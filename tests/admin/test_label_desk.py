"""Which labels are suggested to people: for which tools, from which definition."""

from typing import Any

import pytest

from gateway.admin.labels import LabelDesk
from gateway.admin.person import Person
from gateway.domain.tools import Kind, Profile, Target, UpstreamId
from gateway.errors import Forbidden, NotFound
from tests.admin.world import EMMA, World, approved, reviewed, sighting

INPUT = {"inputSchema": {"properties": {"to": {"type": "string"}, "body": {"type": "string"}}}}
SEND = {
    "server": "mail",
    "name": "send",
    "definition": "observed",
    "labelled": False,
    "effect": "egress",
    "destination": ["to"],
    "payload": ["body"],
    "typed": [],
    "result": None,
    "lowers": ["effect", "destination"],
    "because": ["name: send", "description: send"],
}


@pytest.fixture
def world() -> World:
    return World()


def desk(world: World) -> LabelDesk:
    return LabelDesk(world.pins, lambda server: world.labelled if server == "mail" else ())


async def rows(world: World, **arguments: Any) -> list[dict[str, Any]]:
    return list(await desk(world).suggest(EMMA, server="mail", **arguments))


async def test_every_tool_without_labels_gets_a_suggestion(world: World) -> None:
    secret = sighting("get_password", "Returns it.")
    await world.show(sighting(members=INPUT), secret, sighting("send", kind=Kind.PROMPT))
    found = await rows(world)
    assert found[1] == SEND
    assert (found[0]["name"], found[0]["result"]) == (
        "get_password",
        {"integrity": "untrusted", "confidentiality": "secret"},
    )
    assert len(found) == 2


async def test_a_tool_that_has_labels_is_left_out_unless_everything_is_wanted(
    world: World,
) -> None:
    await world.show(sighting(members=INPUT), sighting("read"))
    world.labelled = ("send",)
    assert [row["name"] for row in await rows(world)] == ["read"]
    everything = await rows(world, everything=True)
    assert [(row["name"], row["labelled"]) for row in everything] == [
        ("read", False),
        ("send", True),
    ]


async def test_the_approved_definition_counts_and_not_the_one_that_waits(world: World) -> None:
    await approved(world, "send")
    await world.show(sighting(members=INPUT))
    (row,) = await rows(world)
    assert (row["definition"], row["destination"]) == ("approved", [])


async def test_a_definition_for_each_family_of_revisions_counts(world: World) -> None:
    read = {"annotations": {"readOnlyHint": True}}
    await world.show(
        sighting("get", members=read), sighting("get", "Gets.", profile=Profile.LEGACY)
    )
    (row,) = await rows(world)
    assert (row["effect"], row["lowers"]) == ("egress", ["effect"])


async def test_one_that_waits_makes_of_both_a_suggestion_for_what_waits(world: World) -> None:
    await approved(world, "send")
    await world.show(sighting("send", profile=Profile.LEGACY))
    assert [row["definition"] for row in await rows(world)] == ["observed"]


async def test_a_server_without_tools_has_none(world: World) -> None:
    await world.show(sighting("hello", kind=Kind.PROMPT))
    with pytest.raises(NotFound):
        await rows(world)


async def test_who_has_no_role_is_told_nothing(world: World) -> None:
    nobody = Person(name="nobody", roles=frozenset(), user_id="u")
    with pytest.raises(Forbidden):
        await desk(world).suggest(nobody, server="mail")


async def test_a_review_of_a_new_tool_says_which_labels_it_suggests(world: World) -> None:
    await world.show(sighting(members=INPUT), sighting("hello", kind=Kind.PROMPT))
    suggestion = {name: SEND[name] for name in [*SEND][4:]}
    found = {row["name"]: row["suggestion"] for row in await world.pin_desk.review(EMMA)}
    assert found == {"send": suggestion, "hello": None}
    world.labelled = ("send",)
    assert [row["suggestion"] for row in await world.pin_desk.review(EMMA)] == [None, None]


async def test_a_review_of_a_known_tool_suggests_nothing_anew(world: World) -> None:
    await approved(world, "send")
    await world.show(sighting(members=INPUT))
    (row,) = await world.pin_desk.diff(EMMA, server="mail", name="send")
    assert row["suggestion"] is None
    assert reviewed("send").name == "send"
    target = Target(server=UpstreamId("mail"), kind=Kind.TOOL, name="send")
    assert world.pins.find(target, Profile.MODERN) is not None
