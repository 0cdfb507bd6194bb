"""The spool keeps what it acknowledged, whatever it could not write, and however it ended."""

import contextlib
import os

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.errors import AuditUnavailable, ConfigError
from gateway.storage.connection import Durability
from gateway.storage.database import Database, JobOutcome
from gateway.storage.keeping import Keeping
from gateway.storage.keys import audit_key
from gateway.storage.spool import Spool
from gateway.storage.spooling import SpoolSettings
from gateway.storage.store import Store
from gateway.storage.verify import own_verifier
from tests.audit.encoders import encoder_of
from tests.storage.suite import NOW, event
from tests.storage.test_spool import (
    CAPACITY,
    DEADLINE_S,
    gaps_of,
    ids_of,
    left_in_the_spool,
    locked,
    opened,
    until,
)


async def test_what_follows_a_write_that_was_cut_short_is_kept(tmp_path, monkeypatch):
    write = os.pwrite

    def torn(descriptor, content, offset):
        write(descriptor, content[: len(content) // 2], offset)
        raise OSError(5, "Input/output error")

    async with opened(tmp_path) as store:
        with locked(store):
            await store.audit.append(event("kept"))
            monkeypatch.setattr(os, "pwrite", torn)
            with pytest.raises(AuditUnavailable, match="Input/output error"):
                await store.audit.append(event("refused"))
            monkeypatch.undo()
            await store.audit.append(event("again"))
        await until(lambda: not store.audit.spooling)
        assert [name for name in ids_of(store) if name != "refused"] == ["kept", "again"]


async def test_what_follows_a_torn_end_is_kept(tmp_path):
    await left_in_the_spool(tmp_path)
    path = tmp_path / "spool"
    content = path.read_bytes()
    end = len(content.rstrip(b"\0"))
    path.write_bytes(content[: end - 40] + bytes(len(content) - end + 40))
    key = audit_key(tmp_path / "var")
    name = own_verifier(tmp_path / "var").name

    def reopened():
        return Spool.open(path, capacity=CAPACITY, log_id=name, secret=key.private_bytes_raw())

    with contextlib.closing(reopened()[0]) as spool:
        assert spool.written == 2
        spool.append([encoder_of(log_id=name).encode(event("behind it"))])
    async with opened(tmp_path) as store:
        assert ids_of(store) == ["before", "s0", "s1", "behind it"]
        assert gaps_of(store)[0]["records"] == 3


async def test_what_was_spooled_after_the_log_had_all_without_telling_is_kept(tmp_path):
    async with opened(tmp_path) as store:
        with locked(store):
            await store.audit.append(event("first"))
            absorb = store.audit._writer.absorb

            async def untold(late, job):
                await absorb(late, job)
                raise AuditUnavailable("no answer", detail="a fault")

            store.audit._writer.absorb = untold
        await until(lambda: gaps_of(store))
        await store.audit.append(event("second"))
    async with opened(tmp_path) as store:
        assert ids_of(store) == ["first", "second"]


@pytest.mark.parametrize("spool", [None, "elsewhere"])
async def test_what_is_left_in_a_spool_that_is_configured_no_more_is_not_forgotten(tmp_path, spool):
    await left_in_the_spool(tmp_path)
    settings = spool and SpoolSettings(path=tmp_path / spool, capacity=CAPACITY)

    async def otherwise():
        return await Store.open(
            tmp_path / "var", clock=lambda: NOW, keeping=Keeping(spool=settings or None)
        )

    with pytest.raises(ConfigError, match=r"3 records are in the spool .*not in the log yet"):
        await otherwise()
    async with opened(tmp_path):
        pass
    for _ in range(2):
        store = await otherwise()
        assert ids_of(store) == ["before", "s0", "s1", "s2"]
        await store.close()


def test_what_comes_back_from_a_spool_waits_for_the_disk(tmp_path):
    (tmp_path / "var").mkdir()
    entry = encoder_of().encode(event("late"))
    database = Database.open(
        tmp_path / "var",
        durability=Durability.PROCESS,
        wait_s=DEADLINE_S,
        key=Ed25519PrivateKey.generate(),
    )
    with contextlib.closing(database):
        seen = []

        def look(connection):
            seen.append(connection.execute("PRAGMA synchronous").fetchone()[0])

        for late in ((), (entry,), ()):
            database.commit([], [(look, JobOutcome())], late=late)
        assert seen == [1, 2, 1]
