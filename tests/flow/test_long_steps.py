"""A long text is read in steps that let others have their turn: no expression finds it letter by letter."""

import asyncio
import re
import time
from collections.abc import Callable
from functools import cache

import pytest

from gateway.domain.flow import Form
from gateway.domain.labels import Effect, ToolRule
from gateway.domain.rewriting import Rewriter
from gateway.flow import forms, placing, review, secrecy, spellings, spoken, task
from gateway.flow.decoding import hex_digits
from gateway.flow.entities import from_html, unquoted
from gateway.flow.folding import revealed
from gateway.flow.forms import form_of
from gateway.flow.placing import form_at
from gateway.flow.spellings import Reader, TooMuch
from gateway.flow.use import Use

LENGTH = 1_500_000
USE = Use(server="s", tool="t", rule=ToolRule(), effect=Effect.READ, arguments={})
ONE_BY_ONE = re.compile(rb"[^A-Za-z0-9+/]")
"""As slow as it gets: it finds each letter by itself, all in one step."""


TRIES = 3


async def longest_gap_s(work: Callable[[], object]) -> float:
    """Return for how long the loop had no turn while a thread did `work`."""
    done = asyncio.ensure_future(asyncio.to_thread(work))
    longest, before = 0.0, time.perf_counter()
    while not done.done():
        await asyncio.sleep(0.001)
        now = time.perf_counter()
        longest, before = max(longest, now - before), now
    await done
    return longest


@cache
def one_step_s() -> float:
    """Return for how long one step takes the turn of all others; of several tries the shortest."""

    def one_by_one() -> object:
        return ONE_BY_ONE.sub(b"", b". " * (LENGTH // 2))

    return min(asyncio.run(longest_gap_s(one_by_one)) for _ in range(TRIES))


def read(text: str) -> None:
    with pytest.raises(TooMuch):
        Reader().spellings(text)


class Plain(Rewriter):
    def text(self, text: str, name: str = "") -> str:
        return text

    def shows(self, text: str, name: str = "") -> bool:
        return False


WORK: dict[str, Callable[[], object]] = {
    "spellings": lambda: read(". " * (LENGTH // 2)),
    "spellings of wide letters": lambda: read("\U0001f980" * (LENGTH // 4)),
    "base64 that is none": lambda: Plain().of({"blob": ". " * (LENGTH // 2)}),
    "digits": lambda: hex_digits(b"4 1 " * (LENGTH // 4)),
    "remarks": lambda: forms._is_mail_like("()" * (LENGTH // 2) + "@"),
    "blanks": lambda: forms._is_mail_like(" @" * (LENGTH // 2)),
    "links": lambda: list(forms._urls("a.b " * (LENGTH // 2))),
    "words": lambda: form_at("$.to", "a " * LENGTH, USE),
    "wide letters": lambda: revealed("\U0001f980" * LENGTH),
    "no number": lambda: task.is_number("(@) " * (LENGTH // 2)),
    "few letters": lambda: placing._is_long_enough("(@) " * (LENGTH // 2)),
    "tokens": lambda: spoken._tokens("(@) " * (LENGTH // 2)),
    "wide tokens": lambda: spoken._tokens("\u00e9 " * LENGTH),
    "a place": lambda: forms.is_of_a_place("a." * LENGTH + "/"),
    "odd links": lambda: list(forms._odd_links("\\ w" * LENGTH)),
    "machines": lambda: forms._is_on_another("@a.b,:" * LENGTH),
    "one machine": lambda: forms._is_on_another("@" + "a." * LENGTH + "b"),
    "no phones": lambda: forms._has_phone("(0" * LENGTH),
    "no accounts": lambda: list(forms._accounts("0" * LENGTH)),
    "no bank accounts": lambda: forms._has_iban("AA11a--" * LENGTH),
    "hosts of mail": lambda: list(forms._mailboxes("@a" * LENGTH)),
    "references": lambda: from_html("& " * LENGTH),
    "escapes": lambda: spellings.unescaped("\\a" * (LENGTH // 2)),
    "escaped octets": lambda: spellings.unescaped("%41" * (LENGTH // 6)),
    "percent signs": lambda: unquoted("a%" * (LENGTH // 6)),
    "parts": lambda: review._parts(",;" * (LENGTH // 6)),
    "secrets' words": lambda: list(secrecy._runs("a " * LENGTH)),
}


@pytest.mark.parametrize("name", WORK)
def test_no_long_text_keeps_the_loop_from_its_turn(name: str) -> None:
    """One try that keeps it from none is enough: what is one step is so each time."""
    allowed_s = one_step_s() / 2
    gaps_s = (asyncio.run(longest_gap_s(WORK[name])) for _ in range(TRIES))
    assert any(gap_s < allowed_s for gap_s in gaps_s)


def test_what_there_is_no_room_for_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(spellings, "_from_careless_base64", begun.append)
    with pytest.raises(TooMuch):
        Reader(room=100).spellings("a." * 100)
    assert begun == []


def test_digits_are_told_without_what_stands_around_them() -> None:
    assert hex_digits(rb"0x41, \x42:43|0x4") == "4142434"


def test_many_remarks_may_hide_an_address() -> None:
    assert form_of("emma (a) at home @ noon") is Form.NAME
    assert form_of("(a)" * 5_000 + " @") is Form.EMAIL
