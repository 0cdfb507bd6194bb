"""A client's secret is seen once, by an admin, and its registration is on record."""

from typing import Any

import pytest

from gateway.errors import AuditUnavailable, BadCommand, Forbidden, NotFound
from gateway.oauth.clients import secret_hash
from tests.admin.world import ADMIN, APPROVER, AUDITOR, NOW_TEXT, STRANGER, USER, World


async def add(world: World, **changes: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "name": "agent",
        "resources": ["/mcp/mail"],
        "scopes": ["tools:list", "tools:call"],
    }
    return await world.client_desk.add(ADMIN, **(arguments | changes))


async def test_a_new_client_gets_a_secret_that_is_stored_as_a_hash_only() -> None:
    world = World()
    row = await add(world, trusted_host=True)
    secret = row.pop("client_secret")
    (stored,) = world.clients.all()
    assert stored.secret_hash == secret_hash(secret)
    assert row == {
        "client_id": stored.id,
        "name": "agent",
        "grants": ["client_credentials"],
        "resources": ["/mcp/mail"],
        "scopes": ["tools:call", "tools:list"],
        "groups": ["users"],
        "trusted_host": True,
        "created_at": NOW_TEXT,
        "created_by": "os:root",
    }
    assert await world.client_desk.list(AUDITOR) == [row]
    assert world.written == [
        {
            "kind": "admin",
            "principal": "os:root",
            "roles": ["admin"],
            "method": "clients.add",
            "client": stored.id,
            "verdict": "allow",
            "code": "added",
            "reasons": [
                {
                    "code": "added",
                    "message": "client agent: resources /mcp/mail; scopes tools:call, tools:list"
                    "; groups users; trusted host",
                }
            ],
        }
    ]
    assert secret not in str(world.written)


async def test_a_client_that_cannot_be_recorded_is_not_registered() -> None:
    world = World()
    world.log.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await add(world)
    assert world.clients.all() == []


async def test_a_name_is_given_once() -> None:
    world = World()
    await add(world)
    with pytest.raises(BadCommand, match="choose another name"):
        await add(world)
    assert len(world.written) == 1


async def test_a_name_that_is_taken_in_the_same_moment_is_recorded_as_refused() -> None:
    world = World()
    await add(world)
    world.clients.all = list  # type: ignore[method-assign]  # as it was before the other came
    with pytest.raises(BadCommand, match="choose another name"):
        await add(world)
    assert [(record["verdict"], record["code"]) for record in world.written] == [
        ("allow", "added"),
        ("allow", "added"),
        ("deny", "bad_command"),
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"resources": ["/mcp/nowhere"]},
        {"resources": []},
        {"scopes": ["everything"]},
        {"grants": ["authorization_code"]},
        {"grants": []},
    ],
)
async def test_a_client_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    world = World()
    with pytest.raises(BadCommand):
        await add(world, **change)
    assert (world.clients.all(), world.written) == ([], [])


@pytest.mark.parametrize("by", ["id", "name"])
async def test_a_client_is_removed_by_its_id_or_its_name(by: str) -> None:
    world = World()
    row = await add(world)
    removed = await world.client_desk.remove(
        ADMIN, client=row["client_id"] if by == "id" else "agent"
    )
    assert removed["client_id"] == row["client_id"]
    assert world.clients.all() == []
    assert world.written[-1]["code"] == "removed"


async def test_a_client_that_is_not_there_cannot_be_removed() -> None:
    world = World()
    with pytest.raises(NotFound):
        await world.client_desk.remove(ADMIN, client="agent")
    await add(world)
    world.clients.remove = _gone  # type: ignore[method-assign]  # another admin was faster
    with pytest.raises(NotFound, match="any more"):
        await world.client_desk.remove(ADMIN, client="agent")


async def _gone(client_id: str) -> None:
    return None


@pytest.mark.parametrize("person", [USER, APPROVER, AUDITOR, STRANGER])
async def test_only_admins_register_and_remove(person: Any) -> None:
    world = World()
    await add(world)
    with pytest.raises(Forbidden):
        await world.client_desk.add(person, name="b", resources=["/mcp"], scopes=["prompts"])
    with pytest.raises(Forbidden):
        await world.client_desk.remove(person, client="agent")
    assert len(world.clients.all()) == 1


@pytest.mark.parametrize("person", [USER, APPROVER, STRANGER])
async def test_only_admins_and_auditors_list_clients(person: Any) -> None:
    with pytest.raises(Forbidden):
        await World().client_desk.list(person)
