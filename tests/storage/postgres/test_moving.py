"""All that is in a folder comes into PostgreSQL, and back, or nothing is in force there."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.errors import ConfigError, DirectoryInUse
from gateway.storage.database import DATABASE
from gateway.storage.earlier_key import SIGNING_KEY
from gateway.storage.files import DirectoryLock
from gateway.storage.identity.database import DATABASE as IDENTITY_DATABASE
from gateway.storage.kek import new_key
from gateway.storage.keys import secret_in
from gateway.storage.moving import move as move_module
from gateway.storage.moving.files import FilesSource, FilesTarget
from gateway.storage.moving.mark import Way, mark_in
from gateway.storage.moving.marking import forget_mark
from gateway.storage.moving.move import Found, Move
from gateway.storage.moving.sides import Row
from gateway.storage.moving.tables import DATA_KEYS, GROWING, RECORDS, WHOLE, Kept
from gateway.storage.pin_rows import PinRows
from gateway.storage.postgres.base import TABLES, joinable
from gateway.storage.postgres.checking import findings
from gateway.storage.postgres.connection import Connection, connect
from gateway.storage.postgres.lanes import Lanes
from gateway.storage.postgres.mark import mark_of
from gateway.storage.postgres.migrations import Migration, Tables, migrate
from gateway.storage.postgres.moving import PostgresSource, PostgresTarget, reopen
from gateway.storage.postgres.spelling import SpelledStatements
from gateway.storage.schema import IDENTITY, LOG
from gateway.storage.schema import migrate as migrate_files
from gateway.storage.stop import STOP
from gateway.storage.store import Store
from gateway.vault import KeyEncryptionKey, Vault
from gateway.wiring.moving import terms_of
from tests.postgres import Postgres
from tests.storage.filling import fill, pins
from tests.storage.postgres.test_joining import KEK, joined
from tests.storage.suite import NOW
from tests.storage.test_retention import BEFORE, at, keeper

OF_FILE = KeyEncryptionKey.parse(new_key(), named="kek.key")
STOPPED: Final = '{"by":"ada","at":1.0,"note":"caf\u00e9"}'
BESIDE: Final = {
    "_sqlite_migrations": "of this database's own making",
    "meta": "the log's name is moved; how many batches were committed, and which spool was taken in, is of this file",
    "log_front": "moved as what it says",
    "identity_version": "counts what changes while somebody looks",
}
"""Tables of SQLite that are not moved row by row, and why."""
BESIDE_THERE: Final = {
    "schema_migrations": "of this database's own making",
    "moving": "says that it is moved",
    "meta": "the log's name is moved",
    "log_front": "moved as what it says",
    "tree": "its size is moved, and nobody leads",
    "in_force": "who stopped everything is moved; the first gateway puts its policy in force",
    "keys": "moved as files, or from files",
    "identity_version": "counts what changes while somebody looks",
    "lanes": "of gateways that were",
    "tray": "has to be empty",
    "state_news": "of gateways that were",
    "server_life": "of the server",
    "run_looks": "whoever looked at a run looks again",
    "policies": "each gateway's configuration has its policy",
    "replicas": "of gateways that were",
    "seen_proofs": "in memory, where there is one gateway",
    "seen_proofs_began": "in memory, where there is one gateway",
    "portions": "in memory, where there is one gateway",
    "portions_began": "in memory, where there is one gateway",
    "attempts": "in memory, where there is one gateway",
}


class Cut(BaseException):
    """The process ends."""


class Cutting:
    """One end of a move, of which the process ends right before or right after that step."""

    def __init__(self, side: Any, step: str, *, after: bool) -> None:
        self._side = side
        self._step = step
        self._after = after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._side, name)
        if name != self._step:
            return found

        def cut(*given: Any) -> Any:
            if self._after:
                found(*given)
            raise Cut

        return cut


def nothing(_what: str, _done: int, _of: int) -> None:
    return None


TERMS = terms_of([KEK, OF_FILE], nothing)


async def _filled(folder: Path) -> None:
    data_dir = folder / "var"
    store = await Store.open(data_dir, clock=lambda: NOW)
    times = [NOW - 7 * 86_400 if n < 270 else NOW for n in range(290)]
    await asyncio.gather(*(store.audit.append(at(t, f"e{n}")) for n, t in enumerate(times)))
    Vault.unlock(store.identity.data_keys, [OF_FILE], random=os.urandom, clock=lambda: NOW)
    await store.rotate_record_hash()
    await store.close()
    async with keeper(folder) as keep:
        await keep.retention.archive(BEFORE)
        await keep.retention.prune(BEFORE)
        await keep.store.audit.append(at(NOW, "a \x00 in it"))
    store = await Store.open(data_dir, clock=lambda: NOW)
    await store.audit.append(at(NOW, "last"))
    await store.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log whose first tile is archived and has left it, and rows of every kind."""
    folder = tmp_path_factory.mktemp("made")
    asyncio.run(_filled(folder))
    data_dir = folder / "var"
    secret_in(data_dir / "seal.key.former")
    fill(data_dir)
    (data_dir / STOP).write_text(STOPPED)
    return data_dir


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "var"))


