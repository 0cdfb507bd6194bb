"""How many mailboxes there are, and what they keep: one person's take nobody else's place."""

import asyncio
import itertools

import pytest

from gateway.builtin import mailboxes
from gateway.builtin.mailboxes import Mailboxes


async def test_of_very_many_of_one_person_their_own_oldest_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mailboxes, "_MOST_OF_ONE", 2)
    numbers = itertools.count()
    boxes = Mailboxes(new_nonce=lambda: str(next(numbers)), most=4)
    boxes.of(("noah", "s"), "noah", resumable=True).left_at = 0.0
    for at, session in ((2.0, "a"), (1.0, "b")):
        assert boxes.excess("emma") is None
        boxes.of(("emma", session), "emma", resumable=True).left_at = at
    assert boxes.excess("emma") == ("emma", "b")
    assert boxes.excess("noah") is None
    boxes.remove(("emma", "b"))
    assert boxes.excess("emma") is None
    for session in ("c", "d"):
        boxes.of((session, session), session, resumable=True)
    assert boxes.excess("lena") == ("noah", "s")
    for key in (("emma", "a"), ("c", "c"), ("d", "d"), ("noah", "s")):
        boxes.remove(key)
    assert boxes._of == {}


def sizes(boxes: Mailboxes) -> dict[str, int]:
    return {session: box.octets for (_, session), box in boxes._boxes.items()}


async def test_of_what_one_person_is_told_the_bytes_are_bounded_whatever_clients_listen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mailboxes, "_OCTETS_OF_ONE", 100)
    boxes = Mailboxes(new_nonce=lambda: "n")
    noahs = boxes.of(("noah|c", "noahs"), "noah", resumable=True)
    noahs.put(b"x" * 80)
    noahs.left_at = 0.0
    box = noahs
    for left_at, client in ((3.0, "a"), (2.0, "b"), (None, "c")):
        box = boxes.of((f"emma|{client}", client), "emma", resumable=True)
        box.left_at = left_at
        box.put(b"x" * 40)
    assert sizes(boxes) == {"noahs": 80, "a": 40, "b": 0, "c": 40}
    box.put(b"x" * 70)
    assert sizes(boxes) == {"noahs": 80, "a": 0, "b": 0, "c": 0}


async def test_of_what_all_are_told_the_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailboxes, "_OCTETS", 100)
    boxes = Mailboxes(new_nonce=lambda: "n")
    made = [boxes.of((f"u{at}", f"{at}"), f"u{at}", resumable=True) for at in range(4)]
    for at, box in enumerate(made):
        box.left_at = float(at)
        box.put(b"x" * 40)
    assert sizes(boxes) == {"0": 0, "1": 0, "2": 40, "3": 40}
    boxes.remove(("u3", "3"))
    made[3].put(b"x" * 99)  # nobody's any more
    assert (boxes._all, boxes._octets["u2"]) == (40, 40)
    for at in range(3):
        boxes.remove((f"u{at}", f"{at}"))
    assert (boxes._all, +boxes._octets) == (0, {})


async def test_a_stream_ends_though_what_it_had_to_tell_was_too_much() -> None:
    boxes = Mailboxes(new_nonce=lambda: "n")
    box = boxes.of(("emma", "s"), "emma", resumable=True)
    box.put(b"x")
    box.empty()
    box.close()
    async with asyncio.timeout(60):
        assert [event async for event in box.events(None, primes=False)] == []
