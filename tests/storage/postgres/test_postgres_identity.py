"""Identity in PostgreSQL: of replicas that want the same one gets it, and what is lost is a no."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TypeVar

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from gateway.domain.approvals import ApprovalId
from gateway.errors import ConfigError, IdentityUnavailable, RateLimited
from gateway.storage.identity import standing
from gateway.storage.identity.standing import StandingAnswerTable
from gateway.storage.identity.statements import Statements
from gateway.storage.identity.store import IdentityStores
from gateway.storage.postgres import connection as connections
from gateway.storage.postgres import identity, jobs
from gateway.storage.postgres.connection import addressed, connect
from gateway.storage.postgres.identity import PostgresIdentityDatabase, open_identity
from tests.postgres import own
from tests.storage.identity.identities import NOW, Hand, code, grant, user
from tests.storage.identity.places import emptied, opened
from tests.storage.identity.test_identity_standing import Envelope, answer
from tests.storage.suite import client

T = TypeVar("T")

PATIENCE_S = 60


@pytest.fixture
def address(postgres):
    return emptied(postgres)


@pytest.fixture
def replicas(address):
    with (
        closing(opened(address, clock=Hand(), made=True)) as one,
        closing(opened(address, clock=Hand(), made=True)) as other,
    ):
        yield one, other


@pytest.fixture
def aside(address):
    """A connection that is nobody's."""
    with psycopg.connect(address, autocommit=True) as found:
        yield found


class Halting(PostgresIdentityDatabase):
    """One whose first job stops once it is done, and is committed when `go` has returned."""

    def __init__(self, address: str, go: Callable[[], object]) -> None:
        super().__init__(address)
        self._go = go
        self.stopped = threading.Event()

    def write(
        self, job: Callable[[Statements], T], *, committed: Callable[[T], None] | None = None
    ) -> T:
        def stopping(to: Statements) -> T:
            result = job(to)
            if not self.stopped.is_set():
                self.stopped.set()
                self._go()
            return result

        return super().write(stopping, committed=committed)


@contextmanager
def halting(address: str, go: Callable[[], object]) -> Iterator[tuple[Halting, IdentityStores]]:
    """Open a replica whose first write stops."""
    database = Halting(address, go)
    with closing(database):
        yield database, IdentityStores(database, clock=Hand())


