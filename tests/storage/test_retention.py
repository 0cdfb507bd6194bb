"""Old records leave the log as files that prove themselves; what is left is proven as before."""

import asyncio
import contextlib
import hashlib
import itertools
import json
import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.audit.checkpoint import open_checkpoint
from gateway.audit.merkle import leaf_hash
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.errors import AuditUnavailable, ConfigError
from gateway.storage import retention
from gateway.storage.database import CHECKPOINT, DATABASE
from gateway.storage.removals import Removal
from gateway.storage.retention import NotRemovable, Retention
from gateway.storage.schema import migrate
from gateway.storage.segments import segment_verified
from gateway.storage.store import Store
from gateway.storage.tree import Pruned, tree_at
from gateway.storage.verify import Finding, own_verifier, verify
from tests.audit.proven import verify_consistency, verify_inclusion
from tests.storage.suite import NOW

COUNT = itertools.count()
DAY_US = 86_400_000_000
OLD, NEW = 700, 100
"""Records of before and of after the day that retention asks for."""
BEFORE = int(NOW * 1e6) - DAY_US


def at(time, name):
    return AuditRecord(kind=RecordKind.OUTCOME, time=time, id=name, fields={"server": "mail"})


class Keeper:
    """A store with retention, and a recorder of what it says."""

    def __init__(self, store, folder):
        self.store = store
        self.said = []
        self.retention = Retention(
            store.data_dir,
            store.writer,
            verifier=store.verifier,
            key=store.keys.audit,
            archive=folder / "archive",
            record=self.record,
            turn=store.aging,
        )

    async def record(self, code, message, evidence):
        self.said.append((code, dict(evidence)))
        fields = {
            "code": code,
            "reasons": [{"code": code, "message": message}],
            "evidence": dict(evidence),
        }
        name = f"{code}-{next(COUNT)}"
        return await self.store.audit.append(
            AuditRecord(kind=RecordKind.SYSTEM, time=NOW, id=name, fields=fields)
        )


def signed(keep, removal):
    """Return a removal as the evidence that retention gives of it."""
    return removal.members(keep.retention._verifier.name, keep.store.keys.audit)


@contextlib.asynccontextmanager
async def keeper(tmp_path):
    store = await Store.open(tmp_path / "var", clock=lambda: NOW)
    try:
        yield Keeper(store, tmp_path)
    finally:
        await store.close()


@pytest.fixture
async def filled(tmp_path):
    """700 records of last week and 100 of today, signed at several sizes."""
    for part in (range(300), range(300, OLD), range(OLD, OLD + NEW)):
        store = await Store.open(tmp_path / "var", clock=lambda: NOW)
        times = [NOW - 7 * 86_400 if n < OLD else NOW for n in part]
        await asyncio.gather(
            *(store.audit.append(at(t, f"e{n}")) for n, t in zip(part, times, strict=True))
        )
        await store.close()
    return tmp_path


def checked(tmp_path):
    return verify(tmp_path / "var", own_verifier(tmp_path / "var"))


def leaves(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "var" / DATABASE)) as connection:
        return [index for (index,) in connection.execute("SELECT leaf_index FROM audit")]


async def test_whole_tiles_of_what_is_old_go_into_a_file_that_proves_itself(filled):
    async with keeper(filled) as keep:
        (segment,) = await keep.retention.archive(BEFORE)
        assert (segment.first, segment.stop) == (0, 512)
        assert keep.said == [("log_archived", dict(segment.members))]
        found = segment_verified(filled / "archive" / segment.path, keep.store.verifier)
        assert (found.ok, found.records, found.first, found.last) == (True, 512, 0, 511)
        assert await keep.retention.archive(BEFORE) == []
    assert leaves(filled)[:2] == [0, 1]


async def test_what_is_archived_and_signed_leaves_the_log_and_the_rest_is_proven(filled):
    with contextlib.closing(sqlite3.connect(filled / "var" / DATABASE)) as connection:
        root = tree_at(connection, 512).root()
        whole = tree_at(connection, 800).root()
    async with keeper(filled) as keep:
        await keep.retention.archive(BEFORE)
        removed = await keep.retention.prune(BEFORE)
        assert (removed.first, removed.stop, removed.root) == (0, 512, root)
        code, evidence = keep.said[-1]
        signature = evidence.pop("signature")
        assert (code, evidence) == ("log_pruned", {"from": 0, "to": 512, "root": root.hex()})
        assert len(bytes.fromhex(signature)) == 64
        await keep.store.audit.append(at(NOW, "after"))
    assert min(leaves(filled)) == 512
    found = checked(filled)
    assert (found.finding, found.reason, found.front, found.size) == (Finding.OK, "", 512, 803)
    assert found.signed == 803
    assert found.unproven == 1  # the checkpoint of 300
    with contextlib.closing(sqlite3.connect(filled / "var" / DATABASE)) as connection:
        assert tree_at(connection, 800).root() == whole


