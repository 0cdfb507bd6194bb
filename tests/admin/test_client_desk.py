"""A client's secret is seen once, by an admin, and its registration is on record."""

from typing import Any

import pytest

from gateway.admin.clients import MOST_NAMED
from gateway.domain.grants import Grant
from gateway.domain.identity import AuthMethod, Client, ClientKind
from gateway.errors import AuditUnavailable, BadCommand, Forbidden, NotFound
from gateway.oauth.clients import secret_hash
from tests.admin.world import ADMIN, APPROVER, AUDITOR, NOW, NOW_TEXT, STRANGER, USER, World

JWK = {
    "kty": "EC",
    "crv": "P-256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    "kid": "k1",
}


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
        "kind": "registered",
        "auth_methods": ["client_secret_basic", "client_secret_post"],
        "grants": ["client_credentials"],
        "redirect_uris": [],
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
                    "message": "client agent: grants client_credentials; resources /mcp/mail; scopes tools:call, tools:list"
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


async def test_no_client_is_given_more_than_a_record_names() -> None:
    world = World()
    with pytest.raises(BadCommand, match="more than a record can say"):
        await add(world, groups=["security", *(f"{n:0512}" for n in range(140))])
    assert (list(world.clients.all()), world.written) == ([], [])


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
        {"grants": ["password"]},
        {"grants": ["urn:ietf:params:oauth:grant-type:device_code"]},
        {"grants": ["refresh_token"]},
        {"redirect_uris": ["https://app.test/cb"]},
        {"public": True},
        {"public": True, "auth_method": AuthMethod.BASIC},
        {"auth_method": AuthMethod.PRIVATE_KEY_JWT},
        {"jwks": {"keys": [JWK]}},
        {"auth_method": AuthMethod.PRIVATE_KEY_JWT, "jwks": {}},
        {"auth_method": AuthMethod.PRIVATE_KEY_JWT, "jwks": {"keys": [JWK | {"d": "secret"}]}},
        {"grants": ["device"], "groups": ["admins"]},
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


def _gone(client_id: str) -> None:
    return None


async def test_a_client_for_people_has_redirect_uris_and_no_groups_of_its_own() -> None:
    world = World()
    row = await add(
        world,
        grants=["authorization_code", "refresh_token", "device"],
        redirect_uris=["https://app.test/cb"],
        public=True,
    )
    assert (row["auth_methods"], row["grants"], row["redirect_uris"], row["groups"]) == (
        ["none"],
        ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
        ["https://app.test/cb"],
        [],
    )
    assert "client_secret" not in row
    (reason,) = world.written[0]["reasons"]
    assert reason["message"].endswith("redirect URIs https://app.test/cb; public")


async def test_a_client_that_signs_has_keys_and_no_secret() -> None:
    world = World()
    row = await add(world, auth_method=AuthMethod.PRIVATE_KEY_JWT, jwks={"keys": [JWK]})
    assert row["auth_methods"] == ["private_key_jwt"]
    assert "client_secret" not in row
    shown = await world.client_desk.show(AUDITOR, client="agent")
    assert shown == {
        **row,
        "homepage": None,
        "jwks": {"keys": [JWK]},
        "holds_key": False,
        "fresh_until": None,
    }


async def test_a_client_that_registered_itself_is_named_by_its_id_alone() -> None:
    world = World()
    itself = Client(
        id="c_1", name="agent", kind=ClientKind.DYNAMIC, created_at=NOW, created_by="itself"
    )
    world.clients.add(itself)
    with pytest.raises(NotFound):
        await world.client_desk.remove(ADMIN, client="agent")
    row = await add(world)
    listed = await world.client_desk.list(ADMIN)
    assert sorted(each["kind"] for each in listed) == ["dynamic", "registered"]
    assert (await world.client_desk.show(ADMIN, client="agent"))["client_id"] == row["client_id"]
    assert (await world.client_desk.remove(ADMIN, client="c_1"))["kind"] == "dynamic"


async def test_removing_a_client_revokes_what_it_was_granted() -> None:
    world = World()
    row = await add(world)
    grant = Grant(
        id="g_1",
        user_id="u_emma",
        client_id=row["client_id"],
        endpoint="/mcp/mail",
        scopes=frozenset({"tools:call"}),
        created_at=NOW,
        expires_at=NOW + 60,
    )
    world.identity.grants.begin_family(grant, None)
    await world.client_desk.remove(ADMIN, client="agent")
    assert world.identity.grants.is_revoked("g_1", "")


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
async def test_only_admins_and_auditors_look_at_clients(person: Any) -> None:
    with pytest.raises(Forbidden):
        await World().client_desk.list(person)
    with pytest.raises(Forbidden):
        await World().client_desk.show(person, client="agent")


async def test_clients_are_named_by_their_ids_to_whoever_has_a_desk() -> None:
    world = World()
    id_ = (await add(world))["client_id"]
    for person in (APPROVER, AUDITOR, ADMIN):
        (row,) = await world.client_desk.names(person, clients=[id_, "nobody"])
        assert (row["client_id"], row["name"]) == (id_, "agent")
    with pytest.raises(Forbidden):
        await world.client_desk.names(USER, clients=[id_])
    with pytest.raises(BadCommand, match="at most"):
        await world.client_desk.names(ADMIN, clients=["x"] * (MOST_NAMED + 1))
