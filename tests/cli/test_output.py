"""Tables fit the terminal they are printed on, and text of others cannot speak to it."""

import os
import shutil
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli.ask import _say_rest
from gateway.cli.output import cut, fitting, print_fields, print_rows, screen_columns
from gateway.cli.units import span

ROWS: list[dict[str, Any]] = [
    {"id": "01a201ee2e4d25bbb1950adf0000002f", "what": "x" * 60, "code": "denied"},
    {"id": "01a201ee2e4d25bbb1950adf00000030", "what": "東京" * 20, "code": "ok"},
    {"id": "1", "what": "\x1b[2J\u202egone", "code": None},
]
COLUMNS = ("id", "what", "code")


def printed(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    wide: int | None,
    *,
    everything: bool = False,
) -> list[str]:
    """The lines of the table on a terminal that is so wide, or on none."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: wide is not None, raising=False)
    monkeypatch.setattr(
        shutil, "get_terminal_size", lambda: os.terminal_size((wide or 0, 24)), raising=True
    )
    print_rows(ROWS, COLUMNS, as_json=False, wide=everything)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("wide", [30, 60, 80, 99, 200])
def test_no_line_is_wider_than_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, wide: int
) -> None:
    lines = printed(capsys, monkeypatch, wide)
    assert len(lines) == 1 + len(ROWS)
    assert max(map(screen_columns, lines)) <= wide
    assert ("\u2026" in lines[1]) == (wide < 105)


def test_the_widest_column_is_cut_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(capsys, monkeypatch, 80)
    assert lines[0].split() == ["ID", "WHAT", "CODE"]
    assert lines[1].startswith("01a201ee2e4d25bbb1950adf0000002f  xxxx")
    assert lines[1].endswith("x\u2026  denied")


def test_what_is_no_terminal_has_eighty_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert max(map(screen_columns, printed(capsys, monkeypatch, None))) == 80


@pytest.mark.parametrize("terminal", [None, 30])
def test_whoever_wants_everything_gets_it_on_any_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: int | None
) -> None:
    lines = printed(capsys, monkeypatch, terminal, everything=True)
    assert "x" * 60 in lines[1]
    assert "東京" * 20 in lines[2]


@pytest.mark.parametrize("wide", [None, 80])
def test_control_characters_are_spelled_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, wide: int | None
) -> None:
    line = printed(capsys, monkeypatch, wide)[3]
    assert "\\e[2J\\u{202e}gone" in line
    assert not set(line) & {"\x1b", "\u202e"}


@given(st.lists(st.integers(1, 300), min_size=1, max_size=9), st.integers(10, 300))
def test_widths_are_only_taken_from_what_is_widest(widths: list[int], room: int) -> None:
    fitted = fitting(widths, room)
    assert all(new <= old for new, old in zip(fitted, widths, strict=True))
    cuts = [new for new, old in zip(fitted, widths, strict=True) if new < old]
    if cuts:
        assert max(fitted) - min(cuts) <= 1
        assert min(cuts) >= 6
    if sum(widths) + 2 * (len(widths) - 1) <= room:
        assert fitted == widths


@given(st.text(max_size=40), st.integers(1, 40))
def test_what_is_cut_takes_exactly_its_room(text: str, width: int) -> None:
    assert screen_columns(cut(text, width)) == width
    if screen_columns(text) <= width:
        assert cut(text, width).startswith(text)


def test_what_is_pasted_is_cut_last() -> None:
    assert fitting([32, 40, 40], 60, frozenset({0})) == [32, 12, 12]
    assert fitting([60, 40, 40], 60, frozenset({0})) == [44, 6, 6]


def test_a_long_structure_is_told_member_by_member(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"short": {"a": 1}, "names": ["x" * 50, "y" * 50], "long": {"a": "\x1b" + "x" * 80}}
    print_fields(row, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == 'short  {"a": 1}'
    assert lines[1] == f"names  {'x' * 50}, {'y' * 50}"
    assert lines[2:] == ["long   {", '         "a": "\\\\u001b' + "x" * 80 + '"', "       }"]


@pytest.mark.parametrize(
    ("seconds", "told"), [(0, "0s"), (-3, "0s"), (59, "59s"), (61, "1m"), (7200, "2h"), (2e5, "2d")]
)
def test_spans_are_told_in_their_largest_unit(seconds: float, told: str) -> None:
    assert span(seconds) == told


@pytest.mark.parametrize(
    ("more", "why"),
    [({}, "the index is being made"), ({"lag_s": 2.0}, "the log is 2.0 s late")],
)
def test_an_answer_that_is_not_complete_says_why(
    capsys: pytest.CaptureFixture[str], more: dict[str, float], why: str
) -> None:
    _say_rest({"complete": False, "through": 7, "next": None, **more})
    assert capsys.readouterr().err == f"{why}: this answer goes up to record 7\n"
