"""Many expressions at once are told apart by their numbers."""

import pytest

from gateway.flow.signs import Triggers


def test_expressions_are_numbered_through() -> None:
    triggers = Triggers(["a", "b", "x"], [], ["c"], ["d", "e"])
    assert triggers.hits(b"b e c") == [1, 3, 5]
    assert triggers.any_in(b"b e c")
    assert not triggers.hits(b"y")
    assert not triggers.any_in(b"y")


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\\w\{900\}: too much to be looked for in 4096 bytes"):
        Triggers([r"\w{900}"], memory=4096)
    with pytest.raises(ValueError, match="2 expressions: too much"):
        Triggers(["a", "("])
