"""The database itself: what another process changed is seen, and what cannot be written is no."""

import os
import sqlite3
import stat
from contextlib import closing

import pytest

from gateway.errors import ConfigError, IdentityUnavailable
from gateway.storage.identity.database import SqliteIdentityDatabase
from gateway.storage.identity.store import IdentityStores
from tests.storage.identity.identities import NOW, Hand, code, connection, grant, user
from tests.storage.suite import client, everything


def test_nothing_is_followed_while_nobody_else_writes(stores, elsewhere):
    elsewhere.follow()
    assert not elsewhere.follow()
    elsewhere.users.add(user())
    assert not elsewhere.follow()
    stores.users.add(user("ada"))
    assert elsewhere.follow()
    assert not elsewhere.follow()


def test_what_another_process_changed_is_seen_after_following(stores, elsewhere):
    stores.users.add(user())
    stores.clients.add(client())
    stores.grants.begin_family(grant(), None)
    stores.grants.revoke_grant("g", "test", at=NOW)
    stores.grants.revoke_token("j", until=NOW + 60)
    assert elsewhere.users.find("u_emma") is None
    assert elsewhere.clients.find("c_1") is None
    assert not elsewhere.grants.is_revoked("g", "j")
    assert elsewhere.follow()
    assert elsewhere.users.find("u_emma") == user()
    assert elsewhere.clients.find("c_1") == client()
    assert elsewhere.grants.is_revoked("g", "")
    assert elsewhere.grants.is_revoked("", "j")
    stores.users.remove("u_emma", at=NOW)
    stores.clients.remove("c_1")
    assert elsewhere.follow()
    assert elsewhere.users.find("u_emma") is None
    assert elsewhere.clients.find("c_1") is None


def test_a_revocation_elsewhere_is_followed(stores, elsewhere):
    stores.grants.begin_family(grant(), None)
    elsewhere.follow()
    stores.grants.revoke_grant("g", "test", at=NOW)
    assert elsewhere.follow()
    assert elsewhere.grants.is_revoked("g", "")


def test_a_token_that_was_revoked_elsewhere_is_followed(stores, elsewhere):
    stores.grants.revoke_token("j", until=NOW + 60)
    assert elsewhere.follow()
    assert elsewhere.grants.is_revoked("", "j")


def test_what_the_tables_refuse_unasked_is_unavailable(stores):
    stores.grants.issue_code(grant(), code())
    with pytest.raises(IdentityUnavailable):
        stores.grants.begin_family(grant(), None)
    with pytest.raises(IdentityUnavailable):
        stores.grants.issue_code(grant("other"), code())
    assert stores.grants.grant("other") is None


def test_an_object_is_another_only_if_its_row_changed(stores, elsewhere):
    for name in ("emma", "ada"):
        stores.users.add(user(name))
    for name in ("c_1", "c_2"):
        stores.clients.add(everything(name))
    elsewhere.follow()
    before = {
        one: (one.users.find("u_emma"), one.users.find("u_ada"), one.clients.find("c_1"))
        for one in (stores, elsewhere)
    }
    stores.users.change("u_ada", groups=frozenset(), at=NOW)
    stores.users.change("u_emma", groups=user().groups, at=NOW)
    stores.clients.remove("c_2")
    elsewhere.follow()
    for one in (stores, elsewhere):
        emma, ada, agent = before[one]
        assert one.users.find("u_emma") is emma
        assert one.clients.find("c_1") is agent
        assert one.users.find("u_ada") is not ada
        assert one.users.find("u_ada") == user("ada", groups=frozenset())


def test_a_commit_between_two_memories_filling_is_followed(tmp_path):
    """The first one was filled before, so it has to be filled again."""
    with (
        closing(SqliteIdentityDatabase.open(tmp_path)) as one,
        closing(SqliteIdentityDatabase.open(tmp_path)) as other,
    ):
        filled: list[int] = []

        def count(connection):
            ((rows,),) = connection.execute("SELECT count(*) FROM revoked_tokens")
            filled.append(rows)

        one.remembers(count)
        other.write(lambda to: to.execute("INSERT INTO revoked_tokens VALUES ('j', 1)"))
        one.remembers(count)
        assert one.follow()
        assert filled == [0, 1, 1, 1]


