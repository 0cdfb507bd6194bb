"""The gateway's own keys in PostgreSQL: the same at every replica, made once, sealed, never lost."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from gateway.errors import ConfigError
from gateway.storage.kek import new_key
from gateway.storage.postgres import keys as keys_module
from gateway.storage.postgres.keys import SharedKeys
from gateway.vault import KeyEncryptionKey, Vault
from tests.storage.identity.identities import Hand
from tests.storage.identity.places import emptied, opened

KEK = KeyEncryptionKey.parse(new_key(), named="test")
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
        unlocked(one)
        yield one, other


@pytest.fixture
def aside(address):
    with psycopg.connect(address, autocommit=True) as found:
        yield found


def unlocked(stores, kek=KEK):
    return Vault.unlock(stores.data_keys, [kek], random=os.urandom, clock=Hand())


def shared(stores):
    return SharedKeys(stores.database, unlocked(stores), clock=Hand())


def plain(keys):
    return keys.audit.private_bytes_raw(), keys.hmac, keys.seal, keys.former_seal


def test_replicas_that_begin_at_once_have_the_same_keys(replicas):
    together = threading.Barrier(2)

    def begin(stores):
        mine = shared(stores)
        together.wait(PATIENCE_S)
        return plain(mine.keys())

    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(begin, replicas)
    assert one == other
    assert one[3] is None
    assert len(set(one[:3])) == 3


def test_a_replica_that_finds_none_takes_what_another_has_made_meanwhile(replicas, monkeypatch):
    """Both have looked before either made one."""
    one, other = replicas

    def made_elsewhere():
        monkeypatch.setattr(keys_module, "_new_secret", lambda: os.urandom(32))
        shared(other).keys()
        return os.urandom(32)

    monkeypatch.setattr(keys_module, "_new_secret", made_elsewhere)
    mine = shared(one).keys()
    assert plain(mine) == plain(shared(other).keys())


def test_a_key_is_in_its_row_sealed_and_opens_in_no_other(replicas, aside):
    keys = shared(replicas[0])
    before = keys.keys()
    texts = dict(aside.execute("SELECT name, sealed FROM keys").fetchall())
    assert texts.keys() == {"audit", "hmac", "seal"}
    assert not [text for text in texts.values() if before.seal.hex() in text]
    aside.execute("UPDATE keys SET sealed = %s WHERE name = 'seal'", (texts["hmac"],))
    with pytest.raises(ConfigError, match="seal in the database cannot be opened"):
        keys.keys()


def test_a_key_that_does_not_open_is_not_made_anew(replicas, aside):
    one, other = replicas
    shared(one).keys()
    aside.execute("DELETE FROM data_keys")
    with pytest.raises(ConfigError, match="cannot be opened"):
        SharedKeys(
            other.database,
            unlocked(other, KeyEncryptionKey.parse(new_key(), named="other")),
            clock=Hand(),
        ).keys()
    assert aside.execute("SELECT count(*) FROM keys").fetchone() == (3,)


def test_a_new_seal_keeps_the_former_one_and_is_made_by_one_of_two(replicas):
    one, other = replicas
    before = shared(one).keys()
    together = threading.Barrier(2)

    def renew(stores):
        mine = shared(stores)
        read = mine._database.read

        def then_together(job):
            found = read(job)
            together.wait(PATIENCE_S)
            return found

        stores.database.read = then_together
        try:
            return mine.renew_seal()
        finally:
            del stores.database.read

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(renew, replicas)) == [False, True]
    after = shared(other).keys()
    assert (after.former_seal, after.hmac) == (before.seal, before.hmac)
    assert after.seal != before.seal
    assert shared(one).renew_seal()
    assert shared(one).keys().former_seal == after.seal


def test_there_is_nothing_to_renew_where_nothing_was_sealed(replicas):
    assert not shared(replicas[0]).renew_seal()


def test_a_new_hash_of_records_is_seen_by_every_replica(replicas):
    one, other = replicas
    mine, theirs = shared(one).record_keys(), shared(other).record_keys()
    assert mine.all == theirs.all == (shared(one).keys().hmac,)
    other.follow()
    added = mine.add()
    assert (len(added), mine.all) == (2, added)
    assert len(theirs.all) == 1
    assert other.follow()
    assert theirs.all == added
    assert shared(one).record_keys().all == added


def test_of_two_hashes_that_are_added_at_once_each_has_its_number(replicas):
    both = [shared(stores).record_keys() for stores in replicas]
    together = threading.Barrier(2)

    def add(keys):
        together.wait(PATIENCE_S)
        return [keys.add() for _ in range(10)]

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(add, both))
    for stores in replicas:
        stores.follow()
    assert both[0].all == both[1].all
    assert len(set(both[0].all)) == 21


def test_a_hash_that_is_missing_is_told_and_not_made_anew(replicas, aside):
    one, _ = replicas
    keys = shared(one).record_keys()
    keys.add()
    keys.add()
    aside.execute("DELETE FROM keys WHERE name = 'record-hash-2'")
    with pytest.raises(ConfigError, match="record-hash-2 is missing"):
        shared(one).record_keys()
    with pytest.raises(ConfigError, match="record-hash-2 is missing"):
        one.follow()
    assert len(keys.all) == 3


@pytest.mark.parametrize("name", ["hmac", "seal", "audit"])
def test_what_is_no_key_is_told(replicas, name):
    one, _ = replicas
    keys = shared(one)
    keys.keys()
    wrong = keys._rows.sealed(name, b"too short")
    one.database.write(
        lambda to: to.execute("UPDATE keys SET sealed = ? WHERE name = ?", (wrong, name))
    )
    with pytest.raises(ConfigError, match=f"the key {name} in the database is not"):
        keys.keys()
