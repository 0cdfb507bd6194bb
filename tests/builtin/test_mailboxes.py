"""How many mailboxes there are: one principal's take nobody else's place."""

import itertools

import pytest

from gateway.builtin import mailboxes
from gateway.builtin.mailboxes import Mailboxes


async def test_of_very_many_of_one_principal_its_own_oldest_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mailboxes, "_MOST_OF_ONE", 2)
    numbers = itertools.count()
    boxes = Mailboxes(new_nonce=lambda: str(next(numbers)), most=4)
    boxes.of(("noah", "s"), resumable=True).left_at = 0.0
    for at, session in ((2.0, "a"), (1.0, "b")):
        assert boxes.excess("emma") is None
        boxes.of(("emma", session), resumable=True).left_at = at
    assert boxes.excess("emma") == ("emma", "b")
    assert boxes.excess("noah") is None
    boxes.remove(("emma", "b"))
    assert boxes.excess("emma") is None
    for session in ("c", "d"):
        boxes.of((session, session), resumable=True)
    assert boxes.excess("lena") == ("noah", "s")
    for key in (("emma", "a"), ("c", "c"), ("d", "d"), ("noah", "s")):
        boxes.remove(key)
    assert boxes._of == {}
