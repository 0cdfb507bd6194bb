"""People are added, changed and shut out by admins, on record, and at once."""

from typing import Any

import pytest

from gateway.admin.person import How, Person, Role
from gateway.domain.grants import BrowserSession, Grant
from gateway.errors import AuditUnavailable, BadCommand, Forbidden, NotFound
from tests.admin.world import (
    ADMIN,
    APPROVER,
    AUDITOR,
    NOW,
    NOW_TEXT,
    STRANGER,
    URL,
    USER,
    World,
    user,
    user_desk_of,
)

ELSEWHERE = "https://login.example"


async def add(world: World, name: str = "emma", **changes: Any) -> dict[str, Any]:
    return await world.user_desk.add(ADMIN, name=name, **changes)


def signed_in(world: World, user_id: str) -> None:
    world.identity.browsers.open_session(
        BrowserSession(
            id_hash="s_1",
            user_id=user_id,
            created_at=NOW,
            expires_at=NOW + 60,
            source_ip="192.0.2.7",
            user_agent="Browser",
        )
    )
    grant = Grant(
        id="g_1",
        user_id=user_id,
        client_id="c_1",
        endpoint="/mcp/mail",
        scopes=frozenset({"tools:call"}),
        created_at=NOW,
        expires_at=NOW + 60,
    )
    world.identity.grants.begin_family(grant, None)


async def test_a_new_person_gets_a_link_that_is_shown_once() -> None:
    world = World()
    row = await add(world, groups=["users", "admins"], os_user="em", display_name="Emma B.")
    url = row.pop("setup_url")
    (stored,) = world.users.all()
    assert (stored.issuer, stored.subject) == (URL, "emma")
    assert row == {
        "user_id": stored.id,
        "user": "emma",
        "name": "Emma B.",
        "groups": ["admins", "users"],
        "roles": ["admin", "user"],
        "os_user": "em",
        "disabled": False,
        "created_at": NOW_TEXT,
        "created_by": "os:root",
    }
    assert await world.user_desk.list(AUDITOR) == [row]
    assert world.users.link(f"hash-{url[-1]}", now=NOW) == stored
    (record,) = world.written
    assert (record["kind"], record["method"], record["code"]) == ("admin", "users.add", "added")
    assert record["target"] == stored.id
    assert record["reasons"] == [
        {"code": "added", "message": f"user:emma ({stored.id})"},
        {"code": "note", "message": "groups admins, users; operating system's user em"},
    ]
    assert url not in str(world.written)


@pytest.mark.parametrize("name", ["", "Emma", "e|x", "-e", "e" * 65, "e\n", "emma "])
async def test_a_name_has_one_spelling(name: str) -> None:
    world = World()
    with pytest.raises(BadCommand):
        await add(world, name)
    assert (list(world.users.all()), world.written) == ([], [])


@pytest.mark.parametrize(
    "change",
    [{"groups": [""]}, {"groups": ["a\nb"]}, {"os_user": "a:b"}, {"display_name": "x\u202e"}],
)
async def test_what_cannot_be_a_group_or_a_user_is_refused(change: dict[str, Any]) -> None:
    world = World()
    with pytest.raises(BadCommand):
        await add(world, **change)
    assert list(world.users.all()) == []


async def test_nobody_is_put_into_more_groups_than_a_record_names() -> None:
    world = World()
    emma = (await add(world, groups=[f"g{n}" for n in range(500)]))["user_id"]
    many = ["security", *(f"{n:0512}" for n in range(140))]
    with pytest.raises(BadCommand, match="more than a record can say"):
        await add(world, "otto", groups=many)
    with pytest.raises(BadCommand, match="more than a record can say"):
        await world.user_desk.change(ADMIN, user=emma, groups=many)
    assert [(one.subject, len(one.groups)) for one in world.users.all()] == [("emma", 500)]
    (record,) = world.written
    assert "g499" in record["reasons"][1]["message"]
    await world.user_desk.disable(ADMIN, user=emma)


async def test_a_name_and_an_operating_systems_user_are_given_once() -> None:
    world = World()
    await add(world, os_user="em")
    with pytest.raises(BadCommand, match="somebody else"):
        await add(world)
    with pytest.raises(BadCommand, match="somebody else"):
        await add(world, "otto", os_user="em")
    assert [(record["verdict"], record["code"]) for record in world.written][-2:] == [
        ("allow", "added"),
        ("deny", "bad_command"),
    ]
    assert len(world.users.all()) == 1


async def test_nobody_is_added_who_could_not_be_recorded() -> None:
    world = World()
    world.log.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await add(world)
    assert list(world.users.all()) == []


async def test_nobody_gets_a_password_where_people_sign_in_elsewhere() -> None:
    world = World()
    desk = user_desk_of(world.identity, world.people, world.journal, passwords=False)
    world.users.add(user())
    with pytest.raises(BadCommand, match="elsewhere"):
        await desk.add(ADMIN, name="otto")
    with pytest.raises(BadCommand, match="elsewhere"):
        await desk.link(ADMIN, user="emma")


