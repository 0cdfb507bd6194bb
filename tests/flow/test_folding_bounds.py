"""What is made of others' texts to compare them is not many times as long, nor remembered without end."""

import pytest

from gateway.flow import folding
from gateway.flow.folding import folded, revealed, words

EVERY = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
PHRASES = "\ufdfa\ufdfb"
"""Of eighteen letters, and of eight."""


@pytest.mark.parametrize("phrase", PHRASES)
def test_no_character_is_read_as_a_phrase(phrase: str) -> None:
    assert len(folded(phrase).decode()) == len(revealed(phrase)) == 6
    assert len(words(phrase).decode()) <= 6


def test_all_others_are_read_as_they_were() -> None:
    assert (
        folded("\u3316\uff41\u210c\ufb03\u216b")
        == "\u30ad\u30ed\u30e1\u30fc\u30c8\u30ebahffixii".encode()
    )
    assert revealed("\ufb03\uff21\ue000\u0378") == "ffiA"
    assert folded("\u0664\u096a\u06f4\U0001d7d2\u2463\u2779") == b"444444"
    assert revealed("\u0664\u096a\u06f4\U0001d7d2\u2779") == "44444"
    assert folded("a\ue000b\U000f0000c\u0378d") == b"abcd"
    assert words("a\ue000b c") == b"ab\0c"


def test_what_nobody_assigned_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "_FOLDS", folding._Folds())
    monkeypatch.setattr(folding, "_WORD_FOLDS", folding._WordFolds())
    monkeypatch.setattr(folding, "_REVEALS", folding._Reveals())
    private = EVERY[-100_000:]
    for read in (folded, words, revealed):
        read(private + "\u7d50")
    for known in (folding._FOLDS, folding._WORD_FOLDS, folding._REVEALS):
        assert list(known) == [0x7D50]
