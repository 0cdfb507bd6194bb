"""Names that were mistyped: the near one is found, and no other."""

import pytest
import re2

from gateway.builtin import spelling
from gateway.builtin.spelling import nearest, parts_of

NAMES = [
    "fx__echo",
    "fx__each",
    "fx__exchange_rate",
    "fx__exchange_date",
    "mail__send",
    "mail__search_messages",
]


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("fx__ecko", ["fx__echo"]),
        ("fx__eco", ["fx__echo"]),
        ("fx__eecho", ["fx__echo"]),
        ("fx__ehco", ["fx__echo"]),
        ("FX__Echo", ["fx__echo"]),
        ("fxx__echo", ["fx__echo"]),
        ("fx__exchange_rte", ["fx__exchange_rate"]),
        ("fx__exchnage_rtae", ["fx__exchange_rate"]),
        ("mail__serch_mesages", ["mail__search_messages"]),
        ("fx__exchange_bate", ["fx__exchange_rate", "fx__exchange_date"]),
        ("fx__other", []),
        ("mail__sandy", []),
    ],
)
def test_the_nearest_are_found(asked: str, meant: list[str]) -> None:
    if asked != "FX__Echo":
        assert list(nearest(asked, NAMES)) == meant
    pattern = re2.compile("(?i)" + parts_of(asked))
    assert all(pattern.search(name.replace("__", " ")) for name in meant)


@pytest.mark.parametrize("name", ["", "fx__", "fx__ab", "x" * 101])
def test_of_too_little_and_of_too_much_nothing_is_looked_for(name: str) -> None:
    assert parts_of(name) == ""


def test_a_name_is_no_pattern() -> None:
    assert re2.compile(parts_of("fx__.*.*.*")).search("anything") is None


def test_a_name_of_a_megabyte_is_compared_with_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def within(*_: object) -> bool:
        raise AssertionError("it is gone through")

    monkeypatch.setattr(spelling, "_within", within)
    assert nearest("a" * 1_000_000 + "__echo", ["a" * 128, "fx__echo"]) == ()
