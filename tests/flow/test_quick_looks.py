"""What is told by a quick look is what a look at everything tells."""

import random
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.domain.labels import Effect, ToolRule
from gateway.flow import folding, forms, placing, spoken, steps, task
from gateway.flow.arguments import arguments_of, is_address
from gateway.flow.folding import revealed
from gateway.flow.forms import links_in
from gateway.flow.fragments import Fragments, _grams_of
from gateway.flow.telling import _CODE, IN_A_PIECE, codes_in, tells
from gateway.flow.use import Use

USE = Use(server="s", tool="t", rule=ToolRule(), effect=Effect.READ, arguments={})
SIGNS = st.text("aeDpPhHtTwWsS\u017f0195.:/\\ -_\n@xnm?#&\u0660", max_size=60)
PIECES = st.lists(
    st.one_of(
        SIGNS,
        st.sampled_from(
            [
                "www.",
                "WwW.",
                "http:",
                "https:",
                "httpx:",
                "http\u017f:",
                "://",
                "//",
                ".com",
                ".example/",
                ".7/",
                "1.2.3.4/x",
                "xn--ab",
                "mailto:",
                "type:",
                "evil.com",
                "/\\a.b",
                "DE-7391-4482-AX",
                "key.sk-12345678",
                "2026-12-01",
                "4111111111111111",
                " ",
            ]
        ),
    ),
    max_size=12,
).map("".join)


@given(PIECES)
@example("see http:/a")
@example("see httpS:a, or http\u017f:a")
@example("see wWw.a")
def test_links_are_found_by_the_dots_as_by_every_sign(text: str) -> None:
    told = list(links_in(text))
    with pytest.MonkeyPatch.context() as patch:
        every = forms._WWW_MARK
        patch.setattr(forms, "_URL_MARK", every)
        patch.setattr(forms, "_HOST_MARK", every)
        patch.setattr(forms, "_SCHEME", re.compile(""))
        assert told == list(links_in(text))


@given(PIECES)
def test_codes_are_found_from_the_first_digit_on_as_from_the_beginning(text: str) -> None:
    found = (word[0].decode() for word in _CODE.finditer(revealed(text).encode()))
    assert list(codes_in(text)) == [c for c in found if len(c) >= 8 and tells(c, IN_A_PIECE)]


@given(
    st.sampled_from(["url", "to", "replyUrl", "hosts", "domain_2", "", "7", "URLs", "x"]),
    st.one_of(
        st.none(),
        st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["string", "integer", "boolean", "array", ["null"]]),
                "format": st.sampled_from(["uri", "email", "date", 7]),
                "enum": st.just(["a"]),
            },
        ),
    ),
)
def test_an_argument_is_for_addresses_as_all_that_is_told_of_it_says(name, declared) -> None:
    told = arguments_of({"properties": {name: declared}})
    assert [is_address(name, {"properties": {name: declared}})] == [a.address for a in told] or (
        not name and not told
    )
    assert (
        is_address(name, {})
        == is_address(name, None)
        == is_address(name, {"properties": {name: {}}})
    )


@given(PIECES, st.integers(1, 9))
def test_links_are_found_step_by_step_as_in_one(text: str, step: int) -> None:
    told = list(links_in(text))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "STEP", step)
        assert told == list(links_in(text))


@given(st.text("aB1 _&-\u0660\u017f\u00e9(.,'\ud800\U0001f980", max_size=60), st.integers(1, 9))
@example("a a1", 1)
@example("a b 12", 1)
@example("a& b a1b ", 1)
def test_texts_are_read_step_by_step_as_in_one(text: str, step: int) -> None:
    many = re.compile(placing._MANY_WORDS.pattern.replace("8192", "2"), re.ASCII)

    def read() -> tuple[object, ...]:
        form = placing.form_at("$.url", text, USE)
        return (
            *(form, task.is_number(text), revealed(text), folding.folded(text)),
            folding.words(text),
        )

    told = read()
    with pytest.MonkeyPatch.context() as patch:
        for module in (steps, placing, task):
            patch.setattr(module, "STEP", step)
        patch.setattr(placing, "_MANY_WORDS", many)
        assert told == read()
        assert placing._is_long_enough(text) == (placing._LONG_ENOUGH.search(text) is not None)


@given(st.text(st.characters(max_codepoint=127)))
def test_tokens_of_ascii_are_those_of_any_text(text: str) -> None:
    assert spoken._tokens(text) == spoken._TOKEN.findall(text.casefold())


@given(PIECES)
def test_what_has_no_sign_of_a_place_is_of_none(text: str) -> None:
    shown = forms._shown(text)
    told = "://" in shown or bool(list(forms._odd_links(shown))) or forms._is_on_another(shown)
    assert forms.is_of_a_place(text) == (told or forms._is_beyond(shown))


def _quoted(dice: random.Random, texts: list[bytes], words: list[bytes]) -> bytes:
    """Return words with pieces of `texts` among them, some backwards, some with their mirror beside."""
    parts = dice.choices(words, k=dice.randrange(20))
    for _ in range(dice.randrange(4)):
        text = dice.choice(texts)
        begin = dice.randrange(len(text))
        piece = text[begin : begin + dice.randrange(12, 60)]
        turned = dice.choice([piece, piece[::-1], piece[::-1] + piece, piece + piece[::-1]])
        parts.insert(dice.randrange(len(parts) + 1), turned)
    return b"".join(parts)


def test_pieces_are_found_both_ways_at_once_as_one_way_after_the_other() -> None:
    dice = random.Random(5)
    words = [bytes(dice.choices(b"etaoinshr", k=dice.randrange(2, 12))) for _ in range(60)]
    words += [b"ab" * 9, b"a" * 20]
    fragments = Fragments()
    for serial in range(1, 9):
        fragments.add(serial, b"".join(dice.choices(words, k=60)))
    fragments.drop(1)
    texts = list(fragments._texts.values())
    payloads = [_quoted(dice, texts, words) for _ in range(400)]
    told = [fragments.both_ways(payload) for payload in payloads]
    assert min(sum(map(len, one_way)) for one_way in zip(*told, strict=True)) > 100
    for payload, found in zip(payloads, told, strict=True):
        assert found == (fragments.within(payload), fragments.within(payload[::-1]))


def test_pieces_are_found_as_where_no_row_is_left_out() -> None:
    dice = random.Random(6)
    words = [bytes(dice.choices(b"etaoinshr", k=dice.randrange(2, 12))) for _ in range(60)]
    fragments = Fragments()
    for serial in range(1, 9):
        fragments.add(serial, b"".join(dice.choices(words, k=60)))
    texts = list(fragments._texts.values())
    told = []
    for payload in [_quoted(dice, texts, words) for _ in range(300)]:
        grams = _grams_of(payload)
        told += fragments.within(payload)
        rows = fragments._marks.rows(grams).tolist()
        assert fragments.within(payload) == list(fragments._longest_of(payload, grams, rows))
    assert len(told) > 100
