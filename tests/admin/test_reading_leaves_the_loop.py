"""How long a definition takes to read is for its server to say: never on the event loop."""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

from gateway.admin import pin_rows, pins
from gateway.admin.lock import LockSigner
from gateway.domain.tools import PinStatus
from tests.admin.world import EMMA, SIGNER, USER, World, reviewed, sighting

READS: list[tuple[Any, str]] = [
    (pin_rows, "classify"),
    (pin_rows, "parts_of"),
    (pins, "open_lock"),
    (LockSigner, "seal"),
]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Note what is read and in which thread, each time."""
    noted: list[tuple[str, int]] = []

    def noting(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(work)
        def done(*args: Any, **kwargs: Any) -> Any:
            noted.append((name, threading.get_ident()))
            return work(*args, **kwargs)

        return done

    for holder, name in READS:
        monkeypatch.setattr(holder, name, noting(name, getattr(holder, name)))
    return noted


def beside(read: list[tuple[str, int]]) -> list[str]:
    """Return what was read since, of which nothing was on the loop."""
    assert threading.get_ident() not in {thread for _, thread in read}
    names = [name for name, _ in read]
    read.clear()
    return names


async def test_a_definition_is_read_beside_the_loop_and_once(read: list[tuple[str, int]]) -> None:
    world = World()
    await world.show(sighting())
    (row,) = await world.pin_desk.diff(USER, server="mail", name="send")
    assert [part["name"] for part in row["parts"]] == ["description"]
    assert beside(read) == ["classify", "parts_of"]
    assert await world.pin_desk.diff(USER, server="mail", name="send") == [row]
    await world.pin_desk.approve(EMMA, server="mail", reviewed=[reviewed()])
    assert beside(read) == []


async def test_what_nobody_looked_at_first_is_approved_beside_the_loop(
    read: list[tuple[str, int]],
) -> None:
    world = World()
    await world.show(sighting())
    await world.pin_desk.approve(EMMA, server="mail", reviewed=[reviewed()])
    assert beside(read) == ["classify", "parts_of"]
    await world.show(sighting(text="Sends mail. To all."))
    await world.pin_desk.approve(
        EMMA, server="mail", reviewed=[reviewed(text="Sends mail. To all.")]
    )
    assert beside(read) == ["classify"]


async def test_a_lock_file_is_sealed_and_opened_beside_the_loop(
    read: list[tuple[str, int]],
) -> None:
    world, other = World(), World()
    for each in (world, other):
        await each.show(sighting())
    await world.pin_desk.approve(EMMA, server="mail", reviewed=[reviewed()])
    lock = await world.pin_desk.export(USER)
    read.clear()
    assert (await world.pin_desk.check(USER, lock=lock))["ok"]
    (row,) = await other.pin_desk.import_(EMMA, lock=lock, key=SIGNER.verifier)
    assert row["result"] == "approved"
    assert beside(read) == ["open_lock", "open_lock", "classify", "parts_of"]
    assert [pin.status for pin in other.pins.all()] == [PinStatus.APPROVED]
    await world.pin_desk.export(USER)
    assert beside(read) == ["seal"]
