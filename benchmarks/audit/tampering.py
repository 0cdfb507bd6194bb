"""Somebody who can write every file and knows how the log is built, but has no key: what is found?"""

import asyncio
import itertools
import random
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from gateway.audit.merkle import leaf_hash
from gateway.audit.record import COLUMNS, columns_of
from gateway.audit.tiles import TILE_LEAVES, tile_root
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.storage.database import CHECKPOINT, DATABASE
from gateway.storage.retention import NotRemovable, Retention
from gateway.storage.store import Store
from gateway.storage.verify import Finding, own_verifier, verify

SIZES = (300, 700, 701, 1100, 1500)
"""The log is signed at each of these."""
NOW = 1_800_000_000.0
FIRST_KEPT = 512
"""Of the log whose old records were removed, the first that is left."""
_TRIGGERS = (
    "audit_is_never_updated",
    "audit_is_never_deleted",
    "log_front_only_moves_on",
    "log_front_is_never_deleted",
)
_STATE = (DATABASE, CHECKPOINT)
_NOWHERE = "have the gateway remove what is in no archive"


@dataclass(frozen=True)
class Log:
    """A log that nobody has touched, and what an auditor keeps of it elsewhere."""

    folder: Path
    earlier: Path
    """Its files as they were before the last records."""
    other: Path
    """The files of another log."""
    kept: str
    """The newest checkpoint."""
    first: int
    """The first record that is in it."""


@dataclass(frozen=True)
class Change:
    """What was done, and where that shows."""

    what: str
    first: int | None
    """The first record that is not what was written, if one is meant."""
    says: str = ""
    """What else has to be said."""


Tampering = Callable[[sqlite3.Connection, random.Random, Log], Change]


def run(count: int, *, seed: int = 1) -> dict[str, Any]:
    """Change a log in `count` ways, each by itself, and return what verification found.

    `located` counts those where it also named the record, or a range of records that holds it.
    """
    dice = random.Random(seed)
    found: dict[str, Any] = {"tried": 0, "detected": 0, "located": 0, "missed": []}
    with tempfile.TemporaryDirectory() as folder:
        logs = made(Path(folder))
        kinds = itertools.cycle([(kind, log) for kind in TAMPERINGS for log in logs])
        for number, (kind, log) in enumerate(itertools.islice(kinds, count)):
            told = _tried(kind, log, dice, Path(folder) / f"try{number}")
            change, detected, located, reason = told
            found["tried"] += 1
            found["detected"] += detected
            found["located"] += located
            if not located:
                found["missed"].append(f"{change.what}: {reason or 'not detected'}")
    return found


def made(folder: Path) -> tuple[Log, Log]:
    """Make the two logs: one whole, one whose old records have left it."""
    return tuple(asyncio.run(_made(folder / name, pruned=pruned)) for name, pruned in _LOGS)  # type: ignore[return-value]


_LOGS = (("whole", False), ("pruned", True))


async def _made(folder: Path, *, pruned: bool) -> Log:
    data_dir, begun = folder / "var", 0
    for size in SIZES:
        if size == SIZES[-1]:
            shutil.copytree(data_dir, folder / "earlier")
        store = await Store.open(data_dir, clock=lambda: NOW)
        await asyncio.gather(*(store.audit.append(_event(n)) for n in range(begun, size)))
        begun = size
        if pruned and size == SIZES[-1]:
            await _prune(store, folder)
        await store.close()
    other = await Store.open(folder / "other", clock=lambda: NOW)
    await asyncio.gather(*(other.audit.append(_event(n)) for n in range(SIZES[-1])))
    await other.close()
    return Log(
        folder=data_dir,
        earlier=folder / "earlier",
        other=folder / "other",
        kept=(data_dir / CHECKPOINT).read_text(),
        first=FIRST_KEPT if pruned else 0,
    )


async def _refused(data_dir: Path) -> str:
    """Have a gateway remove what is old from the log; return why it does not, empty if it does."""
    store = await Store.open(data_dir, clock=lambda: NOW)
    try:
        await _prune(store, data_dir, kept=SIZES[-1])
    except NotRemovable as error:
        return str(error)
    finally:
        await store.close()
    return ""


async def _prune(store: Store, folder: Path, kept: int = FIRST_KEPT) -> None:
    names = itertools.count()

    async def record(code: str, message: str, evidence: Any) -> Any:
        reasons = [{"code": code, "message": message}]
        fields = {"code": code, "reasons": reasons, "evidence": dict(evidence)}
        name = f"k{kept}-{next(names)}"
        return await store.audit.append(
            AuditRecord(kind=RecordKind.SYSTEM, time=NOW, id=name, fields=fields)
        )

    retention = Retention(
        store.data_dir,
        store.writer,
        verifier=store.verifier,
        key=store.keys.audit,
        archive=folder / "archive",
        record=record,
        turn=store.aging,
    )
    before_us = int((NOW + kept) * 1e6)
    await retention.archive(before_us)
    await retention.prune(before_us)