@pytest.fixture(scope="module")
def template(postgres: Postgres) -> str:
    """The name of a database that has its tables, and nothing in them."""
    address = postgres.fresh()
    with closing(connect(address, application="test")) as connection:
        migrate(connection, *TABLES)
        return connection.info.dbname


@pytest.fixture
def address(postgres: Postgres, template: str) -> str:
    return postgres.fresh(template=template)


@pytest.fixture
def owner(address: str) -> Iterator[Connection]:
    with closing(connect(address, application="test")) as opened:
        yield opened


@contextmanager
def both(folder: Path, address: str) -> Iterator[tuple[FilesSource, PostgresTarget]]:
    with (
        closing(FilesSource.open(folder)) as source,
        closing(PostgresTarget.open(address)) as target,
    ):
        yield source, target


def moved(folder: Path, address: str) -> Found:
    with both(folder, address) as (source, target):
        return Move(source, target, TERMS).made()


def back(address: str, folder: Path) -> Found:
    with (
        closing(PostgresSource.open(address)) as source,
        closing(FilesTarget(folder)) as target,
    ):
        return Move(source, target, TERMS).made()


def everything(side: Any) -> dict[str, Any]:
    """Return all rows that one end has, in an order of their own."""
    of = {kept.name: [*side.rows(kept)] for kept in (*GROWING, *WHOLE)}
    ordered = {kept.name for kept in (*GROWING, *WHOLE) if kept.order}
    return {name: rows if name in ordered else sorted(rows, key=repr) for name, rows in of.items()}


def in_folder(folder: Path) -> dict[str, Any]:
    with closing(FilesSource.open(folder)) as source:
        return everything(source)


def in_database(address: str) -> dict[str, Any]:
    with closing(PostgresSource.open(address)) as source:
        return everything(source)


def secrets_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.key*")}


def test_all_that_is_in_a_folder_comes_into_the_database(
    made: Path, folder: Path, address: str, owner: Connection
) -> None:
    found = moved(folder, address)
    before, after = in_folder(folder), in_database(address)
    assert before == after
    assert {name for name, rows in after.items() if not rows} == set()
    assert (found.front, found.records, found.signed) == (256, 294, 294)
    joinable(address)
    assert owner.execute("SELECT stopped FROM in_force").fetchone() == (STOPPED,)
    with closing(sqlite3.connect(made / DATABASE)) as connection:
        kept = PinRows().all(connection)
    assert PinRows(compared=True).all(SpelledStatements(owner)) == kept
    digests = {str(pin.approved.digest) for pin in pins() if pin.approved is not None}
    assert {one for (one,) in owner.execute("SELECT approved FROM pins") if one} == digests
    # What runs have read no gateway remembers.
    assert owner.execute("SELECT DISTINCT roamed, home FROM runs").fetchall() == [(True, None)]


def test_what_no_index_there_can_hold_stays_behind(folder: Path, address: str) -> None:
    expected = in_folder(folder)
    long = "".join(f"{n:x}" for n in range(3000))
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        connection.execute("INSERT INTO front_subscriptions VALUES (x'01', ?, 1.0)", (long,))
        connection.execute("UPDATE pins SET name = ? WHERE name LIKE '%plain'", (long,))
        connection.execute("UPDATE run_sources SET tool = ? WHERE tool LIKE '%plain'", (long,))
        connection.commit()
    moved(folder, address)
    found = in_database(address)
    assert found["front_subscriptions"] == expected["front_subscriptions"]
    assert [len(found[name]) for name in ("pins", "run_sources")] == [2, 2]


