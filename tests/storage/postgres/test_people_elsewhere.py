"""Whoever was signed out at one replica calls nothing at another, from the moment on that it is told."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, closing, contextmanager

import pytest

from gateway.domain.premises import NOTHING, Premise
from gateway.errors import Changed
from gateway.storage.identity.store import IdentityStores
from gateway.storage.postgres.connection import Connection
from gateway.storage.postgres.identity import PostgresIdentityDatabase
from tests.storage.identity.identities import NOW, Hand, grant, user
from tests.storage.postgres.shared import Replica, in_tray, record, replica, resting_on, with_runs
from tests.storage.suite import client


@contextmanager
def people_of(address: str) -> Iterator[IdentityStores]:
    with closing(IdentityStores(PostgresIdentityDatabase(address), clock=Hand())) as stores:
        yield stores


class Gateway:
    """What a replica knows of people, and its end of the log."""

    def __init__(self, people: IdentityStores, end: Replica) -> None:
        self.people = people
        self.end = end

        async def follow() -> None:
            await asyncio.to_thread(people.follow)

        end.ledger._memories = {Premise.PEOPLE: follow, Premise.STANDING: follow}

    async def call(self, name: str) -> None:
        """Make a call by a grant that may have been revoked: decided on memory, then put."""
        known = self.people.people
        if self.people.grants.is_revoked("g", ""):
            raise PermissionError
        await asyncio.sleep(0)
        await self.end.ledger.put(record(name), resting_on("r", people=known), NOTHING)


@pytest.fixture
async def two(address: str, owner: Connection) -> AsyncIterator[tuple[Gateway, Gateway]]:
    with_runs(owner, "r")
    async with AsyncExitStack() as stack:
        made = [
            Gateway(
                stack.enter_context(people_of(address)),
                await stack.enter_async_context(replica(address, name)),
            )
            for name in ("one", "other")
        ]
        first = made[0].people
        first.users.add(user())
        first.clients.add(client())
        first.grants.begin_family(grant(), None)
        made[1].people.follow()
        yield made[0], made[1]


async def test_a_revocation_at_one_replica_is_exact_at_another(
    two: tuple[Gateway, Gateway], owner: Connection
) -> None:
    """The other one's memory says still that all is well, and nobody follows for it."""
    one, other = two
    await other.call("before")
    one.people.grants.revoke_grant("g", "test", at=NOW)
    with pytest.raises(Changed) as found:
        await other.call("after")
    assert found.value.what == {Premise.PEOPLE}
    with pytest.raises(PermissionError):
        await other.call("again")
    assert in_tray(owner) == ["before"]


async def test_calls_under_way_go_out_before_the_revocation_or_not_at_all(
    two: tuple[Gateway, Gateway], owner: Connection
) -> None:
    one, other = two
    over = asyncio.Event()
    late: list[str] = []

    async def calls(caller: int) -> None:
        for n in range(60):
            was_over = over.is_set()
            try:
                await other.call(f"{caller}-{n}")
            except (Changed, PermissionError):
                continue
            if was_over:
                late.append(f"{caller}-{n}")

    async def revokes() -> None:
        while len(in_tray(owner)) < 20:
            await asyncio.sleep(0.001)
        await asyncio.to_thread(one.people.grants.revoke_grant, "g", "test", at=NOW)
        over.set()

    await asyncio.gather(revokes(), *(calls(caller) for caller in range(8)))
    assert late == []
    assert 20 <= len(in_tray(owner)) < 480


async def test_others_go_on_when_somebody_is_signed_out(
    two: tuple[Gateway, Gateway], owner: Connection
) -> None:
    one, other = two
    one.people.grants.revoke_token("j", until=NOW + 60)
    with pytest.raises(Changed):
        await other.call("once")
    await other.call("again")
    assert in_tray(owner) == ["again"]