def test_memory_holds_nothing_that_was_not_committed(filed, tmp_path):
    """The disk refuses the commit itself."""
    with closing(sqlite3.connect(tmp_path / "identity.db", isolation_level=None)) as blocking:
        blocking.execute("BEGIN IMMEDIATE")
        filed.database._connection.execute("PRAGMA busy_timeout = 1")
        attempts = (
            lambda: filed.users.add(user()),
            lambda: filed.clients.add(client()),
            lambda: filed.grants.revoke_token("j", until=NOW + 60),
            lambda: filed.grants.issue_code(grant(), code()),
        )
        for attempt in attempts:
            with pytest.raises(IdentityUnavailable, match="not available at the moment"):
                attempt()
        blocking.execute("ROLLBACK")
    assert filed.users.all() == filed.clients.all() == []
    assert not filed.grants.is_revoked("", "j")
    filed.users.add(user())


def test_a_job_that_raises_changes_nothing(tmp_path):
    def job(connection):
        connection.execute("INSERT INTO revoked_tokens VALUES ('j', 1)")
        raise LookupError

    with closing(SqliteIdentityDatabase.open(tmp_path)) as database:
        with pytest.raises(LookupError):
            database.write(job, committed=lambda _: pytest.fail("it was not committed"))
        assert database.read(lambda of: of.execute("SELECT * FROM revoked_tokens").fetchall()) == ()


def test_a_database_that_was_renamed_or_deleted_is_not_written_until_it_is_back(filed, tmp_path):
    for name in ("identity.db", "identity.db-wal"):
        (tmp_path / name).rename(tmp_path / "elsewhere")
        with pytest.raises(IdentityUnavailable, match="renamed or deleted"):
            filed.users.add(user())
        (tmp_path / "elsewhere").rename(tmp_path / name)
    filed.users.add(user())


def test_commits_wait_for_the_disk(filed):
    (level,) = filed.database._connection.execute("PRAGMA synchronous").fetchone()
    assert level == 2


def test_it_is_its_owners_alone(tmp_path):
    before = os.umask(0)
    try:
        with closing(IdentityStores.open(tmp_path, clock=Hand())) as stores:
            stores.users.add(user())
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(["identity.db", "identity.db-wal", "identity.db-shm"], 0o600)


def test_a_newer_database_is_refused(tmp_path):
    with closing(SqliteIdentityDatabase.open(tmp_path)) as database:
        database.write(
            lambda to: to.execute(
                "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
                " VALUES ('identity', 'm999_later', '2099')"
            )
        )
    with pytest.raises(ConfigError, match="newer than this version"):
        IdentityStores.open(tmp_path, clock=Hand())


def test_what_is_no_database_or_holds_what_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "identity.db").write_bytes(b"not a database, but long enough " * 200)
    with pytest.raises(ConfigError, match=r"identity\.db cannot be"):
        IdentityStores.open(tmp_path / "one", clock=Hand())
    (tmp_path / "two").mkdir()
    with closing(IdentityStores.open(tmp_path / "two", clock=Hand())) as stores:
        stores.clients.add(client())
        stores.database.write(lambda to: to.execute("UPDATE clients SET kind = 'unheard of'"))
    with pytest.raises(ConfigError, match=r"identity\.db cannot be used: .*'unheard of'"):
        IdentityStores.open(tmp_path / "two", clock=Hand())


def test_what_is_secret_is_not_shown(stores):
    stores.users.add(user(), link_hash="link", link_until=NOW + 10)
    stores.users.redeem_link("link", "$argon2id$canary", now=NOW)
    stores.connections.connect(connection())
    stores.clients.add(client())
    assert "canary" not in repr(stores.users.all())
    assert "sealed 1" not in repr(stores.connections.connections())
    assert "sha256" not in repr(stores.clients.all())