def test_the_folder_stays_as_it_is_and_serves_no_more_until_somebody_says_so(
    made: Path, folder: Path, address: str
) -> None:
    moved(folder, address)
    for name in (DATABASE, IDENTITY_DATABASE, "audit.key", "checkpoint", "kek.key"):
        assert (
            not (made / name).exists() or (folder / name).read_bytes() == (made / name).read_bytes()
        )
    with pytest.raises(ConfigError, match="goes on there: nothing is served from here"):
        asyncio.run(Store.open(folder, clock=lambda: NOW))
    with pytest.raises(ConfigError, match="was moved to the database"):
        moved(folder, address)
    forget_mark(folder)
    asyncio.run(_opened(folder))


async def _opened(folder: Path) -> None:
    store = await Store.open(folder, clock=lambda: NOW)
    await store.audit.append(at(NOW, "goes on"))
    await store.close()


async def _begun(folder: Path) -> None:
    store = await Store.open(folder, clock=lambda: NOW)
    Vault.unlock(store.identity.data_keys, [KEK], random=os.urandom, clock=lambda: NOW)
    await store.audit.append(at(NOW, "begins"))
    await store.close()


def test_what_was_moved_is_what_a_gateway_goes_on_with(
    folder: Path, address: str, tmp_path: Path
) -> None:
    keys = secrets_in(folder)
    moved(folder, address)

    async def served() -> None:
        async with joined(address, tmp_path / "own") as stores:
            assert stores.keys.hmac == keys["hmac.key"]
            assert stores.keys.former_seal == keys["seal.key.former"]
            assert stores.record_hash_keys == 2
            assert {pin.target.name for pin in stores.pins.all()} == {
                pin.target.name for pin in pins()
            }
            await stores.audit.append(at(NOW, "after"))
            await stores.sign()
            assert stores.log.verify(stores.verifier).reason == ""

    asyncio.run(served())


def test_what_came_back_is_what_had_gone(
    made: Path, folder: Path, address: str, tmp_path: Path
) -> None:
    before = in_folder(folder)
    moved(folder, address)
    returned = tmp_path / "returned"
    found = back(address, returned)
    assert (found.front, found.records) == (256, 294)
    assert in_folder(returned) == before
    assert secrets_in(returned) == secrets_in(made)
    assert (returned / STOP).read_text() == STOPPED
    asyncio.run(_opened(returned))
    with pytest.raises(ConfigError, match="nothing is served from here"):
        joinable(address)
    other, _ = reopen(address)
    assert other.other == str(returned)
    joinable(address)


def ends(folder: Path, address: str) -> tuple[bool, bool]:
    """Return whether either end serves."""
    with closing(connect(address, application="test")) as connection:
        joins = connection.execute("SELECT to_regclass('moving')").fetchone() != (None,)
        return mark_in(folder) is None, joins and mark_of(connection) is None


STEPS: Final = (
    *(("begin", False), ("begin", True), ("part", False), ("part", True)),
    *(("add", False), *[("add", True)] * 4),
    *(("keep", False), ("keep", True), ("serve", False), ("serve", True)),
)
"""Where a process may end: each time it goes on, and comes one further."""


def cut_short(source: Any, target: Any, step: str, *, after: bool) -> None:
    move = Move(Cutting(source, step, after=after), Cutting(target, step, after=after), TERMS)
    with pytest.raises(Cut):
        move.made()


