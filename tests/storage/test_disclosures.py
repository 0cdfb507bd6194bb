"""Who has read what of tools: kept by hashes, for as long as it is used, and over a restart."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.descriptions import Reader
from gateway.errors import AuditUnavailable
from gateway.ports.descriptions import DisclosureStore
from gateway.storage import disclosures as kept_in_memory
from gateway.storage.database import DATABASE
from gateway.storage.disclosures import (
    Change,
    DisclosureLedger,
    Disclosures,
    SqliteDisclosureLedger,
)
from gateway.storage.postgres import disclosures as kept_in_postgres
from gateway.storage.postgres.disclosures import SharedDisclosureLedger
from gateway.storage.postgres.identity import PostgresIdentityDatabase
from gateway.storage.store import Store
from tests.storage.identity.places import emptied
from tests.storage.memory_people import MemoryDisclosureLedger

NOW, IDLE = 1_763_744_000.0, 3600.0
ALICE = Reader(principal="gate|alice|agent", person="gate|alice")
BOB = Reader(principal="gate|bob|agent", person="gate|bob")
CAROL = Reader(principal="gate|carol|agent", person="gate|carol")
FIRST = Reader(principal=ALICE.principal, person=ALICE.person, session="s1")
SECOND = Reader(principal=ALICE.principal, person=ALICE.person, session="s2")
SEND = "mail/tool/send sha256:1"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path / "var", clock=lambda: NOW)
    yield opened
    await opened.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def ledger(request: pytest.FixtureRequest) -> Iterator[DisclosureLedger]:
    if request.param == "memory":
        yield MemoryDisclosureLedger()
    elif request.param == "sqlite":
        yield SqliteDisclosureLedger(request.getfixturevalue("store").writer)
    else:
        address = emptied(request.getfixturevalue("postgres"))
        with closing(PostgresIdentityDatabase(address)) as database:
            yield SharedDisclosureLedger(database, most_of_one=3, most_of_all=4)


@pytest.fixture
def disclosures(ledger: DisclosureLedger) -> DisclosureStore:
    return Disclosures(ledger, b"key", most_of_one=3)


def rows(store: Store) -> list[Any]:
    with closing(sqlite3.connect(store.data_dir / DATABASE)) as connection:
        return connection.execute("SELECT owner, key, used FROM disclosures").fetchall()


async def used(
    disclosures: DisclosureStore, reader: Reader = ALICE, described: str = SEND, at: float = NOW
) -> bool:
    return await disclosures.use(reader, described, now=at, idle_s=IDLE)


async def test_what_was_told_counts_and_nothing_else(disclosures: DisclosureStore) -> None:
    assert not await used(disclosures)
    await disclosures.disclose(ALICE, [SEND], now=NOW)
    assert await used(disclosures)
    assert not await used(disclosures, described="mail/tool/send sha256:2")
    assert not await used(disclosures, described="notes/tool/send sha256:1")


async def test_it_counts_for_its_reader_alone(disclosures: DisclosureStore) -> None:
    await disclosures.disclose(FIRST, [SEND], now=NOW)
    assert await used(disclosures, FIRST)
    assert not await used(disclosures, SECOND)
    assert not await used(disclosures, ALICE)
    assert not await used(disclosures, BOB)
    assert not await used(
        disclosures, Reader(principal=BOB.principal, person=BOB.person, session="s1")
    )


async def test_names_that_run_into_each_other_are_told_apart(disclosures: DisclosureStore) -> None:
    await disclosures.disclose(Reader(principal="a", person="a", session="bc"), ["d"], now=NOW)
    assert not await used(disclosures, Reader(principal="ab", person="ab", session="c"), "d")
    assert not await used(disclosures, Reader(principal="a", person="a", session="b"), "cd")


async def test_each_use_begins_the_idle_time_anew(disclosures: DisclosureStore) -> None:
    await disclosures.disclose(ALICE, [SEND], now=NOW)
    for hour in range(1, 4):
        assert await used(disclosures, at=NOW + hour * IDLE)
    assert not await used(disclosures, at=NOW + 4 * IDLE + 1)


async def test_to_be_told_again_is_a_use(disclosures: DisclosureStore) -> None:
    await disclosures.disclose(ALICE, [SEND], now=NOW)
    await disclosures.disclose(ALICE, [SEND], now=NOW + IDLE)
    assert await used(disclosures, at=NOW + 2 * IDLE)


async def test_a_clock_that_was_set_back_ends_nothing(disclosures: DisclosureStore) -> None:
    await disclosures.disclose(ALICE, [SEND], now=NOW)
    assert await used(disclosures, at=NOW - 10 * IDLE)
    assert await used(disclosures, at=NOW + IDLE)


async def test_what_is_not_used_is_forgotten(disclosures: DisclosureStore) -> None:
    await disclosures.disclose(ALICE, [SEND, "other"], now=NOW)
    await disclosures.disclose(BOB, [SEND], now=NOW)
    assert await used(disclosures, at=NOW + 10)
    assert await disclosures.forget(before=NOW) == 0
    assert await disclosures.forget(before=NOW + 10) == 2
    assert await used(disclosures)
    assert not await used(disclosures, described="other")
    assert not await used(disclosures, BOB)


async def test_what_is_told_while_it_is_forgotten_stays(disclosures: DisclosureStore) -> None:
    await disclosures.disclose(ALICE, [SEND], now=NOW)
    await asyncio.gather(
        disclosures.disclose(ALICE, [SEND], now=NOW + 10), disclosures.forget(before=NOW + 5)
    )
    assert await used(disclosures, at=NOW + 10)


async def test_of_one_principal_the_longest_unused_go_first(disclosures: DisclosureStore) -> None:
    await disclosures.disclose(BOB, ["a"], now=NOW)
    for at, described in enumerate("abc"):
        await disclosures.disclose(FIRST, [described], now=NOW + at)
    assert await used(disclosures, FIRST, "a", NOW + 3)
    await disclosures.disclose(SECOND, ["d"], now=NOW + 4)
    assert [await used(disclosures, FIRST, each) for each in "abc"] == [True, False, True]
    assert await used(disclosures, SECOND, "d")
    assert await used(disclosures, BOB, "a")


async def test_one_persons_clients_have_one_share_together(disclosures: DisclosureStore) -> None:
    for number, at in enumerate("abcd"):
        one = Reader(principal=f"gate|alice|c{number}", person="gate|alice")
        await disclosures.disclose(one, [at], now=NOW + number)
    assert not await used(
        disclosures, Reader(principal="gate|alice|c0", person="gate|alice"), "a", NOW + 3
    )
    assert await used(
        disclosures, Reader(principal="gate|alice|c1", person="gate|alice"), "b", NOW + 3
    )


async def test_what_an_earlier_version_filed_under_a_client_goes_on_for_that_client(
    disclosures: DisclosureStore,
) -> None:
    await disclosures.disclose(replace(FIRST, person=FIRST.principal), [SEND], now=NOW)
    assert not await used(disclosures, SECOND)
    assert not await used(disclosures, replace(FIRST, principal="gate|alice|other"))
    assert not await used(disclosures, FIRST, at=NOW + IDLE + 1)
    assert await used(disclosures, FIRST, at=NOW + IDLE)
    assert await disclosures.forget(before=NOW + 1) == 1
    assert await used(disclosures, FIRST, at=NOW + 2 * IDLE)


async def test_of_all_so_many_are_kept_and_whoever_has_most_makes_way(
    disclosures: DisclosureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_in_memory, "MOST_OF_ALL", 4)
    await disclosures.disclose(BOB, ["a"], now=NOW)
    for at, described in enumerate("abc"):
        await disclosures.disclose(ALICE, [described], now=NOW + at)
    await disclosures.disclose(CAROL, ["a"], now=NOW + 3)
    assert isinstance(disclosures, Disclosures)
    assert len(disclosures._written) == 4
    assert await used(disclosures, BOB, "a")
    assert await used(disclosures, CAROL, "a", NOW + 3)
    assert [await used(disclosures, ALICE, each, NOW + 3) for each in "abc"] == [False, True, True]


async def test_much_is_forgotten_some_at_a_time(
    ledger: DisclosureLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (kept_in_memory, kept_in_postgres):
        monkeypatch.setattr(module, "PART", 3)
    disclosures, made, sizes = Disclosures(ledger, b"key"), ledger.make, []

    async def noted(change: Change, committed: Callable[[Change], None]) -> None:
        sizes.append(len(change.gone))
        await made(change, committed)

    for one in (ALICE, BOB):
        await disclosures.disclose(one, list("abc"), now=NOW)
    await disclosures.disclose(CAROL, ["a", "b"], now=NOW)
    await disclosures.disclose(CAROL, ["c"], now=NOW + 10)
    monkeypatch.setattr(ledger, "make", noted)
    assert await disclosures.forget(before=NOW + 5) == 8
    assert max(sizes) <= 3
    assert await used(disclosures, CAROL, "c", NOW + 10)
    assert not await used(disclosures, CAROL, "a", NOW + 10)
    assert await disclosures.forget(before=NOW + 5) == 0


async def test_the_file_holds_no_names(store: Store) -> None:
    await store.disclosures.disclose(FIRST, [SEND], now=NOW)
    ((owner, key, at),) = rows(store)
    assert (len(owner), len(key), at) == (32, 32, NOW)
    await store.close()
    content = b"".join(path.read_bytes() for path in store.data_dir.glob(f"{DATABASE}*"))
    for name in ("alice", "send", "s1|", "sha256:1"):
        assert name.encode() not in content


async def test_other_keys_give_other_hashes(store: Store) -> None:
    for key in (b"1", b"2"):
        made = Disclosures(SqliteDisclosureLedger(store.writer), key)
        await made.disclose(ALICE, [SEND], now=NOW)
    assert len({row[:2] for row in rows(store)}) == 2


@pytest.fixture
def reopened(tmp_path: Path, store: Store) -> Callable[[], Awaitable[Store]]:
    async def reopen() -> Store:
        await store.close()
        return await Store.open(tmp_path / "var", clock=lambda: NOW)

    return reopen


async def test_it_survives_a_restart(
    store: Store, reopened: Callable[[], Awaitable[Store]]
) -> None:
    await store.disclosures.disclose(FIRST, [SEND, "other"], now=NOW)
    again = await reopened()
    try:
        assert await used(again.disclosures, FIRST)
        assert not await used(again.disclosures, SECOND)
        assert not await used(again.disclosures, FIRST, at=NOW + 2 * IDLE)
    finally:
        await again.close()


async def test_after_a_restart_a_use_is_at_most_a_tenth_older(store: Store) -> None:
    await store.disclosures.disclose(ALICE, [SEND], now=NOW)
    for second in range(1, 1000):
        assert await used(store.disclosures, at=NOW + second)
    ((_, _, at),) = rows(store)
    assert at == NOW + 722  # one second more than a tenth of an hour, twice


async def test_what_cannot_be_kept_is_not_kept(store: Store) -> None:
    await store.disclosures.disclose(ALICE, [SEND], now=NOW)
    await store.writer.close()
    with pytest.raises(AuditUnavailable):
        await store.disclosures.disclose(ALICE, ["other"], now=NOW)
    assert not await used(store.disclosures, described="other")
    assert await used(store.disclosures)
    with pytest.raises(AuditUnavailable):
        await store.disclosures.forget(before=NOW + 1)
    assert await used(store.disclosures)


async def test_it_is_durable_before_it_counts(store: Store) -> None:
    waiting = asyncio.ensure_future(store.disclosures.disclose(ALICE, [SEND], now=NOW))
    await asyncio.sleep(0)
    assert not await used(store.disclosures)
    await waiting
    assert len(rows(store)) == 1
    assert await used(store.disclosures)


async def test_what_was_forgotten_is_gone_from_the_file(store: Store) -> None:
    await store.disclosures.disclose(ALICE, [SEND], now=NOW)
    await store.disclosures.disclose(ALICE, ["other"], now=NOW + 10)
    await store.disclosures.forget(before=NOW + 5)
    assert [at for _, _, at in rows(store)] == [NOW + 10]
