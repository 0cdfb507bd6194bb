"""What planes owe outlives the process, exactly."""

import sqlite3

import pytest

from gateway.domain.flow import RunId, Source
from gateway.domain.labels import Confidentiality, Integrity, Label
from gateway.domain.planes import Debt
from gateway.ports.debts import DebtStore
from gateway.storage.committer import NotAccepted
from gateway.storage.debts import DurableDebts, MemoryDebts
from tests.storage.placed import Place

LABEL = Label(integrity=Integrity.UNTRUSTED, confidentiality=Confidentiality.SECRET)


def debt(decision: str, due: float = 5.0) -> Debt:
    source = Source(server="mail", tool="search", record="r7", label=LABEL)
    return Debt(decision=decision, run=RunId("r_1"), source=source, due=due)


def debts(place: Place) -> DurableDebts:
    with place.reading() as tables:
        return DurableDebts(place.writer, tables)


async def test_what_is_owed_is_found_again(place: Place) -> None:
    store = debts(place)
    assert store.left() == []
    for one in (debt("d_2", due=9.0), debt("d_1"), debt("d_3")):
        await store.owe(one)
    await store.settle("d_3")
    await store.settle("d_unheard")
    assert debts(place).left() == [debt("d_1"), debt("d_2", due=9.0)]


async def test_in_memory_it_is_the_same_until_the_end() -> None:
    kept: DebtStore = MemoryDebts()
    await kept.owe(debt("d_1"))
    await kept.owe(debt("d_2"))
    await kept.settle("d_1")
    assert kept.left() == [debt("d_2")]


async def test_one_decision_owes_once(place: Place) -> None:
    store = debts(place)
    await store.owe(debt("d_1"))
    with pytest.raises((NotAccepted, sqlite3.IntegrityError), match=r"(?i)unique"):
        await store.owe(debt("d_1"))
