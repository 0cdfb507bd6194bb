"""A token is renewed once however many need it, and a connection that has ended says so."""

import asyncio
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from gateway.errors import AuditUnavailable, CredentialRequired, UpstreamFailed
from gateway.storage.identity.store import IdentityStores
from tests.broker.world import EMMA, FINN, PUBLIC_URL, refused, tokens

CONNECT = f"{PUBLIC_URL}/connect/mail"
CHALLENGE = 'Bearer error="invalid_token"'


async def rejected(broker, shown, *, status=401, challenge=CHALLENGE):
    fields = (("authorization", f"Bearer {shown}"),)
    ((_, text),) = await broker.rejected(
        "mail", EMMA.id, shown=fields, status=status, challenge=challenge
    )
    return text.removeprefix("Bearer ")


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


async def test_twenty_callers_after_the_end_of_a_token_renew_it_once(world):
    broker = world.broker()
    await world.connected(broker)
    world.clock.now += 3600
    shown = await asyncio.gather(*(world.token(broker) for _ in range(20)))
    assert (set(shown), world.provider.refreshes()) == ({"at-2"}, 1)


async def test_all_that_is_asked_for_a_server_is_asked_on_its_word(world):
    """To look its names up may take long, and is to hold up nobody else."""
    broker = world.broker()
    await world.connected(broker)
    world.clock.now += 3600
    assert await world.token(broker) == "at-2"
    asked = [urlsplit(url).path for _, url in world.fetcher.asked]
    assert {"/register", "/token"} <= {*asked}
    assert {*world.fetcher.named_by} == {"mail"}


async def test_two_processes_renew_it_once(world, tmp_path):
    elsewhere = IdentityStores.open(tmp_path, clock=world.clock)
    brokers = [world.broker(), world.broker(stores=elsewhere)]
    await world.connected(brokers[0])
    world.clock.now += 3600
    world.provider.wait = asyncio.Event()
    waiting = asyncio.gather(*(world.token(one) for one in brokers for _ in range(10)))
    await until(lambda: world.provider.refreshes() >= 1)
    await asyncio.sleep(0.2)  # the other process has had its chance
    world.provider.wait.set()
    assert (set(await waiting), world.provider.refreshes()) == ({"at-2"}, 1)
    elsewhere.close()


async def test_the_next_renewal_shows_the_new_refresh_token(world):
    broker = world.broker()
    await world.connected(broker)
    for number in (2, 3):
        world.clock.now += 3600
        assert await world.token(broker) == f"at-{number}"
    assert world.provider.forms[1:] == [
        {
            "grant_type": "refresh_token",
            "refresh_token": f"rt-{number}",
            "resource": world.provider.resource,
        }
        for number in (1, 2)
    ]
    stored = world.stores.connections.connection(EMMA.id, "mail")
    assert (stored.version, stored.refreshed_at) == (3, world.clock.now)


async def test_a_server_that_does_not_rotate_keeps_its_refresh_token(world):
    broker = world.broker()
    await world.connected(broker)
    world.provider.gives = lambda _: tokens(9, refresh_token=None)
    for _ in range(2):
        world.clock.now += 3600
        await world.token(broker)
    assert [form["refresh_token"] for form in world.provider.forms[1:]] == ["rt-1", "rt-1"]


async def test_a_token_is_renewed_shortly_before_its_end(world):
    broker = world.broker()
    await world.connected(broker)
    world.clock.now += 3569
    assert await world.token(broker) == "at-1"
    world.clock.now += 2
    assert await world.token(broker) == "at-2"


async def test_a_short_token_is_not_renewed_at_every_call(world):
    world.provider.gives = lambda _: tokens(len(world.provider.forms), expires_in=20)
    broker = world.broker()
    await world.connected(broker)
    world.clock.now += 9
    assert await world.token(broker) == "at-1"
    world.clock.now += 2
    assert await world.token(broker) == "at-2"


async def test_a_token_without_an_end_is_used_until_it_is_refused(world):
    world.provider.gives = lambda _: tokens(len(world.provider.forms), expires_in=None)
    broker = world.broker()
    await world.connected(broker)
    world.clock.now += 1e7
    assert await world.token(broker) == "at-1"
    assert await rejected(broker, "at-1") == "at-2"


@pytest.mark.parametrize("error", ["invalid_grant", "invalid_client", "unauthorized_client"])
async def test_a_connection_that_has_ended_is_forgotten_and_asked_for_anew(world, error):
    broker = world.broker()
    await world.connected(broker, person=FINN)
    await world.connected(broker)
    world.clock.now += 3600
    world.provider.gives = lambda _: refused(error, 401 if error == "invalid_client" else 400)
    with pytest.raises(CredentialRequired) as required:
        await world.token(broker)
    assert required.value.url == CONNECT
    assert [one.user_id for one in world.stores.connections.connections()] == [FINN.id]
    assert world.told() == [("allow", "connected")] * 2 + [("deny", "disconnected")]
    world.provider.gives = None
    await world.connected(broker)
    # Whoever does not know us any more is told anew who we are.
    assert len(world.provider.registered) == (1 if error == "invalid_grant" else 2)