async def test_nothing_of_what_was_removed_stays_in_the_files(filled):
    async with keeper(filled) as keep:
        await keep.retention.archive(BEFORE)
        await keep.retention.prune(BEFORE)
    content = b"".join(file.read_bytes() for file in (filled / "var").glob(f"{DATABASE}*"))
    kept = {n for n in range(OLD) if f'"id":"e{n}"'.encode() in content}
    assert kept == set(range(512, OLD))


async def test_proofs_of_what_is_left_hold_and_of_the_rest_it_is_said_what_cannot_be_proven(filled):
    async with keeper(filled) as keep:
        await keep.retention.archive(BEFORE)
        with contextlib.closing(keep.store.log.reader()) as reader:
            roots = {size: tree_at(reader._connection, size).root() for size in (256, 512, 700)}
        await keep.retention.prune(BEFORE)
    store = await Store.open(filled / "var", clock=lambda: NOW)
    with contextlib.closing(store.log.reader()) as reader:
        proof = reader.inclusion("e600")
        head = open_checkpoint(proof.checkpoint, store.verifier)
        leaf = leaf_hash(proof.body)
        assert verify_inclusion(leaf, proof.leaf_index, proof.size, proof.path, head.root)
        for old, root in roots.items():
            path = reader.consistency(old, head.size)
            assert verify_consistency(old, head.size, root, head.root, path)
        with pytest.raises(Pruned, match="to 299 have left the log"):
            reader.consistency(300, head.size)
        with pytest.raises(LookupError):
            reader.inclusion("e0")
    await store.close()


async def test_an_archived_segment_is_proven_against_the_pruned_log(filled):
    async with keeper(filled) as keep:
        (segment,) = await keep.retention.archive(BEFORE)
        await keep.retention.prune(BEFORE)
        log = filled / "var" / DATABASE
        path = filled / "archive" / segment.path
        assert segment_verified(path, keep.store.verifier, log).ok
        text = path.read_text()
        path.write_text(text.replace("e17\\", "x17\\"))
        assert segment_verified(path, keep.store.verifier, log).reason == "record 17 was changed"


async def test_a_segment_of_another_history_is_not_the_logs(filled, tmp_path):
    async with keeper(filled) as keep:
        (segment,) = await keep.retention.archive(BEFORE)
        path, verifier = filled / "archive" / segment.path, keep.store.verifier
    other = tmp_path / "other"
    other.mkdir()
    (other / "audit.key").write_bytes((filled / "var" / "audit.key").read_bytes())
    (other / "audit.key").chmod(0o600)
    store = await Store.open(other, clock=lambda: NOW)
    await asyncio.gather(*(store.audit.append(at(NOW, f"o{n}")) for n in range(900)))
    await store.close()
    found = segment_verified(path, verifier, other / DATABASE)
    assert (found.ok, found.reason) == (False, "the log has other records in their place")


async def test_the_next_segment_begins_where_the_last_one_ended(filled):
    async with keeper(filled) as keep:
        await keep.retention.archive(BEFORE)
        await keep.retention.prune(BEFORE)
        many = [at(NOW - 3 * 86_400, f"m{n}") for n in range(500)]
        await asyncio.gather(*(keep.store.audit.append(one) for one in many))
    async with keeper(filled) as keep:
        (segment,) = await keep.retention.archive(int(NOW * 1e6) + 1)
        assert (segment.first, segment.stop) == (512, 1280)
        found = segment_verified(filled / "archive" / segment.path, keep.store.verifier)
        assert (found.ok, found.first, found.last) == (True, 512, 1279)
        await keep.retention.prune(int(NOW * 1e6) + 1)
    assert checked(filled).reason == ""
    assert min(leaves(filled)) == 1280


async def refused(keep, why):
    with pytest.raises(NotRemovable, match=why):
        await keep.retention.prune(BEFORE)