def _event(number: int) -> AuditRecord:
    fields = {
        "principal": f"user{number % 7}",
        "server": "mail",
        "target": "send_email",
        "verdict": "deny",
        "code": "denied",
        "run": f"r_{number % 11}",
        "decision_id": f"d_{number}",
    }
    time = NOW + number
    return AuditRecord(kind=RecordKind.OUTCOME, time=time, id=f"e{number}", fields=fields)


def _tried(
    kind: Tampering, log: Log, dice: random.Random, folder: Path
) -> tuple[Change, bool, bool, str]:
    shutil.copytree(log.folder, folder)
    try:
        with closing(sqlite3.connect(folder / DATABASE)) as connection:
            for trigger in _TRIGGERS:
                connection.execute(f"DROP TRIGGER {trigger}")
            change = kind(connection, dice, log)
            connection.commit()
        if change.what == _NOWHERE:
            # `verify` could not tell of it afterwards: it would be signed.
            why = asyncio.run(_refused(folder))
            return change, bool(why), change.says in why, why
        _files(change, log, folder)
        found = verify(folder, own_verifier(log.folder), checkpoints=[("kept", log.kept)])
    finally:
        shutil.rmtree(folder)
    detected = found.finding is not Finding.OK
    return change, detected, detected and _located(change, found), found.reason


def _located(change: Change, found: Any) -> bool:
    """Whether what is named is the record, or a range that holds it."""
    if change.says and change.says not in found.reason:
        return False
    if change.first is None:
        return True
    if found.first_bad is None:
        return False
    named = re.search(r"records (\d+) to (\d+)", found.reason)
    earlier = re.search(r"others from (\d+) on", found.reason)
    first = int(earlier[1]) if earlier else found.first_bad
    last = int(named[2]) if named else found.first_bad
    return bool(first <= change.first <= last)


def _files(change: Change, log: Log, folder: Path) -> None:
    """Exchange whole files, which no statement can do."""
    source = {
        "roll back the database": (log.earlier, (DATABASE,)),
        "roll back both files": (log.earlier, _STATE),
        "another log in its place": (log.other, _STATE),
    }.get(change.what)
    if source is not None:
        for path in folder.glob(f"{DATABASE}-*"):
            path.unlink()
        for name in source[1]:
            shutil.copy2(source[0] / name, folder / name)
    if change.what in {"delete all checkpoints", "cut off the end without a trace"}:
        with suppress(FileNotFoundError):
            (folder / CHECKPOINT).unlink()


def _any(dice: random.Random, log: Log) -> int:
    return dice.randrange(log.first, SIZES[-1])


def _body(connection: sqlite3.Connection, index: int) -> bytes:
    (body,) = connection.execute(
        "SELECT CAST(body AS BLOB) FROM audit WHERE leaf_index = ?", (index,)
    ).fetchone()
    return bytes(body)


def _put(connection: sqlite3.Connection, index: int, body: bytes) -> None:
    """Write a body with all that can be computed of it."""
    names = ", ".join(f"{name} = ?" for name in (*COLUMNS, "leaf_hash", "body"))
    connection.execute(
        f"UPDATE audit SET {names} WHERE leaf_index = ?",
        (*columns_of(body), leaf_hash(body), body.decode(), index),
    )


def _retile(connection: sqlite3.Connection, tile: int) -> None:
    """Make a tile's root that of the leaves that are there."""
    rows = connection.execute(
        "SELECT leaf_hash FROM audit WHERE leaf_index >= ? AND leaf_index < ? ORDER BY leaf_index",
        (tile * TILE_LEAVES, (tile + 1) * TILE_LEAVES),
    ).fetchall()
    if len(rows) == TILE_LEAVES:
        root = tile_root([leaf for (leaf,) in rows])
        connection.execute("UPDATE tiles SET root = ? WHERE tile = ?", (root, tile))


def edit_a_byte(connection: sqlite3.Connection, dice: random.Random, log: Log) -> Change:
    index = _any(dice, log)
    body = bytearray(_body(connection, index))
    place = dice.randrange(len(body))
    body[place] = ord("x") if body[place] != ord("x") else ord("y")
    connection.execute(
        "UPDATE audit SET body = CAST(? AS TEXT) WHERE leaf_index = ?", (bytes(body), index)
    )
    return Change("edit a byte of a body", index)