async def test_groups_and_the_operating_systems_user_are_replaced() -> None:
    world = World()
    await add(world, groups=["users"], os_user="em")
    row = await world.user_desk.change(ADMIN, user="emma", groups=["security"])
    assert (row["groups"], row["roles"], row["os_user"]) == (["security"], ["approver"], "em")
    row = await world.user_desk.change(ADMIN, user="emma", os_user="")
    assert (row["groups"], row["os_user"]) == (["security"], None)
    row = await world.user_desk.change(ADMIN, user="emma", groups=[], os_user="e2")
    assert (row["groups"], row["os_user"]) == ([], "e2")
    assert [record["reasons"][1]["message"] for record in world.written[1:]] == [
        "groups security",
        "no operating system's user",
        "groups none; operating system's user e2",
    ]
    with pytest.raises(BadCommand, match="nothing is to change"):
        await world.user_desk.change(ADMIN, user="emma")


async def test_the_groups_of_a_person_from_elsewhere_are_said_there() -> None:
    world = World()
    world.users.add(user("x", issuer=ELSEWHERE, subject="7"))
    named = f"{ELSEWHERE}|7"
    with pytest.raises(BadCommand, match="change them there"):
        await world.user_desk.change(ADMIN, user=named, groups=["admins"])
    row = await world.user_desk.change(ADMIN, user=named, os_user="em")
    assert (row["user"], row["os_user"]) == (named, "em")
    with pytest.raises(BadCommand, match="has no password here"):
        await world.user_desk.link(ADMIN, user=named)


async def test_a_disabled_person_is_shut_out_at_once() -> None:
    world = World()
    row = await add(world)
    signed_in(world, row["user_id"])
    disabled = await world.user_desk.disable(ADMIN, user="emma")
    assert (disabled["disabled"], disabled["roles"]) == (True, [])
    assert list(world.identity.browsers.sessions()) == []
    assert world.identity.grants.is_revoked("g_1", "")
    with pytest.raises(BadCommand, match="enable them first"):
        await world.user_desk.link(ADMIN, user="emma")
    enabled = await world.user_desk.enable(ADMIN, user="emma")
    assert (enabled["disabled"], enabled["roles"]) == (False, ["user"])
    assert world.identity.grants.is_revoked("g_1", "")


async def test_a_removed_person_leaves_nothing_open() -> None:
    world = World()
    row = await add(world)
    signed_in(world, row["user_id"])
    assert (await world.user_desk.remove(ADMIN, user=row["user_id"]))["user"] == "emma"
    assert list(world.users.all()) == []
    assert list(world.identity.browsers.sessions()) == []
    assert world.identity.grants.is_revoked("g_1", "")
    assert world.written[-1]["code"] == "removed"


async def test_another_link_ends_the_one_before() -> None:
    world = World()
    await add(world)
    row = await world.user_desk.link(ADMIN, user="emma")
    assert row["setup_url"] == f"{URL}/setup?link=secret-2"
    assert world.users.link("hash-1", now=NOW) is None
    assert world.users.link("hash-2", now=NOW) is not None
    assert "secret-2" not in str(world.written)


async def test_an_admin_cannot_shut_themselves_out() -> None:
    world = World()
    row = await add(world)
    emma = Person(name="user:emma", roles=frozenset({Role.ADMIN}), user_id=row["user_id"])
    with pytest.raises(BadCommand, match="yourself"):
        await world.user_desk.disable(emma, user="emma")
    with pytest.raises(BadCommand, match="yourself"):
        await world.user_desk.remove(emma, user="emma")
    assert len(world.written) == 1


@pytest.mark.parametrize("act", ["change", "disable", "enable", "remove", "link"])
async def test_nobody_can_be_changed_who_is_not_there(act: str) -> None:
    world = World()
    arguments = {"os_user": "x"} if act == "change" else {}
    with pytest.raises(NotFound):
        await getattr(world.user_desk, act)(ADMIN, user="emma", **arguments)
    assert world.written == []


async def test_somebody_who_goes_in_the_same_moment_is_recorded_as_refused() -> None:
    world = World()
    row = await add(world)
    gone = world.users.find(row["user_id"])
    world.users.remove(row["user_id"], at=NOW)
    world.users.find = lambda user_id: gone  # type: ignore[method-assign]  # as it was before
    with pytest.raises(NotFound, match="any more"):
        await world.user_desk.disable(ADMIN, user=row["user_id"])
    assert world.written[-1]["verdict"] == "deny"


@pytest.mark.parametrize("person", [USER, APPROVER, AUDITOR, STRANGER])
async def test_only_admins_change_people(person: Any) -> None:
    world = World()
    await add(world)
    desk = world.user_desk
    for refused in (
        desk.add(person, name="otto"),
        desk.change(person, user="emma", groups=["admins"]),
        desk.disable(person, user="emma"),
        desk.enable(person, user="emma"),
        desk.remove(person, user="emma"),
        desk.link(person, user="emma"),
    ):
        with pytest.raises(Forbidden):
            await refused
    assert len(world.written) == 1


@pytest.mark.parametrize("person", [USER, APPROVER, STRANGER])
async def test_only_admins_and_auditors_list_people(person: Any) -> None:
    with pytest.raises(Forbidden):
        await World().user_desk.list(person)


async def test_everybody_may_ask_who_they_are() -> None:
    desk = World().user_desk
    assert await desk.whoami(STRANGER) == {
        "name": "os:sam",
        "roles": [],
        "user_id": None,
        "how": "socket",
    }
    emma = Person(name="user:emma", roles=frozenset(), user_id="u_1", how=How.TOKEN)
    assert await desk.whoami(emma) == {
        "name": "user:emma",
        "roles": [],
        "user_id": "u_1",
        "how": "token",
    }