async def test_what_is_in_no_archive_stays(filled):
    async with keeper(filled) as keep:
        await refused(keep, "records 0 to 511 are in no archive yet")
    assert leaves(filled)[0] == 0


async def test_what_a_follower_has_not_had_stays(filled):
    async with keeper(filled) as keep:
        await keep.retention.archive(BEFORE)
        await keep.store.cursors.move("siem", 510)
        await refused(keep, "siem has had no records after 510 yet")
        await keep.store.cursors.move("siem", 511)
        await keep.retention.prune(BEFORE)


async def test_what_is_held_stays(filled):
    async with keeper(filled) as keep:
        await keep.retention.archive(BEFORE)
        assert await keep.retention.hold("trial", BEFORE - 30 * DAY_US) == 0
        await refused(keep, "trial holds the records from 0 on")
        await keep.retention.release("trial")
        await keep.retention.prune(BEFORE)


def test_the_one_hold_of_before_goes_on():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    # As it was before that migration.
    connection.execute("DROP TRIGGER log_front_only_moves_on")
    connection.execute("DROP TABLE holds")
    connection.execute("ALTER TABLE log_front ADD COLUMN held INTEGER")
    connection.execute("UPDATE log_front SET held = 7")
    connection.execute(
        "CREATE TRIGGER log_front_only_moves_on BEFORE DELETE ON archives BEGIN SELECT 1; END"
    )
    connection.execute("DELETE FROM _sqlite_migrations WHERE name = 'm019_holds'")
    migrate(connection)
    assert connection.execute("SELECT name, first FROM holds").fetchall() == [("hold", 7)]


async def test_a_second_hold_ends_no_other_and_each_is_released_by_itself(filled):
    async with keeper(filled) as keep:
        await keep.retention.archive(BEFORE)
        await keep.retention.hold("trial", BEFORE - 30 * DAY_US)
        late = await keep.retention.hold("audit", BEFORE + 30 * DAY_US)
        assert [(one.name, one.first) for one in await keep.retention.holds()] == [
            ("trial", 0),
            ("audit", late),
        ]
        await refused(keep, "trial holds the records from 0 on")
        await keep.retention.release("audit")
        await refused(keep, "trial holds the records from 0 on")
        with pytest.raises(ValueError, match="there is a hold trial already"):
            await keep.retention.hold("trial", BEFORE + 30 * DAY_US)
        with pytest.raises(ValueError, match="no hold of that name"):
            await keep.retention.release("audit")
        await keep.retention.release("trial")
        await keep.retention.prune(BEFORE)


async def test_what_the_archive_lost_or_changed_stays(filled):
    async with keeper(filled) as keep:
        (segment,) = await keep.retention.archive(BEFORE)
        path = filled / "archive" / segment.path
        path.write_text(path.read_text() + "\n")
        await refused(keep, "is not the archive of the records from 0 on")
        path.unlink()
        await refused(keep, "is not the archive of the records from 0 on")


def told(keep, *rows):
    """Say which files hold which records, as whoever has the database alone can."""
    with contextlib.closing(sqlite3.connect(keep.store.data_dir / DATABASE)) as connection:
        connection.execute("DELETE FROM archives")
        for first, stop, path in rows:
            found = path.is_file()
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if found else ""
            connection.execute(
                "INSERT INTO archives VALUES (?, ?, ?, ?, 0)", (first, stop, str(path), digest)
            )
        connection.commit()


@pytest.mark.parametrize("path", ["/nowhere", "", "with\0in"])
async def test_a_row_that_names_no_file_lets_nothing_leave(filled, path):
    async with keeper(filled) as keep:
        told(keep, (0, 65_536, Path(path)))
        assert await keep.retention.archive(BEFORE) == []
        await refused(keep, "is not the archive of the records from 0 on")
        assert keep.said == []
    assert leaves(filled)[0] == 0


async def test_a_row_that_names_a_pipe_is_not_waited_for(filled, monkeypatch):
    os.mkfifo(filled / "pipe")
    async with keeper(filled) as keep:
        told(keep, (0, 65_536, filled / "pipe"))
        monkeypatch.setattr(retention, "_digest_of", None)
        await refused(keep, "is not the archive of the records from 0 on")


