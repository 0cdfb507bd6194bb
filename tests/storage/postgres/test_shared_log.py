"""What reads and follows the log in PostgreSQL: where a record stands, and whose turn it is."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from itertools import count
from typing import Any

import pytest

from gateway.audit.checkpoint import VerifierKey, open_checkpoint
from gateway.audit.merkle import leaf_hash
from gateway.audit.query import QueryError, QueryTooLong
from gateway.domain.audit import UNPLACED, LogEntry
from gateway.errors import AuditUnavailable
from gateway.storage.connection import Unanswered
from gateway.storage.postgres import answers, following, log_views
from gateway.storage.postgres.connection import Connection
from gateway.storage.postgres.following import PostgresTurn
from gateway.storage.postgres.locks import Lock
from gateway.storage.postgres.log_views import PostgresLog
from gateway.storage.postgres.reading import Reading
from gateway.storage.tree import front_of
from gateway.storage.verify import Finding
from tests.storage.postgres.shared import (
    KEY,
    PATIENCE_S,
    Replica,
    leading,
    ordered,
    record,
    replica,
)

_NOWHERE = "postgresql://postgres@/t?host=/nonexistent"
_END_READERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE application_name = 'douane reader' AND datname = current_database()"
)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_EVERY_S", 0.01)


async def appended(made: Replica, number: int, start: int = 0) -> None:
    await asyncio.gather(
        *(made.ledger.append(record(f"e{n}")) for n in range(start, start + number))
    )


@asynccontextmanager
async def logged(address: str, number: int) -> AsyncIterator[PostgresLog]:
    async with replica(address) as made:
        await appended(made, number)
    ordered(address)
    with closing(PostgresLog(address)) as log:
        yield log


async def test_a_record_without_a_place_says_so_and_then_has_one(
    address: str, owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_views, "_PLACED_WITHIN_S", 0.0)
    with closing(PostgresLog(address)) as log, closing(log.reader()) as reader:
        async with replica(address) as made:
            entry = await made.ledger.append(record("one"))
        assert entry == LogEntry(id="one", leaf_index=UNPLACED)
        assert await log.place("one") is None
        assert (log.has("one"), log.has("other"), log.newest()) == (True, False, -1)
        assert reader.waits("one")
        assert reader.find("one") is None
        assert log.lag_s() > 0.0
        assert await log.placed(entry) == 0  # it would come next
        with pytest.raises(LookupError, match="no place yet"):
            reader.inclusion("one")
        leader = leading(owner)
        leader.step()
        assert await log.place("one") == 0
        assert (reader.waits("one"), log.lag_s()) == (False, 0.0)
        with pytest.raises(LookupError, match="not signed yet"):
            reader.inclusion("one")
        leader.sign()
        assert reader.inclusion("one").size == 1


async def test_a_place_is_waited_for(
    address: str, owner: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_views, "_PLACED_WITHIN_S", PATIENCE_S)
    leader = leading(owner)
    with closing(PostgresLog(address)) as log:
        async with replica(address) as made:
            entry = await made.ledger.append(record("one"))
            looked = asyncio.Event()
            look, loop = log._looked, asyncio.get_running_loop()

            def looking(at: Any) -> Any:
                found = look(at)
                loop.call_soon_threadsafe(looked.set)
                return found

            monkeypatch.setattr(log, "_looked", looking)
            waiting = asyncio.create_task(log.placed(entry))
            await looked.wait()
            leader.step()
            assert await waiting == 0


async def test_followers_read_records_and_checkpoints_in_order(address: str) -> None:
    async with logged(address, 300) as log:
        async with replica(address) as made:
            await appended(made, 30, 300)
        ordered(address)
        with (
            closing(log.records()) as records,
            closing(log.checkpoints()) as checkpoints,
            closing(log.newest_checkpoint()) as newest,
            closing(log.reader()) as reader,
        ):
            page = records.stored_after(-1, 310)
            assert [one.leaf_index for one in page] == list(range(310))
            assert all(one.leaf_hash == leaf_hash(one.body) for one in page)
            assert [one.leaf_index for one in records.stored_after(309, 100)] == [*range(310, 330)]
            signed = checkpoints.stored_after(-1, 10)
            assert [one.leaf_index for one in signed] == [299, 329]
            assert newest.stored_after(-1, 10) == signed[-1:]
            assert newest.stored_after(329, 10) == []
            verifier = VerifierKey.of(reader.log_id, KEY)
            assert open_checkpoint(signed[0].body.decode(), verifier).size == 300
            assert log.verify(verifier).finding is Finding.OK


def test_what_cannot_be_read_is_said_to_be_unavailable() -> None:
    with closing(PostgresLog(_NOWHERE)) as log, closing(log.records()) as records:
        for look in (
            log.newest,
            log.lag_s,
            lambda: log.has("x"),
            lambda: records.stored_after(-1, 1),
            lambda: log.index().catch_up(lambda: True),
            lambda: log.answers().signed(),
        ):
            with pytest.raises(AuditUnavailable):
                look()


async def test_a_database_that_is_down_is_neither_whole_nor_busy() -> None:
    with closing(PostgresLog(_NOWHERE)) as log:
        with pytest.raises(Unanswered):
            front_of(log.opened())
        with pytest.raises(AuditUnavailable):
            async with log.alone():
                pass


@pytest.mark.parametrize("at", [0, 2, 4, 6])
async def test_a_connection_that_is_lost_while_the_log_is_verified_finds_nothing(
    address: str, owner: Connection, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    async with logged(address, 3) as log:
        with closing(log.reader()) as reader:
            verifier = VerifierKey.of(reader.log_id, KEY)
        read, numbers = Reading.execute, count()

        def cut(self: Reading, *given: Any) -> Any:
            if next(numbers) == at:
                owner.execute(_END_READERS)
            return read(self, *given)

        with monkeypatch.context() as cutting:
            cutting.setattr(Reading, "execute", cut)
            with pytest.raises(AuditUnavailable):
                log.verify(verifier)
        assert next(numbers) > at
        assert log.verify(verifier).finding is Finding.OK


async def test_a_reader_cannot_write(address: str) -> None:
    async with logged(address, 1) as log:
        with (
            closing(log.reader()) as reader,
            pytest.raises(sqlite3.OperationalError, match="read-only"),
        ):
            reader._connection.execute("INSERT INTO cursors VALUES ('x', 0)")


async def test_a_reader_comes_back_after_its_connection_was_ended(
    address: str, owner: Connection
) -> None:
    async with logged(address, 3) as log:
        with closing(log.reader()) as reader:
            assert reader.newest() == 2
            owner.execute(_END_READERS)
            assert reader.newest() == 2


async def test_one_replica_follows_and_the_next_one_when_it_ends(address: str) -> None:
    one, other = PostgresTurn(address), PostgresTurn(address)
    await one.taken()
    assert not other.tried()
    waiting = asyncio.create_task(other.taken())
    one.close()
    await waiting
    assert not one.tried()
    other.close()
    one.close()


async def test_a_turn_is_given_back_before_its_session_has_ended(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server at work notices late who has gone."""
    one, other = PostgresTurn(address), PostgresTurn(address)
    assert one.tried()
    assert one.tried()
    assert not other.tried()
    assert one._connection is not None
    session = one._connection
    monkeypatch.setattr(session, "close", lambda: None)
    one.close()
    assert other.tried()
    other.close()
    monkeypatch.undo()
    session.close()


