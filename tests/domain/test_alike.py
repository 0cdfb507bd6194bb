"""Names that some reader takes for one."""

import re
import unicodedata
from collections import Counter
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain import alike as alike_module
from gateway.domain.alike import LONGEST, ROOMY, Known, Room, alike, begins, reads_as, twin
from gateway.domain.vocabulary import WORDS, confusing, is_ours

SPELLINGS = [
    "Result", "RESULT", "re\u017fult", "\uff32\uff25\uff33\uff35\uff2c\uff34", " result", "result\t",
    "re\u200bsult", "\ufeffresult", "res\u00adult", "result\ufe0f", "result\u0000", "re\u2060sult",
]  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_every_spelling_of_a_name_is_alike(name: str) -> None:
    assert alike(name) == "result"
    assert Known.of(["result"]).confused([name]) == name


@pytest.mark.parametrize(
    ("name", "plain"),
    [("\u212aey", "key"), ("\u0130ban", "iban"), ("\u0131ban", "iban"), ("\ufb01le", "file"), ("Stra\u00dfe", "STRASSE")],
)  # fmt: skip
def test_letters_that_fold_to_others_are_alike(name: str, plain: str) -> None:
    assert alike(name) == alike(plain)


@pytest.mark.parametrize(
    "name", ["results", "_result", "re.sult", "resul", "result2", "\u7d50\u679c"]
)
def test_another_name_is_another_name(name: str) -> None:
    assert alike(name) != "result"
    assert Known.of(["result"]).confused(["result", name]) is None


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("is_error", "isError"), ("IS-ERROR", "isError"), ("isError_", "isError"), ("toAccount", "to_account"),
        ("to-account", "to_account"), ("ib\u00e1n", "iban"), ("iba\u0301n", "iban"), ("ib\u0430n", "iban"),
        ("\u0456ban", "iban"), ("\u0406BAN", "iban"), ("\u03bfwner", "owner"), ("_Meta", "_meta"),
    ],
)  # fmt: skip
def test_a_name_in_another_style_or_of_lookalikes_is_taken_for_the_known_one(
    name: str, known: str
) -> None:
    assert Known.of([known]).confused([name]) == name


@pytest.mark.parametrize("names", [("user_id", "userId"), ("_id", "id"), ("p_95", "p95")])
def test_names_that_are_both_known_are_two(names: tuple[str, str]) -> None:
    assert Known.of(names).confused(names) is None
    assert twin(names) is None


@pytest.mark.parametrize("shape", ["result", "params", "block", "contents", "tool"])
def test_nobody_says_meta_where_some_readers_call_something_else_that(shape: str) -> None:
    assert confusing({"meta": {}}, shape) == "meta"


def test_of_two_names_that_are_alike_the_second_is_a_twin() -> None:
    assert twin(["a", "b", "A"]) == "A"
    assert twin(["a", "b", "a_"]) is None
    assert Known.of(["a", "A"]).confused(["a", "A"]) == "A"


def test_a_name_of_many_marks_is_looked_at_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = _normalised(monkeypatch)
    # Each of these is three, so of as many as are taken apart there are more than one piece.
    assert Known.of(["result"]).confused(["\u0390" * LONGEST]) is None
    assert len(pieces) >= 5
    assert max(pieces) <= 128