async def test_a_file_of_other_records_lets_nothing_leave_whatever_its_digest(filled, monkeypatch):
    monkeypatch.setattr(retention, "SEGMENT_RECORDS", 256)
    async with keeper(filled) as keep:
        made = await keep.retention.archive(BEFORE)
        one, two = (filled / "archive" / each.path for each in made)
        plain = filled / "plain"
        plain.write_text("no archive at all\n")
        for rows in (
            [(0, 512, one)],
            [(0, 512, two)],
            [(0, 256, two), (256, 512, one)],
            [(0, 512, plain)],
        ):
            told(keep, *rows)
            await refused(keep, "is not the archive of the records from 0 on")
        told(keep, (0, 256, one), (256, 768, two))
        await refused(keep, "is not the archive of the records from 256 on")
        told(keep, (0, 256, one), (256, 512, two))
        await keep.retention.prune(BEFORE)


async def test_an_export_that_leaves_records_out_is_no_archive_of_them(filled, monkeypatch):
    records = retention._records
    async with keeper(filled) as keep:
        with monkeypatch.context() as patched:
            patched.setattr(retention, "_records", lambda *given: [*records(*given)][::511])
            with pytest.raises(ConfigError, match="does not verify"):
                await keep.retention.archive(BEFORE)
        (path,) = (filled / "archive").iterdir()
        found = segment_verified(path, keep.store.verifier, filled / "var" / DATABASE)
        assert (found.ok, found.first, found.last, found.gaps) == (True, 0, 511, 510)
        told(keep, (0, 512, path))
        await refused(keep, "is not the archive of the records from 0 on")


async def test_an_archive_of_another_history_is_none_of_this_log(filled, tmp_path_factory):
    """By the same key, of a log of the same name: as after an older state was brought back."""
    other = tmp_path_factory.mktemp("other")
    shutil.copytree(filled / "var", other / "var")
    for folder, name in ((filled, "here"), (other, "there")):
        async with keeper(folder) as keep:
            many = [at(NOW - 3 * 86_400, f"{name}{n}") for n in range(500)]
            await asyncio.gather(*(keep.store.audit.append(one) for one in many))
    now = int(NOW * 1e6) + 1
    async with keeper(other) as keep:
        (segment,) = await keep.retention.archive(now)
        path = filled / "archive" / segment.path
    async with keeper(filled) as keep:
        assert segment_verified(path, keep.store.verifier).ok
        told(keep, (0, segment.stop, path))
        with pytest.raises(NotRemovable, match="is not the archive of the records from 0 on"):
            await keep.retention.prune(now)


async def test_records_between_two_archives_are_archived_before_they_leave(filled, monkeypatch):
    monkeypatch.setattr(retention, "SEGMENT_RECORDS", 256)
    async with keeper(filled) as keep:
        many = [at(NOW - 3 * 86_400, f"m{n}") for n in range(500)]
        await asyncio.gather(*(keep.store.audit.append(one) for one in many))
    now = int(NOW * 1e6) + 1
    async with keeper(filled) as keep:
        made = await keep.retention.archive(now)
        assert [each.first for each in made] == [0, 256, 512, 768, 1024]
        told(
            keep, *((each.first, each.stop, Path(each.path)) for each in made if each.first != 512)
        )
        with pytest.raises(NotRemovable, match="records 512 to 767 are in no archive yet"):
            await keep.retention.prune(now)
        assert await keep.retention.archive(now) == made[2:3]
        await keep.retention.prune(now)
    assert (checked(filled).reason, checked(filled).front) == ("", 1280)


async def test_a_file_is_read_as_an_archive_once(filled, monkeypatch):
    async with keeper(filled) as keep:
        await keep.retention.archive(BEFORE)
    async with keeper(filled) as keep:
        keep.retention._removable(BEFORE)
        monkeypatch.setattr(retention, "segment_verified_in", None)
        keep.retention._removable(BEFORE)


async def test_what_is_not_old_or_no_whole_tile_stays(filled):
    async with keeper(filled) as keep:
        with pytest.raises(NotRemovable, match="no whole tile of 256 signed records is older"):
            await keep.retention.prune(BEFORE - 30 * DAY_US)