async def test_whoever_lost_its_session_follows_no_more(address: str, owner: Connection) -> None:
    turn = PostgresTurn(address)
    await turn.taken()
    lost = asyncio.create_task(turn.lost())
    assert turn._has_it()
    owner.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'douane following' AND datname = current_database()"
    )
    await lost
    await turn.taken()
    turn.close()


async def test_whoever_stands_still_holds_the_turn_against_nobody(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session is there as long as it stands: the server gives up one of which nothing is heard."""
    monkeypatch.setattr(following, "_ASKS", {Lock.FOLLOW: {"idle_session_timeout": "1s"}})
    still, other = PostgresTurn(address), PostgresTurn(address)
    assert still.tried()
    assert not other.tried()
    await asyncio.wait_for(other.taken(), PATIENCE_S)
    assert not still._has_it()
    assert not still.tried()
    other.close()
    still.close()


async def test_the_index_is_made_by_one_replica_at_a_time(address: str, owner: Connection) -> None:
    async with logged(address, 20) as log, logged(address, 0):
        with closing(log.index()) as index, closing(log.index()) as other:
            with owner.transaction():
                owner.execute("SELECT * FROM words.progress FOR UPDATE")
                found = index.catch_up(lambda: True)
                assert (found.through, found.newest, found.caught_up) == (-1, 19, False)
            assert index.catch_up(lambda: False).caught_up
            assert other.catch_up(lambda: True).through == 19
    ((names,),) = owner.execute("SELECT count(*) FROM words.names").fetchall()
    assert names == 1  # of records that are no calls


async def test_an_answer_tells_that_the_log_itself_is_late(address: str, owner: Connection) -> None:
    async with logged(address, 5) as log, replica(address) as made:
        await made.ledger.append(record("late"))
        with closing(log.index()) as index:
            found = index.catch_up(lambda: False)
            assert found.lag_s > 0.0
            assert (found.caught_up, found.complete) == (True, not found.late)
            leading(owner).step()
            assert index.catch_up(lambda: False).lag_s == 0.0


async def test_changes_beside_the_log_are_made_whole_or_not_at_all(
    address: str, owner: Connection
) -> None:
    with closing(PostgresLog(address)) as log:

        def job(connection: Connection) -> None:
            connection.execute("INSERT INTO cursors VALUES ('a', 1)")
            connection.execute("INSERT INTO cursors VALUES ('a', 2)")

        with pytest.raises(sqlite3.IntegrityError):
            await log.jobs.run(job)
        assert owner.execute("SELECT count(*) FROM cursors").fetchall() == [(0,)]
    with closing(PostgresLog(_NOWHERE)) as away, pytest.raises(AuditUnavailable):
        await away.jobs.run(job)


async def test_a_read_that_takes_too_long_is_given_up(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "LONGEST_READ_S", 0.05)
    with closing(answers.PostgresAnswers.open(address)) as found:
        with pytest.raises(QueryTooLong, match="narrow it by --since"):
            found._rows("SELECT pg_sleep(60)", ())
        assert found.signed() == 0


def test_too_much_in_a_condition_is_said_to_be_that(address: str) -> None:
    with closing(answers.PostgresAnswers.open(address)) as found:
        with pytest.raises(QueryError, match="nest less"):
            found._rows("SELECT 1" + " + 1" * 100_000, ())
        with pytest.raises(AuditUnavailable):
            found._rows("DELETE FROM audit", ())
