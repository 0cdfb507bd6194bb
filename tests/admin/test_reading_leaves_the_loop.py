"""How long something takes to read is for servers and people to say: never on the event loop."""

import threading
from collections import Counter
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.admin import discovery, labels, pin_rows, pins, standing
from gateway.admin.lock import LockSigner
from gateway.admin.pins import PinDesk
from gateway.domain.tools import PinStatus
from gateway.storage import encoding
from tests.admin.test_approval_desk import ADA, Desk, question
from tests.admin.world import EMMA, SIGNER, USER, World, opened, reviewed, sighting

PLACES = (("$.to", "eve@outside.example"),)

READS: list[tuple[Any, str]] = [
    (pin_rows, "classify"),
    (pin_rows, "parts_of"),
    (pins, "open_lock"),
    (LockSigner, "seal"),
    (labels, "suggestion_for_pins"),
    (discovery, "_octets"),
    (standing, "_same"),
    (encoding, "hashes_of"),
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


async def test_all_pins_are_told_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    await world.show(sighting())
    await world.pin_desk.approve(EMMA, server="mail", reviewed=[reviewed()])
    lock = await world.pin_desk.export(USER)
    threads = set()
    looked = PinDesk._all

    def noting(desk: PinDesk, server: str | None) -> Any:
        threads.add(threading.get_ident())
        return looked(desk, server)

    monkeypatch.setattr(PinDesk, "_all", noting)
    for work in (
        world.pin_desk.list(USER),
        world.pin_desk.review(USER),
        world.pin_desk.check(USER, lock=lock),
        world.pin_desk.export(USER),
    ):
        threads.clear()
        await work
        assert threads
        assert threading.get_ident() not in threads


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


MANY = [sighting(f"send_{at}") for at in range(500)]


@pytest.mark.parametrize(
    ("command", "arguments", "works"),
    [
        ("servers.suggest_labels", {"server": "mail"}, {"suggestion_for_pins": 500}),
        ("discovery.core", {}, {"_octets": 500}),
        ("discovery.tokens", {}, {"_octets": 500}),
        ("discovery.suggest", {}, {"_octets": 500}),
        ("audit.hash", {"content": {"\u00e9": 1.5}}, {"hashes_of": 1}),
        ("audit.hash", {"content": "a"}, {"hashes_of": 2}),
        ("audit.ask", {"question": "where-went", "content": "a"}, {"hashes_of": 2}),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
async def test_what_many_tools_or_much_of_a_value_say_is_read_beside_the_loop(
    tmp_path: Path,
    read: list[tuple[str, int]],
    command: str,
    arguments: dict[str, Any],
    works: dict[str, int],
) -> None:
    async with opened(tmp_path, seen=MANY) as (admin, _):
        read.clear()
        answer: Any = admin.commands.run(EMMA, command, orjson.dumps(arguments))
        await answer
    assert Counter(beside(read)) == works


async def test_which_answers_could_stand_is_told_beside_the_loop_and_in_one_look(
    read: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk()
    looks: list[str | None] = []
    yeses = desk.store.yeses

    def noting(principal: str | None = None) -> Any:
        looks.append(principal)
        return yeses(principal)

    names = [f"{who}{at}" for who in "abc" for at in range(standing.OFTEN)]
    for name in names:
        asked = question(name, principal=f"iss|{name[0]}|c_1", places=PLACES, may_stand=True)
        await desk.store.file(asked)
        await desk.desk.allow(ADA, approval=name)
    monkeypatch.setattr(desk.store, "yeses", noting)
    read.clear()
    rows = await desk.standing.suggest(ADA)
    assert [(row["id"], row["times"]) for row in rows] == [("a2", 3), ("b2", 3), ("c2", 3)]
    assert looks == [None]
    assert set(beside(read)) == {"_same"}