async def test_a_removal_that_cannot_be_recorded_does_not_happen(filled):
    async with keeper(filled) as keep:
        await keep.retention.archive(BEFORE)

        async def fail(*_):
            raise AuditUnavailable("no")

        keep.retention._record = fail
        with pytest.raises(AuditUnavailable):
            await keep.retention.prune(BEFORE)
    assert leaves(filled)[0] == 0


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM audit WHERE leaf_index = 0",
        "UPDATE audit SET verdict = 'allow' WHERE leaf_index = 600",
        "UPDATE log_front SET first = 256",
        "UPDATE log_front SET first = 100",
        "UPDATE log_front SET one = 2",
        "DELETE FROM log_front",
    ],
    ids=["delete", "update", "not archived", "no tile", "another row", "no row"],
)
def test_the_table_itself_refuses_what_is_not_removed_by_its_laws(filled, sql):
    with contextlib.closing(sqlite3.connect(filled / "var" / DATABASE)) as connection:
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(sql)
        assert connection.execute("SELECT count(*) FROM audit").fetchone() == (800,)


@pytest.mark.parametrize("first", [0, 256])
async def test_what_was_removed_stays_removed_and_nothing_more_goes(filled, first):
    async with keeper(filled) as keep:
        await keep.retention.archive(BEFORE)
        await keep.retention.prune(BEFORE)
    with contextlib.closing(sqlite3.connect(filled / "var" / DATABASE)) as connection:
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute("UPDATE log_front SET first = ?", (first,))
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute("DELETE FROM audit WHERE leaf_index = 512")


@contextlib.contextmanager
def tampering(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "var" / DATABASE)) as connection:
        names = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='trigger'")
            if name.startswith(("audit_", "log_front"))
        ]
        for name in names:
            connection.execute(f"DROP TRIGGER {name}")
        yield connection
        connection.commit()


async def test_a_removal_without_a_record_is_found(filled):
    with tampering(filled) as connection:
        connection.execute("UPDATE log_front SET first = 256")
        connection.execute("DELETE FROM audit WHERE leaf_index < 256")
    found = checked(filled)
    assert (found.finding, found.first_bad) == (Finding.ALTERED, 0)
    assert found.reason == (
        "records 0 to 255 are missing, and no signed record says that they were removed"
    )


@pytest.mark.parametrize("forged", ["nothing", "another key", "another log", "more"])
async def test_a_removal_that_the_logs_key_did_not_sign_is_found(filled, forged):
    """Whoever can write the file can add a record; the next start would sign a tree with it."""
    async with keeper(filled) as keep:
        await keep.retention.archive(BEFORE)
        removal = keep.retention._removable(BEFORE)
        log_id, key = keep.retention._verifier.name, keep.store.keys.audit
        if forged == "another key":
            key = Ed25519PrivateKey.generate()
        if forged == "another log":
            log_id = "douane/other"
        evidence = {**removal.members(log_id, key)}
        if forged == "nothing":
            del evidence["signature"]
        if forged == "more":
            evidence["from"] = 256
        await keep.record("log_pruned", "", evidence)
    with tampering(filled) as connection:
        connection.execute("UPDATE log_front SET first = 256")
        connection.execute("DELETE FROM audit WHERE leaf_index < 256")
    found = checked(filled)
    assert (found.finding, found.first_bad) == (Finding.ALTERED, 0)
    assert "no signed record" in found.reason


@pytest.mark.parametrize("before", [0, 256])
async def test_what_left_without_a_signed_record_is_not_signed_away_later(filled, before):
    """By whoever moved the front and removed what was before it; the next removal would cover that."""
    async with keeper(filled) as keep:
        if before:  # by retention
            await keep.record("log_pruned", "", signed(keep, Removal(first=0, stop=256, root=b"")))
    with tampering(filled) as connection:
        connection.execute("UPDATE log_front SET first = 512")
        connection.execute("DELETE FROM audit WHERE leaf_index < 512")
    later = int(NOW * 1e6) + 1
    async with keeper(filled) as keep:
        await keep.store.audit.append(at(NOW, "after"))
    async with keeper(filled) as keep:
        with pytest.raises(ConfigError, match="does not verify"):
            await keep.retention.archive(later)
        with pytest.raises(NotRemovable, match=f"records {before} to 767 are in no archive yet"):
            await keep.retention.prune(later)
    assert checked(filled).finding is Finding.ALTERED


async def test_what_the_archive_has_may_have_left_without_a_signed_record(filled):
    """As by a version that signed none."""
    async with keeper(filled) as keep:
        await keep.retention.archive(BEFORE)
    with tampering(filled) as connection:
        connection.execute("UPDATE log_front SET first = 256")
        connection.execute("DELETE FROM audit WHERE leaf_index < 256")
    async with keeper(filled) as keep:
        await keep.retention.prune(BEFORE)
    assert (checked(filled).reason, checked(filled).front) == ("", 512)


