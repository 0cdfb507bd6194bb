"""Who acts is what the kernel or a token says, and what the gateway knows of that person now."""

from typing import Any

import pytest

from gateway.admin.person import EVERY_ROLE, How, Person, Role
from gateway.errors import AuditUnavailable, InsufficientScope, Unauthenticated
from tests.admin.world import NOW, URL, World, principal, user

ADMIN_ROLES = frozenset({Role.ADMIN, Role.USER})


def known(world: World, **changes: Any) -> World:
    world.users.add(user(groups=frozenset({"admins", "users"}), os_user="em", **changes))
    return world


def test_an_operating_systems_user_is_the_person_that_they_were_made() -> None:
    people = known(World()).people
    expected = Person(name="user:emma", roles=ADMIN_ROLES, user_id="u_emma", how=How.SOCKET)
    found = people.by_os_user("em", owns_data=False)
    assert (found, found.os_user) == (expected, "em")


def test_who_owns_the_data_has_every_role_only_while_they_are_nobody_else() -> None:
    people = known(World()).people
    assert people.by_os_user("root", owns_data=True) == Person(name="os:root", roles=EVERY_ROLE)
    assert people.by_os_user("em", owns_data=True).roles == ADMIN_ROLES


def test_somebody_elses_operating_system_user_is_nobody() -> None:
    people = known(World()).people
    assert people.by_os_user("sam", owns_data=False) == Person(name="os:sam", roles=frozenset())
    assert people.by_os_user(None, owns_data=True) == Person(name="os:unknown", roles=frozenset())
    assert people.by_os_user("", owns_data=False).user_id == ""


def test_a_disabled_person_may_do_nothing_even_if_the_data_is_theirs() -> None:
    people = known(World(), disabled=True).people
    assert people.by_os_user("em", owns_data=True).roles == frozenset()


async def test_a_token_names_its_person_with_the_roles_of_today() -> None:
    world = known(World())
    world.tokens.held["good"] = principal(groups=frozenset({"auditors"}))
    expected = Person(name="user:emma", roles=ADMIN_ROLES, user_id="u_emma", how=How.TOKEN)
    assert await world.people.by_token("good") == expected
    world.users.change("u_emma", groups=frozenset({"auditors"}), at=NOW)
    assert (await world.people.by_token("good")).roles == {Role.AUDITOR}
    assert world.written == []


async def test_a_person_from_elsewhere_is_named_by_who_vouches_for_them() -> None:
    world = World()
    world.users.add(user("x", issuer="https://login.example", subject="os:root", name="os:root"))
    world.tokens.held["good"] = principal(user_id="u_x")
    assert (await world.people.by_token("good")).name == "user:https://login.example|os:root"


async def test_a_client_that_acts_for_itself_has_the_roles_of_its_groups_and_is_no_person() -> None:
    world = World()
    world.tokens.held["good"] = principal(
        user_id="", subject="c_1", client_id="c_1", groups=frozenset({"auditors"})
    )
    assert await world.people.by_token("good") == Person(
        name="client:c_1", roles=frozenset({Role.AUDITOR}), how=How.TOKEN
    )


async def test_a_person_of_another_authorization_server_is_named_by_it() -> None:
    world = World()
    world.tokens.held["good"] = principal(user_id="", issuer="https://as.example", subject="7")
    assert (await world.people.by_token("good")).name == "user:https://as.example|7"


async def test_a_token_without_the_scope_is_not_for_administration() -> None:
    world = known(World())
    world.tokens.held["good"] = principal(scopes=frozenset({"tools:call"}))
    with pytest.raises(InsufficientScope) as caught:
        await world.people.by_token("good")
    assert caught.value.scopes == ("admin",)


@pytest.mark.parametrize("gone", ["disabled", "removed", "unknown"])
async def test_a_token_of_nobody_who_may_sign_in_is_refused_and_recorded(gone: str) -> None:
    world = known(World(), disabled=gone == "disabled")
    if gone == "removed":
        world.users.remove("u_emma", at=NOW)
    if gone != "unknown":
        world.tokens.held["secret"] = principal()
    with pytest.raises(Unauthenticated):
        await world.people.by_token("secret", source_ip="192.0.2.7")
    (record,) = world.written
    assert {
        name: record[name] for name in ("kind", "endpoint", "source_ip", "verdict", "code")
    } == {
        "kind": "auth",
        "endpoint": "/api/v1",
        "source_ip": "192.0.2.7",
        "verdict": "deny",
        "code": "unauthenticated",
    }
    assert "secret" not in str(record)


async def test_a_refusal_that_cannot_be_recorded_is_no_answer() -> None:
    world = World()
    world.log.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await world.people.by_token("bad")


def test_names_of_people_here_and_elsewhere_never_meet() -> None:
    people = World().people
    here, there = user(), user(issuer="https://login.example")
    assert {people.name_of(here), people.name_of(there)} == {
        "user:emma",
        "user:https://login.example|emma",
    }
    assert here.issuer == URL
