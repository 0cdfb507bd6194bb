"""What people have open can be looked at by auditors and ended by admins, on record."""

from typing import Any

import pytest

from gateway.domain.grants import BrowserSession, Consent, Grant
from gateway.domain.identity import Client
from gateway.domain.secrets import StoredConnection
from gateway.errors import AuditUnavailable, BadCommand, Forbidden, NotFound
from tests.admin.world import (
    ADMIN,
    APPROVER,
    AUDITOR,
    NOW,
    NOW_TEXT,
    STRANGER,
    USER,
    World,
    user,
)

LATER_TEXT = "2027-01-15T08:01:00.000Z"


def session(id_hash: str = "s_1", user_id: str = "u_emma", **changes: Any) -> BrowserSession:
    known: dict[str, Any] = {
        "created_at": NOW,
        "expires_at": NOW + 60,
        "source_ip": "192.0.2.7",
        "user_agent": "Browser",
    }
    return BrowserSession(id_hash=id_hash, user_id=user_id, **(known | changes))


def grant(grant_id: str = "g_1", user_id: str = "u_emma", **changes: Any) -> Grant:
    known: dict[str, Any] = {
        "client_id": "c_1",
        "endpoint": "/mcp/mail",
        "scopes": frozenset({"tools:list", "tools:call"}),
        "created_at": NOW,
        "expires_at": NOW + 60,
    }
    return Grant(id=grant_id, user_id=user_id, **(known | changes))


@pytest.fixture
def world() -> World:
    """Emma has one of everything, and Otto has a session and a grant."""
    made = World()
    for name in ("emma", "otto"):
        made.users.add(user(name))
    made.clients.add(Client(id="c_1", name="agent", created_at=NOW, created_by="os:root"))
    browsers, grants = made.identity.browsers, made.identity.grants
    browsers.open_session(session())
    browsers.open_session(session("s_2", "u_otto"))
    browsers.consent(
        Consent(
            user_id="u_emma",
            client_id="c_1",
            endpoint="/mcp/mail",
            redirect_uri="https://app.test/cb",
            scopes=frozenset({"tools:call"}),
            given_at=NOW,
        )
    )
    grants.begin_family(grant(), None)
    grants.begin_family(grant("g_2", "u_otto"), None)
    made.identity.connections.connect(
        StoredConnection(
            user_id="u_emma",
            server="mail",
            issuer="https://as.example",
            sealed="v1.secret",
            scopes=("read",),
            expires_at=NOW + 60,
            version=1,
            connected_at=NOW,
        )
    )
    return made


def last(world: World) -> tuple[str, str, str]:
    record = world.written[-1]
    return record["method"], record["code"], record["reasons"][0]["message"]


async def test_sessions_are_listed_without_what_would_open_them(world: World) -> None:
    rows = await world.access_desk.sessions(AUDITOR, user="emma")
    assert rows == [
        {
            "session": "s_1",
            "user": "emma",
            "created_at": NOW_TEXT,
            "expires_at": LATER_TEXT,
            "source_ip": "192.0.2.7",
            "user_agent": "Browser",
        }
    ]
    assert len(await world.access_desk.sessions(AUDITOR)) == 2


async def test_one_session_or_all_of_a_user_are_ended(world: World) -> None:
    world.identity.browsers.open_session(session("s_3"))
    assert await world.access_desk.end_sessions(ADMIN, session="s_2") == {"ended": 1}
    assert last(world) == ("sessions.end", "ended", "session s_2")
    assert await world.access_desk.end_sessions(ADMIN, user="emma") == {"ended": 2}
    assert last(world) == ("sessions.end", "ended", "every session of user:emma")
    assert list(world.identity.browsers.sessions()) == []
    assert await world.access_desk.end_sessions(ADMIN, user="emma") == {"ended": 0}
    with pytest.raises(NotFound):
        await world.access_desk.end_sessions(ADMIN, session="s_2")
    assert world.written[-1]["verdict"] == "deny"
    for given in ({}, {"session": "s_1", "user": "emma"}):
        with pytest.raises(BadCommand):
            await world.access_desk.end_sessions(ADMIN, **given)


async def test_a_consent_is_withdrawn_with_what_was_granted_by_it(world: World) -> None:
    (row,) = await world.access_desk.consents(AUDITOR)
    assert row == {
        "user": "emma",
        "client_id": "c_1",
        "client": "agent",
        "resource": "/mcp/mail",
        "scopes": ["tools:call"],
        "redirect_uri": "https://app.test/cb",
        "given_at": NOW_TEXT,
    }
    withdrawn = await world.access_desk.withdraw(ADMIN, user="emma", client="agent")
    assert withdrawn == {"withdrawn": 2}  # the consent, and the grant
    assert last(world) == ("consents.withdraw", "withdrawn", "consents of user:emma to agent")
    assert world.written[-1]["client"] == "c_1"
    assert world.identity.grants.is_revoked("g_1", "")
    assert not world.identity.grants.is_revoked("g_2", "")
    with pytest.raises(NotFound):
        await world.access_desk.withdraw(ADMIN, user="emma", client="agent")
    with pytest.raises(NotFound):
        await world.access_desk.withdraw(ADMIN, user="emma", client="unknown")