async def test_more_gone_than_the_record_says_is_found(filled):
    async with keeper(filled) as keep:
        await keep.retention.archive(BEFORE)
        await keep.retention.prune(BEFORE)
        many = [at(NOW, f"m{n}") for n in range(500)]
        await asyncio.gather(*(keep.store.audit.append(one) for one in many))
    with tampering(filled) as connection:
        connection.execute("UPDATE log_front SET first = 768")
        connection.execute("DELETE FROM audit WHERE leaf_index < 768")
    assert (checked(filled).finding, checked(filled).first_bad) == (Finding.ALTERED, 0)


@pytest.mark.parametrize(
    ("sql", "first_bad", "says"),
    [
        ("UPDATE tiles SET root = zeroblob(32) WHERE tile = 0", 0, "checkpoint 700"),
        ("DELETE FROM tiles WHERE tile = 1", 256, "the tile of the records from 256 on is missing"),
        ("UPDATE log_front SET first = 300", 0, "record 300 cannot be the first one"),
        ("DELETE FROM audit WHERE leaf_index = 512", 512, "record 513 stands where 512 belongs"),
        ("UPDATE log_front SET first = 0", 0, "record 512 stands where 0 belongs"),
    ],
    ids=["tile", "no tile", "front in a tile", "first left", "front back"],
)
async def test_a_change_of_a_pruned_log_is_found(filled, sql, first_bad, says):
    async with keeper(filled) as keep:
        await keep.retention.archive(BEFORE)
        await keep.retention.prune(BEFORE)
    with tampering(filled) as connection:
        assert connection.execute(sql).rowcount == 1
    found = checked(filled)
    assert (found.finding, found.first_bad) == (Finding.ALTERED, first_bad)
    assert says in found.reason


async def test_a_removal_that_was_cut_short_is_good_and_can_go_on(filled):
    async with keeper(filled) as keep:
        await keep.retention.archive(BEFORE)
        await keep.record("log_pruned", "", signed(keep, keep.retention._removable(BEFORE)))

        def half(connection):
            connection.execute("UPDATE log_front SET first = 256")
            connection.execute("DELETE FROM audit WHERE leaf_index < 256")

        await keep.store.writer.run(half)
    assert (checked(filled).reason, checked(filled).front) == ("", 256)
    async with keeper(filled) as keep:
        await keep.retention.prune(BEFORE)
    assert (checked(filled).reason, checked(filled).front) == ("", 512)


def test_a_file_that_is_no_segment_is_told_apart(tmp_path):
    (tmp_path / "x").write_text(json.dumps({"format": "other"}) + "\n")
    with pytest.raises(ValueError, match="not an export"):
        segment_verified(tmp_path / "x", None)


async def test_a_checkpoint_file_of_the_part_that_is_gone_does_not_stop_the_gateway(filled):
    async with keeper(filled) as keep:
        await keep.retention.archive(BEFORE)
        await keep.retention.prune(BEFORE)
    with contextlib.closing(sqlite3.connect(filled / "var" / DATABASE)) as connection:
        (note,) = connection.execute("SELECT note FROM checkpoints WHERE size = 300").fetchone()
    (filled / "var" / CHECKPOINT).write_text(note)
    async with keeper(filled) as keep:
        await keep.store.audit.append(at(NOW, "after"))
    assert checked(filled).reason == ""


@pytest.mark.parametrize(
    ("sql", "front"),
    [
        ("SELECT 1", 257),
        ("DELETE FROM checkpoints WHERE size > 300", 512),
        ("INSERT INTO holds VALUES ('a', 1000), ('b', 100)", 256),
        ("INSERT INTO cursors (name, leaf_index) VALUES ('siem', 254)", 256),
    ],
    ids=["part of a tile", "not signed", "held", "not followed"],
)
async def test_the_table_keeps_to_each_of_its_laws(filled, sql, front):
    async with keeper(filled) as keep:
        await keep.retention.archive(BEFORE)
    with contextlib.closing(sqlite3.connect(filled / "var" / DATABASE)) as connection:
        connection.execute(sql)
        with pytest.raises(sqlite3.IntegrityError, match="may not leave the log"):
            connection.execute("UPDATE log_front SET first = ?", (front,))
        connection.rollback()
        connection.execute("UPDATE log_front SET first = 256")  # without these it may