def edit_a_leaf(connection: sqlite3.Connection, dice: random.Random, log: Log) -> Change:
    index = _any(dice, log)
    connection.execute(
        "UPDATE audit SET leaf_hash = ? WHERE leaf_index = ?", (dice.randbytes(32), index)
    )
    return Change("edit a leaf hash", index)


def edit_a_column(connection: sqlite3.Connection, dice: random.Random, log: Log) -> Change:
    index, name = _any(dice, log), dice.choice(COLUMNS)
    changed = 7 if name == "time_us" else f"forged-{index}"
    connection.execute(f"UPDATE audit SET {name} = ? WHERE leaf_index = ?", (changed, index))
    return Change(f"edit the column {name}", index)


def forge(connection: sqlite3.Connection, dice: random.Random, log: Log) -> Change:
    index = _any(dice, log)
    members = {**orjson.loads(_body(connection, index)), "verdict": "allow"}
    _put(connection, index, orjson.dumps(members))
    return Change("forge a record", index)


def forge_with_its_tile(connection: sqlite3.Connection, dice: random.Random, log: Log) -> Change:
    change = forge(connection, dice, log)
    _retile(connection, (change.first or 0) // TILE_LEAVES)
    return Change("forge a record and its tile", change.first)


def delete(connection: sqlite3.Connection, dice: random.Random, log: Log) -> Change:
    first = _any(dice, log)
    stop = min(first + dice.choice((1, 1, 2, 50)), SIZES[-1])
    connection.execute("DELETE FROM audit WHERE leaf_index >= ? AND leaf_index < ?", (first, stop))
    return Change("delete records", first)


def _shift(connection: sqlite3.Connection, start: int, by: int) -> None:
    """Move all records from `start` on; far away first, as no two may have one place."""
    far = 10**9
    connection.execute(
        "UPDATE audit SET leaf_index = leaf_index + ? WHERE leaf_index >= ?", (far, start)
    )
    connection.execute(
        "UPDATE audit SET leaf_index = leaf_index - ? WHERE leaf_index >= ?", (far - by, far)
    )


def delete_and_close_the_gap(
    connection: sqlite3.Connection, dice: random.Random, log: Log
) -> Change:
    index = _any(dice, log)
    connection.execute("DELETE FROM audit WHERE leaf_index = ?", (index,))
    _shift(connection, index + 1, -1)
    for tile in range(index // TILE_LEAVES, SIZES[-1] // TILE_LEAVES):
        _retile(connection, tile)
    return Change("delete a record and close the gap", index)


def insert(connection: sqlite3.Connection, dice: random.Random, log: Log) -> Change:
    index = _any(dice, log)
    members = {**orjson.loads(_body(connection, index)), "id": f"forged-{index}"}
    body = orjson.dumps(members)
    _shift(connection, index, 1)
    marks = ", ".join("?" * (len(COLUMNS) + 3))
    connection.execute(
        f"INSERT INTO audit (leaf_index, {', '.join(COLUMNS)}, leaf_hash, body) VALUES ({marks})",
        (index, *columns_of(body), leaf_hash(body), body.decode()),
    )
    for tile in range(index // TILE_LEAVES, SIZES[-1] // TILE_LEAVES):
        _retile(connection, tile)
    return Change("insert a record", index)


def reorder(connection: sqlite3.Connection, dice: random.Random, log: Log) -> Change:
    one, other = sorted(dice.sample(range(log.first, SIZES[-1]), 2))
    bodies = _body(connection, one), _body(connection, other)
    connection.execute("UPDATE audit SET id = 'aside' WHERE leaf_index = ?", (one,))
    _put(connection, other, bodies[0])
    _put(connection, one, bodies[1])
    for tile in {one // TILE_LEAVES, other // TILE_LEAVES}:
        _retile(connection, tile)
    return Change("exchange two records", one)


def truncate(connection: sqlite3.Connection, dice: random.Random, log: Log) -> Change:
    size = dice.randrange(log.first + 1, SIZES[-1])
    connection.execute("DELETE FROM audit WHERE leaf_index >= ?", (size,))
    return Change("cut off the end", size)


def truncate_without_a_trace(
    connection: sqlite3.Connection, dice: random.Random, log: Log
) -> Change:
    size = dice.randrange(max(log.first, SIZES[0]) + 1, SIZES[-1])
    connection.execute("DELETE FROM audit WHERE leaf_index >= ?", (size,))
    connection.execute("DELETE FROM tiles WHERE tile >= ?", (size // TILE_LEAVES,))
    connection.execute("DELETE FROM checkpoints WHERE size > ?", (size,))
    # Of a pruned log the record of the removal is cut off, too, and that is found first.
    return Change("cut off the end without a trace", None if log.first else size)


def swap_checkpoints(connection: sqlite3.Connection, dice: random.Random, _: Log) -> Change:
    one, other = sorted(dice.sample(_sizes(connection), 2))
    notes = dict(connection.execute("SELECT size, note FROM checkpoints").fetchall())
    for size, note in ((one, notes[other]), (other, notes[one])):
        connection.execute("UPDATE checkpoints SET note = ? WHERE size = ?", (note, size))
    return Change("exchange two checkpoints", None, f"checkpoint {one}")


def edit_a_checkpoint(connection: sqlite3.Connection, dice: random.Random, _: Log) -> Change:
    size = dice.choice(_sizes(connection))
    (note,) = connection.execute("SELECT note FROM checkpoints WHERE size = ?", (size,)).fetchone()
    lines = note.split("\n")
    lines[2] = dice.randbytes(32).hex()[:43] + "="
    connection.execute("UPDATE checkpoints SET note = ? WHERE size = ?", ("\n".join(lines), size))
    return Change("edit a checkpoint", None, f"checkpoint {size}")


def delete_a_checkpoint(connection: sqlite3.Connection, dice: random.Random, _: Log) -> Change:
    size = dice.choice(_sizes(connection))
    connection.execute("DELETE FROM checkpoints WHERE size = ?", (size,))
    return Change("delete a checkpoint", None, f"{size}")


def delete_all_checkpoints(connection: sqlite3.Connection, _: random.Random, __: Log) -> Change:
    connection.execute("DELETE FROM checkpoints")
    return Change("delete all checkpoints", None, "checkpoint")


def edit_a_tile(connection: sqlite3.Connection, dice: random.Random, _: Log) -> Change:
    tile = dice.randrange(SIZES[-1] // TILE_LEAVES)
    connection.execute("UPDATE tiles SET root = ? WHERE tile = ?", (dice.randbytes(32), tile))
    return Change("edit a tile", None, "to")


def delete_a_tile(connection: sqlite3.Connection, dice: random.Random, log: Log) -> Change:
    tile = dice.randrange(SIZES[-1] // TILE_LEAVES)
    connection.execute("DELETE FROM tiles WHERE tile = ?", (tile,))
    return Change("delete a tile", tile * TILE_LEAVES if tile * TILE_LEAVES < log.first else None)


def roll_back(_: sqlite3.Connection, __: random.Random, ___: Log) -> Change:
    return Change("roll back the database", SIZES[-2])


def roll_back_both(_: sqlite3.Connection, __: random.Random, ___: Log) -> Change:
    return Change("roll back both files", SIZES[-2])


def replace_the_log(_: sqlite3.Connection, __: random.Random, ___: Log) -> Change:
    return Change("another log in its place", None, "not signed by")


def prune_unrecorded(connection: sqlite3.Connection, dice: random.Random, log: Log) -> Change:
    front = log.first + TILE_LEAVES * dice.choice((1, 2))
    connection.execute("UPDATE log_front SET first = ?", (front,))
    connection.execute("DELETE FROM audit WHERE leaf_index < ?", (front,))
    return Change("remove records without a record of it", 0)


def name_an_archive(connection: sqlite3.Connection, _: random.Random, log: Log) -> Change:
    connection.execute("INSERT INTO archives VALUES (?, 65536, '/nowhere', '', 0)", (log.first,))
    return Change(_NOWHERE, None, f"is not the archive of the records from {log.first} on")


def move_the_front(connection: sqlite3.Connection, dice: random.Random, log: Log) -> Change:
    front = dice.choice([n for n in (0, 256, 300, 768) if n != log.first])
    connection.execute("UPDATE log_front SET first = ?", (front,))
    return Change("move the front of the log", None)


def _sizes(connection: sqlite3.Connection) -> list[int]:
    return [size for (size,) in connection.execute("SELECT size FROM checkpoints WHERE size > 0")]


TAMPERINGS: tuple[Tampering, ...] = (
    edit_a_byte,
    edit_a_leaf,
    edit_a_column,
    forge,
    forge_with_its_tile,
    delete,
    delete_and_close_the_gap,
    insert,
    reorder,
    truncate,
    truncate_without_a_trace,
    swap_checkpoints,
    edit_a_checkpoint,
    delete_a_checkpoint,
    delete_all_checkpoints,
    edit_a_tile,
    delete_a_tile,
    roll_back,
    roll_back_both,
    replace_the_log,
    prune_unrecorded,
    name_an_archive,
    move_the_front,
)