async def test_a_built_in_client_which_is_stored_nowhere_is_named_by_its_id(world: World) -> None:
    world.identity.grants.begin_family(grant("g_3", client_id="douane-cli"), None)
    (row,) = await world.access_desk.grants(AUDITOR, client="douane-cli")
    assert (row["grant"], row["client"]) == ("g_3", "douane-cli")
    await world.access_desk.withdraw(ADMIN, user="emma", client="douane-cli")
    assert world.identity.grants.is_revoked("g_3", "")
    assert not world.identity.grants.is_revoked("g_1", "")


async def test_grants_in_force_are_listed_and_revoked(world: World) -> None:
    (row,) = await world.access_desk.grants(AUDITOR, user="emma", client="agent")
    assert row == {
        "grant": "g_1",
        "user": "emma",
        "client_id": "c_1",
        "client": "agent",
        "resource": "/mcp/mail",
        "scopes": ["tools:call", "tools:list"],
        "created_at": NOW_TEXT,
        "expires_at": LATER_TEXT,
    }
    assert await world.access_desk.revoke(ADMIN, grant="g_1") == row
    assert last(world) == ("grants.revoke", "revoked", "grant g_1 of emma")
    assert world.identity.grants.is_revoked("g_1", "")
    assert [each["grant"] for each in await world.access_desk.grants(AUDITOR)] == ["g_2"]
    with pytest.raises(NotFound, match="already"):
        await world.access_desk.revoke(ADMIN, grant="g_1")
    with pytest.raises(NotFound, match="no such grant"):
        await world.access_desk.revoke(ADMIN, grant="g_9")


async def test_what_is_over_is_not_listed(world: World) -> None:
    world.identity.browsers.open_session(session("s_3", expires_at=NOW))
    world.identity.grants.begin_family(grant("g_3", expires_at=NOW), None)
    assert "s_3" not in str(await world.access_desk.sessions(AUDITOR))
    assert "g_3" not in str(await world.access_desk.grants(AUDITOR))


async def test_a_connection_is_listed_without_tokens_and_cut(world: World) -> None:
    (row,) = await world.access_desk.connections(AUDITOR)
    assert row == {
        "user": "emma",
        "server": "mail",
        "issuer": "https://as.example",
        "scopes": ["read"],
        "expires_at": LATER_TEXT,
        "connected_at": NOW_TEXT,
        "refreshed_at": None,
    }
    assert await world.access_desk.disconnect(ADMIN, user="emma", server="mail") == row
    assert last(world)[1:] == ("disconnected", "connection of user:emma to mail")
    assert list(world.identity.connections.connections()) == []
    with pytest.raises(NotFound):
        await world.access_desk.disconnect(ADMIN, user="emma", server="mail")


async def test_nothing_ends_that_could_not_be_recorded(world: World) -> None:
    world.log.failure = "disk full"
    desk = world.access_desk
    for refused in (
        desk.end_sessions(ADMIN, session="s_1"),
        desk.withdraw(ADMIN, user="emma", client="agent"),
        desk.revoke(ADMIN, grant="g_1"),
        desk.disconnect(ADMIN, user="emma", server="mail"),
    ):
        with pytest.raises(AuditUnavailable):
            await refused
    assert len(world.identity.browsers.sessions()) == 2
    assert not world.identity.grants.is_revoked("g_1", "")
    assert len(world.identity.connections.connections()) == 1


@pytest.mark.parametrize("person", [USER, APPROVER, AUDITOR, STRANGER])
async def test_only_admins_end_what_people_have_open(world: World, person: Any) -> None:
    desk = world.access_desk
    for refused in (
        desk.end_sessions(person, session="s_1"),
        desk.withdraw(person, user="emma", client="agent"),
        desk.revoke(person, grant="g_1"),
        desk.disconnect(person, user="emma", server="mail"),
    ):
        with pytest.raises(Forbidden):
            await refused


@pytest.mark.parametrize("person", [USER, APPROVER, STRANGER])
async def test_only_admins_and_auditors_see_what_people_have_open(
    world: World, person: Any
) -> None:
    desk = world.access_desk
    for refused in (
        desk.sessions(person),
        desk.consents(person),
        desk.grants(person),
        desk.connections(person),
    ):
        with pytest.raises(Forbidden):
            await refused