@pytest.mark.parametrize("name", ["\ufdfa" * 50_000, "\u0301\u0316" * 50_000, "\u200b" * 50_000, "\ufdfa\u200b" * 50_000])  # fmt: skip
def test_a_long_name_is_not_taken_apart(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    pieces = _normalised(monkeypatch)
    assert Known.of(["result"]).confused([name]) == name
    assert pieces == []
    assert twin([name, name + "a"]) is None
    assert not is_ours(name)
    assert sum(pieces) <= 3 * 20 * LONGEST


@pytest.mark.parametrize(
    "name", ["re\u200b{}sult", "r\u0301{}esult", "result_{}\u200b", "\u00a8{}result"]
)
def test_a_name_that_is_stuffed_is_taken_for_the_known_one(name: str) -> None:
    stuffed = name.format(re.sub("[a-z]", "", name.replace("{}", "")) * 10 * LONGEST)
    assert Known.of(["result"]).confused([stuffed]) == stuffed
    assert Known.of(()).confused([stuffed]) is None


def test_of_many_names_beside_known_ones_not_all_are_taken_apart() -> None:
    names = [chr(0x4E00 + at) * LONGEST for at in range(65)]
    assert Known.of(["result"]).confused(names[:64]) is None
    assert Known.of(["result"]).confused(names) == names[64]
    assert Known.of(()).confused(names) is None


def test_of_many_names_in_one_message_not_all_are_taken_apart() -> None:
    blocks = [{chr(0x4E00 + at) * LONGEST: 1} for at in range(65)]
    assert confusing({"content": blocks[:64]}, "result") is None
    assert confusing({"content": blocks}, "result") is not None


def test_long_names_are_another_ones() -> None:
    long = ["\u7d50" * LONGEST, "a " * 10 * LONGEST, "https://example.org/" + "a" * LONGEST]
    assert Known.of(["result"]).confused(["result", *long]) is None
    assert twin(["\u7d50" * 2 * LONGEST, "\u7d50" * 2 * LONGEST + "a"]) is None
    assert twin(["\u7d50" * 2 * LONGEST + "a", "\u7d50" * 2 * LONGEST + "A"]) is not None
    assert Known.of(["result"]).confused(["re" + " " * 10 * LONGEST + "sult"]) is not None


@pytest.mark.parametrize("stuffing", ["\u200b", "\ufe0f", "\u2003"])
def test_a_long_name_that_reads_as_our_prefix_is_ours(stuffing: str) -> None:
    assert is_ours("dou" + stuffing * 10 * LONGEST + "\uff41ne/" + "\ufdfa" * 10 * LONGEST)
    assert alike("_me" + stuffing * 10 * LONGEST + "t\uff41") == "_meta"


def _normalised(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    pieces: list[int] = []
    normalize = unicodedata.normalize

    def counted(form: Literal["NFKC", "NFKD"], text: str) -> str:
        pieces.append(len(text))
        return normalize(form, text)

    monkeypatch.setattr(unicodedata, "normalize", counted)
    return pieces


def test_no_word_of_the_protocol_is_alike_to_another() -> None:
    times = Counter(alike(word) for word in WORDS)
    assert [word for word in sorted(WORDS) if times[alike(word)] > 1] == []


def test_the_protocol_itself_confuses_nobody() -> None:
    assert confusing({word: {} for word in WORDS}, "message") is None


@pytest.mark.parametrize("name", ["douane/refusal", "Douane/x", "\uff44ouane/run", " douane/run", "douane\u200b/x"])  # fmt: skip
def test_whatever_reads_as_our_prefix_is_ours(name: str) -> None:
    assert is_ours(name)


@pytest.mark.parametrize("name", ["douane", "douanes/x", "x.douane/run", "example/douane/run"])
def test_other_prefixes_are_not_ours(name: str) -> None:
    assert not is_ours(name)


def test_no_word_has_a_second_name_in_another_style() -> None:
    known = Known.of(WORDS)
    others = {_styled(word) for word in WORDS} - WORDS
    assert len(others) > 10
    assert [name for name in others if not known.confused([name])] == []


def _styled(word: str) -> str:
    before, slash, last = word.rpartition("/")
    return before + slash + re.sub("([A-Z])", lambda upper: "_" + upper[0].lower(), last)


def test_what_a_name_is_taken_apart_into_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = _normalised(monkeypatch)
    alike("\ufdfa" * (LONGEST - 1) + "\u7d50")  # each of eighteen
    assert sum(pieces) <= 3 * LONGEST


SIGNS = st.sampled_from(
    [
        *"_meta_METAdouane/-x",
        *"\uff3f\uff4d\u200b\ufe0f \u0301\u0130i\u212a\u1d5c\ufdfa\u3379\u33a7\u2105",
    ]
)


@given(st.lists(SIGNS, max_size=12).map("".join) | st.text(max_size=12))
def test_a_name_that_reads_as_a_word_is_one_that_is_alike_to_it(name: str) -> None:
    for text in (name, "_meta" + name, "douane/" + name, name + "\uff3fmet\u1d43"):
        assert reads_as(text, "_meta") == (alike(text) == "_meta")
        assert begins(text, "douane/") == alike(text).startswith("douane/")


def test_a_name_is_read_no_further_than_a_word_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    folded = alike_module._folded

    def counted(name: str) -> str:
        read.append(name)
        return folded(name)

    monkeypatch.setattr(alike_module, "_folded", counted)
    assert not begins("\u7d50" * 1_000_000, "douane/")
    assert not reads_as("_m" + "\u7d50" * 1_000_000, "_meta")
    assert begins("douane/" + "\u7d50" * 1_000_000, "douane/")
    assert len(read) <= 1 + 3 + 8


def test_of_names_that_are_somebodys_own_only_so_many_are_compared() -> None:
    names = [chr(0x4E00 + at) * LONGEST for at in range(ROOMY // LONGEST + 1)]
    assert twin(names[:-1], Room()) is None
    assert twin(names, Room()) == names[-1]
    room = Room()
    known = Known.of(["result"])
    assert [known.confused([name], room) for name in (*names, names[0])][:-2] == [None] * (
        len(names) - 1
    )
    assert known.confused([names[-1]], room) == names[-1]
    again = Room()
    assert all(again.has(name) for name in names[:1] * 10 * len(names))  # each counts once
    assert (
        confusing({"tools": [], "requestedSchema": {"properties": dict.fromkeys(names)}}, "params")
        is not None
    )