def until_somebody_waits_for_a_lock(aside):
    """Another's statement has begun, and found what was there before ours is committed."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    while aside.execute(waiting).fetchone() == (0,):
        aside.execute("SELECT pg_sleep(0.005)")


def test_a_setup_link_that_two_replicas_redeem_at_once_is_used_once(address, replicas, aside):
    """In READ COMMITTED the second one, who has read the link and waits for the person, goes on."""
    one, _ = replicas
    one.users.add(user(), link_hash="link", link_until=NOW + 10)
    with (
        halting(address, lambda: until_somebody_waits_for_a_lock(aside)) as (database, stopping),
        ThreadPoolExecutor(1) as threads,
    ):
        first = threads.submit(stopping.users.redeem_link, "link", "$first", now=NOW)
        assert database.stopped.wait(PATIENCE_S)
        assert one.users.redeem_link("link", "$second", now=NOW) is None
        assert first.result(PATIENCE_S) == user()
    assert one.users.password_of("u_emma") == "$first"


def test_two_replicas_let_no_more_stand_than_one_would(address, replicas, aside, monkeypatch):
    monkeypatch.setattr(standing, "MOST_OF_ALL", 1)
    one, _ = replicas
    theirs = StandingAnswerTable(one.database, Envelope())
    with (
        halting(address, lambda: until_somebody_waits_for_a_lock(aside)) as (database, _),
        ThreadPoolExecutor(1) as threads,
    ):
        mine = StandingAnswerTable(database, Envelope())
        first = threads.submit(asyncio.run, mine.give(answer("a")))
        assert database.stopped.wait(PATIENCE_S)
        with pytest.raises(RateLimited):
            asyncio.run(theirs.give(answer("b", principal="another")))
        first.result(PATIENCE_S)
    assert aside.execute("SELECT id FROM standing_answers").fetchall() == [("a",)]


def test_what_others_write_all_the_time_is_told_to_be_unavailable(replicas, monkeypatch):
    monkeypatch.setattr(jobs, "MOST_TRIES", 3)
    tried = []

    def job(to):
        tried.append(to.execute("INSERT INTO revoked_tokens VALUES ('j', 1)").rowcount)
        raise psycopg.errors.SerializationFailure

    one, _ = replicas
    with pytest.raises(IdentityUnavailable) as raised:
        one.database.write(job, committed=lambda _: pytest.fail("it was not committed"))
    assert (tried, raised.value.detail) == ([1, 1, 1], "others wrote the same at each of 3 tries")
    assert one.database.read(lambda of: of.execute("SELECT * FROM revoked_tokens").rows) == ()


def end_its_connections(aside):
    aside.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'douane%'"
    )


def test_a_connection_that_was_lost_meanwhile_is_made_anew(replicas, aside):
    one, _ = replicas
    one.users.add(user())
    one.database.read(lambda of: of.execute("SELECT 1"))
    end_its_connections(aside)
    one.users.change("u_emma", groups=frozenset(), at=NOW)
    end_its_connections(aside)
    assert one.grants.grant("g") is None
    assert not one.follow()


def test_what_is_lost_before_it_is_committed_is_not_made(replicas, aside):
    one, _ = replicas

    def job(to):
        to.execute("INSERT INTO revoked_tokens VALUES ('j', 1)")
        end_its_connections(aside)

    with pytest.raises(IdentityUnavailable):
        one.database.write(job, committed=lambda _: pytest.fail("it was not committed"))
    assert aside.execute("SELECT * FROM revoked_tokens").fetchall() == []
    one.grants.revoke_token("j", until=NOW + 60)


async def test_what_cannot_be_read_after_a_change_does_not_stand_until_it_can(
    postgres, address, replicas, aside
):
    one, _ = replicas
    mine = StandingAnswerTable(one.database, Envelope())
    await mine.give(answer())
    name = address.partition("?")[0].rpartition("/")[2]

    def cut_off(_):
        postgres.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        end_its_connections(aside)

    try:
        one.database.write(
            lambda to: to.execute("INSERT INTO revoked_tokens VALUES ('j', 1)"), committed=cut_off
        )
    finally:
        postgres.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    assert mine.all() == []
    assert one.follow()
    assert mine.all() == [answer()]
    assert not one.follow()


def test_a_replica_that_stops_in_a_transaction_holds_up_nobody(address, replicas, monkeypatch):
    every = connections._OF_THE_SESSION
    shorter = {name: "200ms" for name in every if name.startswith("idle_in_transaction")}
    monkeypatch.setattr(connections, "_OF_THE_SESSION", {**every, **shorter})
    one, _ = replicas
    one.users.add(user())
    changed = threading.Event()
    with (
        halting(address, lambda: changed.wait(PATIENCE_S)) as (database, stopping),
        ThreadPoolExecutor(1) as threads,
    ):
        first = threads.submit(stopping.users.change, "u_emma", os_user="stopped", at=NOW)
        assert database.stopped.wait(PATIENCE_S)
        one.users.change("u_emma", os_user="went on", at=NOW)
        changed.set()
        with pytest.raises(IdentityUnavailable):
            first.result(PATIENCE_S)
        stopping.follow()
        assert stopping.users.all() == [user(os_user="went on")]


def test_a_server_that_does_not_answer_is_given_up(address, monkeypatch):
    monkeypatch.setattr(identity, "_PATIENCE_S", 0.5)
    stopped = []

    def job(to):
        ((served,),) = to.execute("SELECT pg_backend_pid()")
        os.kill(served, signal.SIGSTOP)
        stopped.append(served)
        to.execute("INSERT INTO revoked_tokens VALUES ('j', 1)")

    with closing(PostgresIdentityDatabase(address)) as database, ThreadPoolExecutor(1) as threads:
        try:
            with pytest.raises(IdentityUnavailable) as raised:
                threads.submit(database.write, job).result(PATIENCE_S)
            database.write(lambda to: to.execute("INSERT INTO revoked_tokens VALUES ('k', 1)"))
        finally:
            os.kill(stopped[0], signal.SIGCONT)
        assert raised.value.detail == "the server does not answer"
        tokens = database.read(lambda of: of.execute("SELECT token_id FROM revoked_tokens").rows)
        assert tokens == (("k",),)


def test_what_was_confirmed_is_there_after_the_server_has_crashed():
    with own({}) as server, closing(open_identity(server.fresh(), clock=Hand())) as stores:
        stores.users.add(user())
        stores.grants.revoke_token("j", until=NOW + 60)
        server.control("restart", "-m", "immediate", "-l", server.folder / "log")
        stores.users.add(user("ada"))
        assert not stores.follow()
        rows = stores.database.read(lambda of: of.execute("SELECT id FROM users").rows)
        assert sorted(rows) == [("u_ada",), ("u_emma",)]
        assert stores.database.read(lambda of: of.execute("SELECT * FROM revoked_tokens").rows)


def test_what_memory_does_not_hold_turns_nothing(replicas):
    one, other = replicas
    one.users.add(user())
    one.grants.issue_code(grant(), code())
    other.follow()
    one.grants.redeem_code("code", None, at=NOW)
    one.users.add_link("u_emma", "link", until=NOW + 1)
    one.grants.forget_expired(now=NOW)
    assert not other.follow()
    one.grants.revoke_grant("g", "test", at=NOW)
    assert other.follow()


def test_a_change_of_anothers_is_seen_though_we_have_made_one_since(replicas):
    one, other = replicas
    one.users.add(user())
    other.clients.add(client())
    assert other.users.find("u_emma") is None
    assert other.follow()
    assert other.users.find("u_emma") == user()


def test_every_change_ends_the_epoch_of_every_replica(replicas):
    one, other = replicas
    before = (one.epoch.now, other.epoch.now)
    one.users.add(user())
    assert one.epoch.now > before[0]
    other.follow()
    assert other.epoch.now > before[1]


@pytest.mark.parametrize("text", ["\x00", "\x10", "\x100", "\x10\x00", "0\x10", "\x10\x10", "100"])
def test_any_text_comes_back(replicas, text):
    one, other = replicas
    one.clients.add(client(name=text, homepage=text * 2))
    other.follow()
    assert other.clients.all() == [client(name=text, homepage=text * 2)]


def test_what_is_confirmed_is_on_the_disk_whatever_a_database_has_by_default(postgres):
    address = postgres.fresh()
    name = address.partition("?")[0].rpartition("/")[2]
    postgres.run(f"ALTER DATABASE {name} SET synchronous_commit = off")
    with closing(connect(address, application="test")) as own:
        assert own.execute("SHOW synchronous_commit").fetchone() == ("on",)


def test_nothing_that_takes_no_writes_is_connected_to(postgres):
    address = postgres.fresh()
    name = address.partition("?")[0].rpartition("/")[2]
    postgres.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with pytest.raises(psycopg.OperationalError, match="read-only"):
        connect(address, application="test")


def test_a_server_that_is_not_there_is_told_at_the_start(tmp_path):
    with pytest.raises(ConfigError, match="PostgreSQL cannot be used"):
        open_identity(f"postgresql:///douane?host={tmp_path}", clock=Hand())


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://emma:canary@[/douane",
        "postgresql://emma:its@canary@db/douane",
        "postgres://emma:canary/1@db/douane",
        "postgresql://emma:7/canary@db/douane?sslmode=require",
        "postgresql://emma:a?b@canary@db/douane",
        "postgresql://emma:canary?a/b@db/douane",
        "host=db password=its canary",
    ],
)
def test_an_address_that_is_none_is_not_repeated(address):
    """Nor is one that libpq reads in another way than whoever wrote it, and tells of what it read."""
    with pytest.raises(ConfigError) as raised:
        addressed(address)
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(
    ("address", "password"),
    [
        ("postgresql://emma:a%40b%2Fc@db:5432/douane", "a@b/c"),
        ("postgresql://emma:a?b@db/douane", "a?b"),
        ("postgresql://emma@/douane?passfile=/etc/a@b", None),
        ("host=db user=emma password=a@b/c", "a@b/c"),
        ("password='a://b@c@d/e' host=db", "a://b@c@d/e"),
    ],
)
def test_a_password_may_hold_anything_where_it_is_spelled_well(address, password):
    assert conninfo_to_dict(addressed(address)).get("password") == password


def test_what_cannot_be_understood_is_refused_at_the_start(address, aside):
    with closing(open_identity(address, clock=Hand())) as stores:
        stores.clients.add(client())
    aside.execute("UPDATE clients SET kind = 'unheard of'")
    with pytest.raises(ConfigError, match="'unheard of'"):
        open_identity(address, clock=Hand())


def test_a_closed_database_is_not_opened_again(address):
    database = PostgresIdentityDatabase(address)
    database.close()
    with pytest.raises(IdentityUnavailable):
        database.read(lambda of: of.execute("SELECT 1"))


async def test_an_answer_that_another_replica_ended_can_be_given_again(replicas):
    one, other = replicas
    mine, theirs = (StandingAnswerTable(each.database, Envelope()) for each in (one, other))
    await mine.give(answer())
    other.follow()
    assert await theirs.end(ApprovalId("a_1"), "because")
    await mine.give(answer("a_2"))
    assert [each.id for each in mine.all()] == ["a_2"]
    assert await theirs.ended() == [(answer(), "because")]


def test_the_tables_are_those_of_sqlite(aside, tmp_path):
    """Whoever adds a column there adds it here."""
    with closing(IdentityStores.open(tmp_path, clock=Hand())) as filed:
        in_file = filed.database.read(
            lambda of: (
                of.execute(
                    "SELECT t.name, c.name FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c"
                    " WHERE t.type = 'table' AND t.name NOT LIKE '\\_sqlite%' ESCAPE '\\'"
                    " AND t.name <> 'identity_version'"
                ).rows
            )
        )
    shared = aside.execute(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
        " AND table_name NOT IN ('schema_migrations', 'identity_version', 'keys', 'disclosures')"
    ).fetchall()
    assert set(shared) == set(in_file)