def test_a_move_that_is_cut_short_anywhere_goes_on_and_never_do_both_ends_serve(
    made: Path, folder: Path, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(move_module, "_BATCH", 20)
    for step, after in STEPS:
        with both(folder, address) as (source, target):
            cut_short(source, target, step, after=after)
        # Before the first step the database is empty, and after the last one it serves.
        parted = STEPS.index((step, after)) >= STEPS.index(("part", True))
        assert ends(folder, address) == (
            not parted,
            after if step == "serve" else step == "begin" and not after,
        )
    assert in_database(address) == in_folder(made)
    returned = tmp_path / "returned"
    for step, after in STEPS:
        with (
            closing(PostgresSource.open(address)) as there,
            closing(FilesTarget(returned)) as here,
        ):
            cut_short(there, here, step, after=after)
        parted = STEPS.index((step, after)) >= STEPS.index(("part", True))
        assert ends(folder, address)[1] is not parted
        serves = returned.exists() and mark_in(returned) is None
        assert serves is (step == "serve" and after)
    assert in_folder(returned) == in_folder(made)


def cut_after(folder: Path, address: str, step: str) -> None:
    with both(folder, address) as (source, target):
        cut_short(source, target, step, after=True)


def test_a_record_that_was_altered_in_the_database_is_told_and_nothing_is_in_force(
    folder: Path, address: str, owner: Connection
) -> None:
    cut_after(folder, address, "keep")
    owner.execute("ALTER TABLE audit DISABLE TRIGGER USER")
    owner.execute("UPDATE audit SET body = body || ' ' WHERE leaf_index = 270")
    with pytest.raises(ConfigError, match="not what was signed") as caught:
        moved(folder, address)
    assert caught.value.problems == ("record 270 was changed",)
    with pytest.raises(ConfigError, match="is not all there"):
        joinable(address)


def test_a_record_that_was_altered_in_the_folder_is_told_and_nothing_is_in_force(
    folder: Path, address: str
) -> None:
    cut_after(folder, address, "part")
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        connection.execute("DROP TRIGGER audit_is_never_updated")
        connection.execute("UPDATE audit SET body = body || ' ' WHERE leaf_index = 270")
        connection.commit()
    with pytest.raises(ConfigError, match="not what was signed") as caught:
        moved(folder, address)
    assert caught.value.problems == ("record 270 was changed",)
    with pytest.raises(ConfigError, match="is not all there"):
        joinable(address)


def test_records_that_look_whole_and_are_others_are_told(
    folder: Path, address: str, owner: Connection
) -> None:
    cut_after(folder, address, "keep")
    owner.execute("ALTER TABLE audit DISABLE TRIGGER USER")
    owner.execute("DELETE FROM audit WHERE leaf_index = 293")
    moved(folder, address)  # the missing end is brought again
    assert in_database(address)["audit"] == in_folder(folder)["audit"]


class Altered(FilesSource):
    def rows(self, kept: Kept, *, after: int | None = None) -> Iterator[Row]:
        for row in super().rows(kept, after=after):
            is_it = kept is RECORDS and row[0] == 270
            yield (*row[:2], row[2] + b" ") if is_it else row


def test_a_record_that_is_altered_on_its_way_is_told(folder: Path, address: str) -> None:
    with (
        closing(Altered.open(folder)) as source,
        closing(PostgresTarget.open(address)) as target,
        pytest.raises(ConfigError, match="record 270 was changed while it was moved"),
    ):
        Move(source, target, TERMS).made()


CUT_OFF: Final = """
ALTER TABLE audit DISABLE TRIGGER USER;
ALTER TABLE checkpoints DISABLE TRIGGER USER;
DELETE FROM checkpoints WHERE size = (SELECT max(size) FROM checkpoints);
DELETE FROM cosignatures WHERE size > (SELECT max(size) FROM checkpoints);
DELETE FROM audit WHERE leaf_index >= (SELECT max(size) FROM checkpoints)
"""
OTHER_ROWS: Final = {
    "pins: other rows": "UPDATE pins SET note = 'other'",
    "users: other rows": "UPDATE users SET name = 'other'",
    "usage: other rows": "UPDATE quota_counts SET used = used + 1",
    "keys, or what is kept beside the tables": "UPDATE in_force SET stopped = NULL",
}


def meddled(folder: Path, address: str, change: str) -> Sequence[str]:
    """Move while somebody else changes what has come; return what is told."""

    class Meddled(PostgresTarget):
        def keep(self, *given: Any) -> None:
            super().keep(*given)
            self._run(change)

    with (
        closing(FilesSource.open(folder)) as source,
        closing(Meddled.open(address)) as target,
        pytest.raises(ConfigError, match="is not what is in") as caught,
    ):
        Move(source, target, TERMS).made()
    with pytest.raises(ConfigError, match="is not all there"):
        joinable(address)
    return caught.value.problems


def test_a_log_that_lacks_its_end_is_told_although_it_proves_itself(
    folder: Path, address: str
) -> None:
    told = meddled(folder, address, CUT_OFF)
    assert "the log: another root" in told
    assert moved(folder, address).records == 294


def test_a_row_that_is_another_one_by_then_is_told(folder: Path, address: str) -> None:
    for problem, change in OTHER_ROWS.items():
        assert meddled(folder, address, change) == (problem,)
    moved(folder, address)
    joinable(address)


def test_nothing_is_moved_out_of_a_folder_that_is_served(folder: Path, address: str) -> None:
    lock = DirectoryLock(folder)
    with pytest.raises(DirectoryInUse):
        moved(folder, address)
    lock.release()
    assert ends(folder, address) == (True, True)


async def test_nothing_is_moved_into_or_out_of_a_database_that_gateways_are_on(
    folder: Path, address: str, tmp_path: Path
) -> None:
    lanes = Lanes(address, replica="one", deadline_s=60.0)
    await lanes.open()
    try:
        with pytest.raises(ConfigError, match="a gateway is on"):
            await asyncio.to_thread(moved, folder, address)
        with pytest.raises(ConfigError, match="a gateway is on"):
            await asyncio.to_thread(back, address, tmp_path / "back")
    finally:
        await lanes.close()
    assert ends(folder, address) == (True, True)


def test_a_database_is_let_go_of_before_its_session_has_ended(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server at work notices late who has gone."""
    left: list[Connection] = []
    with monkeypatch.context() as late:
        late.setattr(Connection, "close", lambda session: left.append(session))  # noqa: PLW0108 - a function is bound
        one = PostgresSource.open(address)
        with pytest.raises(ConfigError, match="moved by somebody else"):
            PostgresSource.open(address)
        one.close()
        PostgresSource.open(address).close()
    for connection in left:
        connection.close()


def test_nobody_appends_to_a_database_that_is_being_moved(folder: Path, address: str) -> None:
    cut_after(folder, address, "part")
    with (
        closing(connect(address, application="test")) as connection,
        pytest.raises(Exception, match="is being moved, or was moved away"),
    ):
        connection.execute("SELECT open_lane_1('late')")


def test_a_gateway_that_comes_in_the_same_moment_is_seen(
    folder: Path, address: str, owner: Connection
) -> None:
    class Late(PostgresTarget):
        def require_empty(self) -> None:
            return

    owner.execute("SELECT open_lane_1('early')")
    with (
        closing(FilesSource.open(folder)) as source,
        closing(Late.open(address)) as target,
        pytest.raises(ConfigError, match="a gateway is on"),
    ):
        Move(source, target, TERMS).made()
    assert ends(folder, address) == (True, True)


def test_a_gateway_that_comes_as_everything_leaves_is_seen(
    folder: Path, address: str, owner: Connection, tmp_path: Path
) -> None:
    class Late(PostgresSource):
        def require_whole(self) -> None:
            return

    moved(folder, address)
    owner.execute("SELECT open_lane_1('late')")
    with (
        closing(Late.open(address)) as source,
        closing(FilesTarget(tmp_path / "back")) as target,
        pytest.raises(ConfigError, match="a gateway is on"),
    ):
        Move(source, target, TERMS).made()
    joinable(address)
    assert mark_in(tmp_path / "back") is not None


def test_records_that_wait_for_their_place_are_told(
    folder: Path, address: str, owner: Connection, tmp_path: Path
) -> None:
    moved(folder, address)
    owner.execute("SELECT open_lane_1('one')")
    owner.execute(
        "INSERT INTO tray (lane, n, part, id, time_us, kind, body) VALUES (1, 1, 0, 'r', 0, 'system', '')"
    )
    owner.execute("SELECT pg_advisory_unlock_all()")
    with pytest.raises(ConfigError, match="records are durable, and not in the log yet"):
        back(address, tmp_path / "back")


def test_one_move_at_a_time(folder: Path, address: str) -> None:
    with (
        closing(PostgresTarget.open(address)),
        pytest.raises(ConfigError, match="is being moved by somebody else"),
    ):
        moved(folder, address)


def test_what_is_being_moved_is_not_reopened(
    folder: Path, address: str, owner: Connection, tmp_path: Path
) -> None:
    moved(folder, address)
    back(address, tmp_path / "back")
    with (
        closing(PostgresSource.open(address)),
        pytest.raises(ConfigError, match="is being moved by somebody else"),
    ):
        reopen(address)
    assert mark_of(owner) is not None


def test_a_database_that_has_anything_already_is_left_alone(
    folder: Path, address: str, owner: Connection
) -> None:
    owner.execute("INSERT INTO revoked_tokens VALUES ('t', 1)")
    with pytest.raises(ConfigError, match="make a database that nobody has used") as caught:
        moved(folder, address)
    assert caught.value.problems == ("there are rows in: revoked_tokens",)
    assert ends(folder, address) == (True, True)


def test_another_logs_move_is_not_ended(folder: Path, address: str, tmp_path: Path) -> None:
    cut_after(folder, address, "part")
    asyncio.run(_begun(tmp_path / "other"))
    with (
        closing(FilesSource.open(tmp_path / "other")) as source,
        closing(PostgresTarget.open(address)) as target,
        pytest.raises(ConfigError, match="what has begun to come into"),
    ):
        Move(source, target, terms_of([KEK], nothing)).made()


def test_a_folder_that_is_older_than_what_has_come_is_not_taken(
    folder: Path, made: Path, address: str, tmp_path: Path
) -> None:
    (folder / STOP).unlink()
    asyncio.run(_opened(folder))
    cut_after(folder, address, "keep")
    older = Path(shutil.copytree(made, tmp_path / "older"))
    with pytest.raises(ConfigError, match="has more records of this log than"):
        moved(older, address)


def test_what_was_moved_away_is_no_place_to_move_to(
    folder: Path, made: Path, address: str, tmp_path: Path
) -> None:
    moved(folder, address)
    back(address, tmp_path / "back")
    other = Path(shutil.copytree(made, tmp_path / "other"))
    with pytest.raises(ConfigError, match="goes on there: nothing is served from here"):
        moved(other, address)
    with pytest.raises(ConfigError, match="goes on there: nothing is served from here"):
        back(address, tmp_path / "another")
    assert mark_in(other) is None


def test_a_folder_that_another_move_has_begun_to_fill_is_left_alone(
    folder: Path, address: str, tmp_path: Path
) -> None:
    moved(folder, address)
    returned = tmp_path / "back"
    with (
        closing(PostgresSource.open(address)) as there,
        closing(FilesTarget(returned)) as here,
    ):
        cut_short(there, here, "begin", after=True)
    begun = mark_in(returned)
    assert begun is not None
    with (
        closing(FilesTarget(returned)) as here,
        pytest.raises(ConfigError, match="is another move's"),
    ):
        here.begin(replace(begun, move="other"))


def test_a_folder_that_has_gone_on_meanwhile_brings_the_rest(folder: Path, address: str) -> None:
    cut_after(folder, address, "keep")
    assert ends(folder, address) == (False, False)
    forget_mark(folder)
    (folder / STOP).unlink()
    asyncio.run(_opened(folder))
    assert moved(folder, address).records == 295
    assert in_database(address) == in_folder(folder)


def test_a_folder_is_not_written_over(
    folder: Path, address: str, made: Path, tmp_path: Path
) -> None:
    moved(folder, address)
    other = Path(shutil.copytree(made, tmp_path / "other"))
    with pytest.raises(ConfigError, match="is a gateway's already"):
        back(address, other)
    assert mark_in(other) is None
    joinable(address)


def test_a_look_writes_nothing(folder: Path, postgres: Postgres, tmp_path: Path) -> None:
    address = postgres.fresh()
    with both(folder, address) as (source, target):
        found = Move(source, target, TERMS).looked()
    assert (found.records, found.rows["users"], found.resumed) == (294, 3, False)
    with closing(connect(address, application="test")) as connection:
        assert connection.execute("SELECT to_regclass('audit')").fetchone() == (None,)
    assert mark_in(folder) is None
    moved(folder, address)
    with (
        closing(PostgresSource.open(address)) as source_there,
        closing(FilesTarget(tmp_path / "back")) as target_here,
    ):
        assert Move(source_there, target_here, TERMS).looked().records == 294
    assert not (tmp_path / "back").exists()
    joinable(address)


def spooled(*_: object) -> None:
    raise ConfigError("3 records are in the spool")


def test_a_folder_of_another_version_and_a_journal_that_is_not_empty_are_told(
    folder: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        connection.execute("INSERT INTO _sqlite_migrations VALUES (99, 'douane', 'm099', '')")
        connection.commit()
    with pytest.raises(ConfigError, match="is another version's"):
        moved(folder, address)
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        connection.execute("DELETE FROM _sqlite_migrations WHERE id = 99")
        connection.commit()
    (folder / SIGNING_KEY).touch()
    with pytest.raises(ConfigError, match="is not sealed yet"):
        moved(folder, address)
    (folder / SIGNING_KEY).unlink()
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        connection.execute("INSERT INTO meta VALUES ('spool_path', 'spool')")
        connection.commit()
    with monkeypatch.context() as patched:
        patched.setattr("gateway.storage.moving.files.need_nothing_in", spooled)
        with pytest.raises(ConfigError, match="3 records are in the spool"):
            moved(folder, address)
    monkeypatch.setattr("gateway.storage.moving.files.waiting_in", lambda _: 3)
    with pytest.raises(ConfigError, match="3 records are in the journal"):
        moved(folder, address)
    assert ends(folder, address) == (True, True)


def test_every_table_of_sqlite_is_moved_or_named_with_its_reason() -> None:
    known = {kept.name: {column.name for column in kept.columns} for kept in (*WHOLE, DATA_KEYS)}
    known |= {kept.name: {column.name for column in kept.columns} for kept in GROWING}
    made_anew = {"audit": set(), "runs": {"began"}, "server_choices": {"made"}}
    for tables in (LOG, IDENTITY):
        connection = sqlite3.connect(":memory:", isolation_level=None)
        with closing(connection):
            migrate_files(connection, tables)
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            ).fetchall():
                if name in BESIDE:
                    continue
                has = {
                    one
                    for (one,) in connection.execute(
                        "SELECT name FROM pragma_table_info(?)", (name,)
                    )
                }
                assert name in known, f"{name} is forgotten"
                if name == "audit":
                    has &= {"leaf_index", "leaf_hash", "body"}  # the others are what these say
                assert has - made_anew.get(name, set()) == known[name], name


def test_every_table_of_postgresql_is_moved_or_named_with_its_reason(owner: Connection) -> None:
    there = {kept.there for kept in (*GROWING, *WHOLE, DATA_KEYS)}
    rows: Sequence[tuple[str]] = owner.execute(
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition"
        " AND relnamespace = 'public'::regnamespace"
    ).fetchall()
    assert {name for (name,) in rows} == there | set(BESIDE_THERE)


def test_tables_of_a_version_that_is_not_known_are_told(address: str, owner: Connection) -> None:
    assert not [one.text for one in findings(address) if "newer" in one.text]
    step = Migration(number=1, name="one", script="CREATE TABLE later (n integer)", oldest=0)
    migrate(owner, Tables(name="later", migrations=(step,)))
    joinable(address)
    last = Migration(number=1, name="one", script="CREATE TABLE latest (n integer)")
    migrate(owner, Tables(name="latest", migrations=(last,)))
    with pytest.raises(ConfigError, match="use the newer version") as caught:
        joinable(address)
    assert caught.value.problems == ("latest 1 one",)
    (told,) = [one for one in findings(address) if "newer" in one.text]
    assert told.wrong
    assert "latest 1 one" in told.text


def test_a_database_that_is_moved_is_told_by_who_checks_it(folder: Path, address: str) -> None:
    cut_after(folder, address, "part")
    assert [one.wrong for one in findings(address) if "is not all there" in one.text] == [True]


def test_a_mark_that_cannot_be_read_has_nobody_serve(folder: Path) -> None:
    (folder / "moved").write_text("{")
    with pytest.raises(ConfigError, match="cannot be read, and says whether"):
        asyncio.run(Store.open(folder, clock=lambda: NOW))


def test_what_has_not_come_whole_is_not_reopened(folder: Path, address: str) -> None:
    cut_after(folder, address, "part")
    with pytest.raises(ConfigError, match="is not all there"):
        reopen(address)
    moved(folder, address)
    with pytest.raises(ConfigError, match="was not moved"):
        reopen(address)


def test_the_way_of_each_end_is_marked(folder: Path, address: str, owner: Connection) -> None:
    cut_after(folder, address, "part")
    here, there = mark_in(folder), mark_of(owner)
    assert here is not None
    assert there is not None
    assert (here.way, there.way, here.move) == (Way.GONE, Way.COMING, there.move)
    assert there.other == str(folder)