async def test_the_end_of_an_old_connection_does_not_take_the_new_one(world):
    broker = world.broker()
    await world.connected(broker)
    store = world.stores.connections
    world.clock.now += 3600

    def refused_after_she_connected_anew(_: object) -> web.Response:
        (before,) = store.connections()
        store.connect(before)
        return refused("invalid_grant")

    world.provider.gives = refused_after_she_connected_anew
    with pytest.raises(CredentialRequired):
        await world.token(broker)
    assert [one.user_id for one in store.connections()] == [EMMA.id]


async def test_an_end_that_cannot_be_recorded_is_no_end_yet(world):
    broker = world.broker()
    await world.connected(broker)
    world.clock.now += 3600
    world.provider.gives = lambda _: refused("invalid_grant")
    world.audit.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await world.token(broker)
    assert len(world.stores.connections.connections()) == 1


@pytest.mark.parametrize("status", [500, 503, 302, 429])
async def test_a_passing_fault_ends_nothing(world, status):
    broker = world.broker()
    await world.connected(broker)
    world.clock.now += 3600
    given = {"access_token": "at-9", "token_type": "Bearer"}
    world.provider.gives = lambda _: web.json_response(given, status=status)
    with pytest.raises(UpstreamFailed):
        await world.token(broker)
    world.provider.gives = None
    store, now = world.stores.connections, world.clock.now
    assert store.lease(EMMA.id, "mail", by="whoever is next", now=now, until=now)
    assert await world.token(broker) == "at-3"


async def test_another_refusal_asks_the_person_but_keeps_the_connection(world):
    broker = world.broker()
    await world.connected(broker)
    world.clock.now += 3600
    world.provider.gives = lambda _: refused("invalid_target")
    with pytest.raises(CredentialRequired):
        await world.token(broker)
    assert len(world.stores.connections.connections()) == 1


async def test_a_connection_without_a_refresh_token_ends_with_its_token(world):
    world.provider.gives = lambda _: tokens(1, refresh_token=None)
    broker = world.broker()
    await world.connected(broker)
    assert await world.token(broker) == "at-1"
    world.clock.now += 3600
    with pytest.raises(CredentialRequired):
        await world.token(broker)
    assert world.provider.refreshes() == 0


async def test_a_renewal_goes_on_when_its_caller_goes_away(world):
    broker = world.broker()
    await world.connected(broker)
    world.clock.now += 3600
    world.provider.wait = asyncio.Event()
    caller = asyncio.create_task(world.token(broker))
    await until(lambda: world.provider.refreshes() == 1)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    world.provider.wait.set()
    assert await world.token(broker) == "at-2"
    assert world.provider.refreshes() == 1


async def test_a_lease_that_nobody_lets_go_holds_nobody_up_for_ever(world):
    broker = world.broker()
    await world.connected(broker)
    world.clock.now += 3600
    store, now = world.stores.connections, world.clock.now
    assert store.lease(EMMA.id, "mail", by="a process that died", now=now, until=now + 60)
    caller = asyncio.create_task(world.token(broker))
    await asyncio.sleep(0.2)
    assert world.provider.refreshes() == 0
    world.clock.now += 61
    assert await caller == "at-2"


async def test_whoever_gets_the_lease_late_uses_what_was_renewed_meanwhile(world, monkeypatch):
    broker = world.broker()
    await world.connected(broker)
    world.clock.now += 3600
    store, lease = world.stores.connections, world.stores.connections.lease

    def late(*key, **more):
        kept = store.connection(*key)
        now = world.clock.now
        store.connect(replace(kept, version=2, refreshed_at=now, expires_at=now + 3600))
        return lease(*key, **more)

    monkeypatch.setattr(store, "lease", late)
    assert (await world.token(broker), world.provider.refreshes()) == ("at-1", 0)


async def test_a_renewal_does_not_overwrite_a_new_connection(world):
    broker = world.broker()
    await world.connected(broker)
    world.clock.now += 3600
    world.provider.wait = asyncio.Event()
    caller = asyncio.create_task(world.token(broker))
    await until(lambda: world.provider.refreshes() == 1)
    world.provider.wait, hold = None, world.provider.wait
    await world.connected(world.broker())  # another process
    world.provider.gives = lambda _: tokens(9)
    hold.set()
    assert await caller == "at-3"
    world.clock.now += 1
    assert await world.token(broker) == "at-3"


