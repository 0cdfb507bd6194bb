"""Cosignatures lie beside their checkpoints, and verifying the log says what they prove."""

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from gateway.audit.cosignature import Witnessed, WitnessKey
from gateway.errors import AuditUnavailable
from gateway.storage.cosignatures import DurableCosignatures, cosignatures
from gateway.storage.database import DATABASE
from gateway.storage.following import reading
from gateway.storage.store import Store
from gateway.storage.verify import Finding, Verification, own_verifier, verify
from tests.export.witness import Witness
from tests.storage.logged import NOW, append, made

WITNESS = Witness()
KEY = WitnessKey.parse(WITNESS.vkey)


async def cosigned_log(folder: Path) -> None:
    """Write a log of four records, whose first two a witness has cosigned."""
    store = await Store.open(folder, clock=lambda: NOW)
    shown = DurableCosignatures(store.writer, partial(reading, folder / DATABASE))
    await append(store, made("1"))
    await store.writer.sign()
    assert await shown.last(KEY.id) == 0
    size, note = await shown.head() or (0, "")
    await shown.keep(KEY.id, size, WITNESS.line(note.rpartition("\n\n")[0] + "\n", 7))
    assert (size, await shown.last(KEY.id), await shown.last("other+00")) == (2, 2, 0)
    await append(store, made("2"), begin=2)
    await store.close()


def verified(folder: Path, *keys: WitnessKey) -> Verification:
    return verify(folder, own_verifier(folder), witnesses=keys)


def change(folder: Path, sql: str) -> None:
    with closing(sqlite3.connect(folder / DATABASE)) as connection, connection:
        connection.executescript(sql)


async def test_a_log_says_what_a_witness_has_cosigned_of_it(tmp_path: Path) -> None:
    await cosigned_log(tmp_path)
    found = verified(tmp_path, KEY)
    assert (found.finding, found.signed) == (Finding.OK, 4)
    assert found.witnessed == (Witnessed(name=WITNESS.name, time=7, size=2),)
    assert verified(tmp_path).witnessed == ()


async def test_a_checkpoint_from_elsewhere_may_bear_the_witness(tmp_path: Path) -> None:
    await cosigned_log(tmp_path)
    note = (tmp_path / "checkpoint").read_text()
    note += WITNESS.line(note.rpartition("\n\n")[0] + "\n", 9)
    found = verify(tmp_path, own_verifier(tmp_path), checkpoints=[("kept", note)], witnesses=[KEY])
    assert found.witnessed == (Witnessed(name=WITNESS.name, time=9, size=4),)


async def test_a_witness_that_has_not_cosigned_is_a_no(tmp_path: Path) -> None:
    await cosigned_log(tmp_path)
    other = WitnessKey.parse(Witness("other.example", seed=9).vkey)
    found = verified(tmp_path, KEY, other)
    assert (found.finding, found.exit_status) == (Finding.INCOMPLETE, 1)
    assert found.reason == "no checkpoint here is cosigned by other.example"


async def test_a_cosignature_of_another_text_is_found(tmp_path: Path) -> None:
    await cosigned_log(tmp_path)
    line = WITNESS.line("another\n", 8)
    change(tmp_path, f"UPDATE cosignatures SET line = '{line}'")
    found = verified(tmp_path, KEY)
    assert (found.finding, found.signed) == (Finding.ALTERED, 0)
    assert found.reason == (
        "checkpoint 2: the cosignature of witness.example/w1 does not match the note"
    )
    assert verified(tmp_path).finding is Finding.OK  # nobody asked for it, and it proves nothing


async def test_a_cosigned_checkpoint_that_is_missing_is_found(tmp_path: Path) -> None:
    await cosigned_log(tmp_path)
    change(tmp_path, "UPDATE cosignatures SET size = 9")
    found = verified(tmp_path)
    assert found.signed == 4
    assert (found.finding, found.reason) == (
        Finding.INCOMPLETE,
        "a witness has cosigned 9 records, and their checkpoint is missing",
    )


async def test_a_log_from_before_there_were_witnesses_is_verified(tmp_path: Path) -> None:
    await cosigned_log(tmp_path)
    change(tmp_path, "DROP TABLE cosignatures")
    assert verified(tmp_path).finding is Finding.OK


async def test_growth_is_proven_where_the_log_is_there(tmp_path: Path) -> None:
    await cosigned_log(tmp_path)
    store = await Store.open(tmp_path, clock=lambda: NOW)
    shown = DurableCosignatures(store.writer, partial(reading, tmp_path / DATABASE))
    assert (await shown.growth(0, 4), len(await shown.growth(2, 4))) == ((), 1)
    await store.close()
    absent = DurableCosignatures(store.writer, partial(reading, tmp_path / "absent"))
    with pytest.raises(AuditUnavailable):
        await absent.growth(2, 4)


async def test_what_is_cosigned_while_the_log_is_verified_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cosigned_log(tmp_path)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        note, link = connection.execute(
            "SELECT note, link FROM checkpoints WHERE size = 4"
        ).fetchone()
    change(tmp_path, "DELETE FROM checkpoints WHERE size = 4")

    def meanwhile(connection: sqlite3.Connection) -> dict[int, str]:
        with closing(sqlite3.connect(tmp_path / DATABASE)) as beside, beside:
            beside.execute(
                "INSERT INTO checkpoints (size, note, previous, link) VALUES (4, ?, 2, ?)",
                (note, link),
            )
            beside.execute("INSERT INTO cosignatures VALUES (4, 'w', ?)", ("x\n",))
        return cosignatures(connection)

    monkeypatch.setattr("gateway.storage.verify.cosignatures", meanwhile)
    assert verified(tmp_path).finding is Finding.OK


def test_a_log_from_before_there_were_witnesses_has_none_and_a_damaged_one_is_not_taken_for_it() -> (
    None
):
    with closing(sqlite3.connect(":memory:")) as connection:
        assert cosignatures(connection) == {}
        connection.execute("CREATE TABLE cosignatures (size INTEGER)")
        with pytest.raises(sqlite3.OperationalError):
            cosignatures(connection)
