"""What is found in texts, whatever hides it, and what only looks alike."""

from typing import Any

import phonenumbers
import pytest

from gateway.dlp.detector import Detector
from gateway.dlp.lists import made_list, read_list
from gateway.dlp.scanning import scan
from gateway.flow.decoding import MOST_DECODED
from tests.dlp.texts import CARD, IBAN, KEY, NOT_THERE, PEM, THERE

DETECTOR = Detector()


@pytest.mark.parametrize("name", THERE)
def test_what_is_there_is_found_and_of_its_class(name: str) -> None:
    of, text = THERE[name]
    assert DETECTOR.look(text).classes == {of}
    assert DETECTOR.may_have(text)


@pytest.mark.parametrize("text", NOT_THERE)
def test_what_only_looks_alike_is_not_found(text: str) -> None:
    assert DETECTOR.look(text).classes == frozenset()


def found(text: str, name: str = "") -> list[tuple[str, str]]:
    octets = text.encode()
    return [(s.of, octets[s.start : s.end].decode()) for s in DETECTOR.look(text, name).spans]


def test_each_stands_where_it_is_said_to_stand() -> None:
    text = f"\u00e9 {KEY}, {CARD}; {IBAN} and\n{PEM}\nthe end"
    assert found(text) == [("api_key", KEY), ("card", CARD), ("iban", IBAN), ("private_key", PEM)]


def test_a_name_tells_what_its_value_is_and_is_no_part_of_it() -> None:
    assert found("Mistral-4-Quince", "password") == [("password", "Mistral-4-Quince")]
    assert found("111222333", "bsn") == [("id_nl", "111222333")]
    assert found("Mistral-4-Quince", "colour") == []


def test_a_name_says_the_same_whenever_it_comes() -> None:
    detector = Detector()
    names = [*(text for _, text in THERE.values()), *NOT_THERE, "to", "x" * 1000]
    for _ in range(2):
        assert [detector.look_at_name(name) for name in names] == list(map(detector.look, names))
    for number in range(5000):
        detector.look_at_name(f"name {number}")
    assert len(detector.empty) < 5000


def test_what_overlaps_is_one_and_of_the_class_that_goes_first() -> None:
    text = "https://cafebabe:dead8eef@gems.example.org/"
    assert found(text) == [("url_password", "dead8eef@gems.example.org")]


def test_much_that_is_encoded_hides_nothing_before_it() -> None:
    assert "card" in DETECTOR.look(f"{CARD} " + "A" * MOST_DECODED).classes


def test_an_own_pattern_is_a_class() -> None:
    detector = Detector({"project": r"\bPRJ-[0-9]{6}\b"})
    assert detector.look("see PRJ-123456").classes == {"own:project"}
    assert detector.groups["own:project"] == "own"
    with pytest.raises(ValueError, match=r"dlp\.patterns\.bad"):
        Detector({"bad": "("})


def test_a_pattern_that_is_too_much_is_refused() -> None:
    with pytest.raises(ValueError, match=r"dlp\.patterns\.one is no RE2 expression: .*too large"):
        Detector({"one": r"\pL{999}x"})


KEY_OF_LIST = bytes(range(16))


def test_values_of_a_list_are_found_whole_and_however_they_are_written() -> None:
    text = made_list(
        ["Ada Lovelace", "ACME Nuclear GmbH", "x-77"], documents=False, key=KEY_OF_LIST
    )
    assert "lovelace" not in text.lower()
    detector = Detector({}, [read_list("own:customers", text)])
    for said in ("for ADA  lovelace.", "Acme nuclear gmbh owes", "X-77", "\u00e9 x 77"):
        assert detector.look(said).classes == {"own:customers"}, said
    for said in ("Ada", "Lovelace Ada", "acme gmbh", "x77"):
        assert detector.look(said).classes == frozenset(), said


def test_a_passage_of_a_document_is_found() -> None:
    document = "The plant at Lund will close in March, and nobody is to hear of it before."
    text = made_list([document], documents=True, key=KEY_OF_LIST)
    detector = Detector({}, [read_list("own:plans", text)])
    assert detector.look("they say the plant at Lund will close in march!").classes == {"own:plans"}
    assert detector.look("the plant at Lund will be painted in March").classes == frozenset()


@pytest.mark.parametrize(
    ("lines", "documents", "said"),
    [
        (["one two three"], True, "8 words at least"),
        ([" ".join("word" for _ in range(13))], False, "is it a document"),
    ],
)
def test_what_is_no_list_is_said(lines: list[str], documents: bool, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        made_list(lines, documents=documents, key=KEY_OF_LIST)


@pytest.mark.parametrize(
    "text",
    ["", "douane-list 1", f"douane-list 1 {'0' * 32} 1\nx 00", f"douane-list 1 {'0' * 32} 1\nv 00"],
)
def test_a_file_that_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="this is no"):
        read_list("own:x", text)


def test_telephone_numbers_that_nobody_checks_any_more_are_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.dlp.detector._MOST_PHONES", 2)
    look = Detector().look("+4930123456 +1000000000 +49301234567 +1000000001 +1000000000")
    assert [span.start for span in look.spans] == [0, 24, 37]


def test_the_telephone_numbers_of_a_document_are_looked_up_once_and_so_many_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However often they stand there, and in whatever form: each costs the plans of a dozen countries."""
    looked: list[str] = []
    parse = phonenumbers.parse

    def noting(number: str, region: str | None) -> Any:
        looked.append(number)
        return parse(number, region)

    monkeypatch.setattr(phonenumbers, "parse", noting)
    said = " ".join(f"sms 12345678{at:04d}" for at in range(30))
    forms = "%41" * 4 + "&amp;" * 4 + r"\x41" * 4
    scan(DETECTOR, {"content": [{"text": said + forms}, {"text": said}], "again": said})
    assert len(looked) == 12 * len({*looked}) == 12 * 30
    looked.clear()
    scan(DETECTOR, [f"sms 1234567{at:04d}" for at in range(2_000)])
    assert len({*looked}) == 256