async def test_a_connection_that_was_taken_back_is_not_used(world):
    broker = world.broker()
    await world.connected(broker)
    assert await world.token(broker) == "at-1"
    world.stores.connections.disconnect(EMMA.id, "mail")
    world.clock.now += 1
    with pytest.raises(CredentialRequired):
        await world.token(broker)


async def test_as_many_tokens_are_believed_as_there_is_room_for(world, monkeypatch):
    monkeypatch.setattr("gateway.broker.held._MOST", 1)
    broker = world.broker()
    for person in (EMMA, FINN):
        await world.connected(broker, person=person)
        await world.token(broker, person=person)
        world.stores.connections.disconnect(person.id, "mail")
    assert await world.token(broker, person=FINN) == "at-2"
    with pytest.raises(CredentialRequired):
        await world.token(broker, person=EMMA)


async def test_a_token_goes_to_the_endpoint_that_it_was_given_for(world):
    await world.connected(world.broker())
    moved = world.broker(replace(world.settings(), url="https://elsewhere.test/mcp"))
    with pytest.raises(CredentialRequired, match="another configuration"):
        await world.token(moved)


async def test_a_connection_at_an_issuer_that_the_operator_no_longer_accepts_is_not_used(world):
    await world.connected(world.broker())
    with pytest.raises(CredentialRequired, match="another configuration"):
        await world.token(world.broker(world.settings(issuer="https://as.example")))


@pytest.mark.parametrize(("person", "server"), [(EMMA, "web"), (FINN, "mail")])
async def test_a_connection_that_was_sealed_for_somebody_else_is_not_used(world, person, server):
    broker = world.broker(world.settings(), world.settings("web"))
    await world.connected(broker)
    stolen = world.stores.connections.connection(EMMA.id, "mail")
    world.stores.connections.connect(replace(stolen, user_id=person.id, server=server))
    with pytest.raises(CredentialRequired, match="cannot be opened"):
        await world.token(broker, server, person)


async def test_a_client_that_acts_for_itself_has_no_account_and_nowhere_to_go(world):
    with pytest.raises(CredentialRequired) as required:
        await world.broker().headers("mail", "", "key")
    assert required.value.url == ""


async def test_a_server_that_is_not_ours_gets_nothing(world):
    assert list(await world.broker().headers("news", EMMA.id, "key")) == []
    with pytest.raises(CredentialRequired):
        await world.broker().rejected("news", EMMA.id, shown=(), status=401, challenge="")


class TestRefusedByTheUpstream:
    async def test_a_token_is_renewed_once_ahead_of_its_time(self, world):
        broker = world.broker()
        await world.connected(broker)
        world.clock.now += 60
        assert await rejected(broker, "at-1") == "at-2"
        with pytest.raises(CredentialRequired) as required:
            await rejected(broker, "at-2")
        assert (required.value.url, world.provider.refreshes()) == (CONNECT, 1)

    async def test_many_who_showed_the_old_token_get_the_new_one(self, world):
        broker = world.broker()
        await world.connected(broker)
        world.clock.now += 60
        got = await asyncio.gather(*(rejected(broker, "at-1") for _ in range(20)))
        assert (set(got), world.provider.refreshes()) == ({"at-2"}, 1)
        assert await rejected(broker, "at-1") == "at-2"

    async def test_what_was_disconnected_meanwhile_stays_so(self, world):
        broker = world.broker()
        with pytest.raises(CredentialRequired) as required:
            await rejected(broker, "at-1")
        assert required.value.url == CONNECT

    @pytest.mark.parametrize("status", [401, 403])
    async def test_a_missing_scope_leads_to_a_wider_connection(self, world, status):
        world.provider.protected = {"scopes_supported": ["read"]}
        broker = world.broker()
        await world.connected(broker)
        world.clock.now += 60
        challenge = 'Bearer error="insufficient_scope", scope="read write"'
        with pytest.raises(CredentialRequired) as required:
            await rejected(broker, "at-1", status=status, challenge=challenge)
        assert required.value.url == f"{CONNECT}?scope=write"
        assert world.provider.refreshes() == 0

    async def test_a_403_is_not_mended_by_a_newer_token(self, world):
        broker = world.broker()
        await world.connected(broker)
        world.clock.now += 60
        with pytest.raises(CredentialRequired):
            await rejected(broker, "at-1", status=403)
        assert world.provider.refreshes() == 0

    async def test_a_scope_that_the_operator_does_not_allow_helps_nobody(self, world):
        broker = world.broker(world.settings(scopes=("read",)))
        await world.connected(broker)
        challenge = 'Bearer error="insufficient_scope", scope="write"'
        with pytest.raises(CredentialRequired) as required:
            await rejected(broker, "at-1", status=403, challenge=challenge)
        assert required.value.url == ""
