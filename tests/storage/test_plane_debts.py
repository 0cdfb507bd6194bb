"""What planes owe outlives the process, exactly."""

from pathlib import Path

import pytest

from gateway.domain.flow import RunId, Source
from gateway.domain.labels import Confidentiality, Integrity, Label
from gateway.domain.planes import Debt
from gateway.ports.debts import DebtStore
from gateway.storage.debts import MemoryDebts
from gateway.storage.store import Store

LABEL = Label(integrity=Integrity.UNTRUSTED, confidentiality=Confidentiality.SECRET)


def debt(decision: str, due: float = 5.0) -> Debt:
    source = Source(server="mail", tool="search", record="r7", label=LABEL)
    return Debt(decision=decision, run=RunId("r_1"), source=source, due=due)


async def test_what_is_owed_is_found_again(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "var", clock=lambda: 1.0)
    assert store.debts.left() == []
    for one in (debt("d_2", due=9.0), debt("d_1"), debt("d_3")):
        await store.debts.owe(one)
    await store.debts.settle("d_3")
    await store.debts.settle("d_unheard")
    await store.close()
    again = await Store.open(tmp_path / "var", clock=lambda: 1.0)
    assert again.debts.left() == [debt("d_1"), debt("d_2", due=9.0)]
    await again.close()


async def test_in_memory_it_is_the_same_until_the_end() -> None:
    kept: DebtStore = MemoryDebts()
    await kept.owe(debt("d_1"))
    await kept.owe(debt("d_2"))
    await kept.settle("d_1")
    assert kept.left() == [debt("d_2")]


async def test_one_decision_owes_once(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "var", clock=lambda: 1.0)
    await store.debts.owe(debt("d_1"))
    with pytest.raises(Exception, match="UNIQUE"):
        await store.debts.owe(debt("d_1"))
    await store.close()
