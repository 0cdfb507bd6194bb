"""What stands in a masked document, and that nothing of what was masked does."""

import base64
import json
from secrets import choice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dlp.detector import Detector
from gateway.dlp.masking import Masker
from gateway.dlp.scanning import scan, told
from gateway.dlp.values import RunValues
from gateway.domain.decisions import Duty, Obligation
from gateway.errors import Denied
from gateway.flow.content import text_of
from tests.dlp.texts import CARD, IBAN, KEY, THERE

DETECTOR = Detector()


def masker(values: RunValues | None = None, **duties: list[str]) -> Masker:
    asked = [Obligation(duty=Duty(name), detail={"classes": of}) for name, of in duties.items()]
    return Masker(DETECTOR, asked, (values or RunValues(choice)).token)


@pytest.mark.parametrize("name", THERE)
def test_whatever_is_found_is_masked_and_the_rest_stays(name: str) -> None:
    of, text = THERE[name]
    masked = masker(mask=[of]).of({"text": f"before {text} after"})["text"]
    assert DETECTOR.look(masked).classes == frozenset()
    if DETECTOR.look(text).spans:
        assert masked.startswith("before ")


def test_a_class_or_its_group_is_named_and_others_stay() -> None:
    text = f"{KEY} {CARD}"
    assert masker(mask=["credential"]).text(text) == f"[api_key] {CARD}"
    assert masker(mask=["card"]).text(text) == f"{KEY} [card]"


def test_numbers_names_and_encoded_content_are_masked() -> None:
    number = int(CARD.replace(" ", ""))
    content = {
        "n": number,
        "f": float(number),
        str(number): 1,
        "blob": base64.b64encode(f"it is {CARD}".encode()).decode(),
        "nested": [{"password": "Mistral-4-Quince"}],
    }
    masked = masker(mask=["card", "password"]).of(content)
    assert masked["n"] == masked["f"] == "[masked]"
    assert base64.b64decode(masked["blob"]) == b"it is [card]"
    assert masked["nested"] == [{"password": "[password]"}]
    assert masked["[card]"] == 1
    assert str(number) not in json.dumps(masked)


PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n\xff" + f"it is {KEY}".encode()).decode()


@pytest.mark.parametrize("kind", ["image", "audio", "file", ["image"], {"image": 1}])
@pytest.mark.parametrize(
    "said",
    [
        KEY,
        f"it is {KEY}",
        {"anything": KEY},
        [KEY],
        base64.b64encode(f"it is {KEY}".encode()).decode(),
        base64.b64encode(f"GIF89a: it is {KEY}".encode()).decode(),
        f"{PICTURE} {KEY}",
    ],
)
def test_what_only_calls_itself_a_picture_is_looked_at(kind: Any, said: Any) -> None:
    content = {"blocks": [{"type": kind, "data": said}]}
    (row,) = told(scan(DETECTOR, content))
    assert (row["class"], row["path"][:16]) == ("api_key", "$.blocks[0].data")
    assert KEY not in json.dumps(masker(mask=["credential"]).of(content))


@pytest.mark.parametrize("kind", ["image", "audio"])
def test_a_picture_is_known_by_how_it_begins_and_not_looked_at(kind: str) -> None:
    paths = [
        [row.path for row in scan(DETECTOR, content)]
        for content in (
            {"type": kind, "data": PICTURE},
            {"type": kind, "data": PICTURE, "of": KEY},
            {"type": "file", "data": PICTURE},
        )
    ]
    assert paths == [[], ["$.of"], ["$.data"]]


@pytest.mark.parametrize(
    "begins",
    [b"\0\0\0\x20ftypM4A ", b"\xff\xf1P\x80", b"\xff\xfa\x90", b"BM\xf6\0\0\0", b"II*\0", b"MM\0*"],
)
@pytest.mark.parametrize("rest", [b"", b"\0", b"\0\0"])
def test_sounds_and_pictures_of_other_formats_are_known_with_and_without_their_end(
    begins: bytes, rest: bytes
) -> None:
    """Read as texts they would raise their run, for they are words that are too long to be read."""
    data = base64.b64encode(begins + b"\xff\0" * 200_000 + rest).decode()
    for said in (data, data.rstrip("=")):
        content = {"content": [{"type": "audio", "data": said}]}
        assert text_of(content) == ("content\ntype: audio", True)
        assert not [*scan(DETECTOR, content)]


def test_what_stands_over_the_edge_of_two_blocks_is_masked_in_both() -> None:
    blocks = [
        {"type": "text", "text": f"it is {CARD[:9]}"},
        {"type": "text", "text": f"{CARD[9:]} ok"},
    ]
    masked = masker(mask=["card"]).of({"content": blocks})["content"]
    assert [block["text"] for block in masked] == ["it is [card]", "[card] ok"]
    assert told(scan(DETECTOR, {"content": blocks})) == [
        {"class": "card", "group": "card", "path": "$.content", "count": 1}
    ]


def test_dropped_is_the_whole_text() -> None:
    assert masker(drop=["card"]).text(f"it is {CARD}") == "[withheld: card]"


def test_a_token_stands_for_the_same_value_and_for_no_other() -> None:
    values = RunValues(choice)
    one = masker(values, tokenize=["iban"])
    first, second, third = one.text(f"{IBAN}, GB29NWBK60161331926819, {IBAN}").split(", ")
    assert first == third != second
    assert values.value(first) == IBAN
    assert values.value(second) == "GB29NWBK60161331926819"
    assert values.value("<IBAN:1>") is None


def test_what_is_to_be_masked_gets_no_token() -> None:
    assert masker(tokenize=["iban"], mask=["iban"]).text(IBAN) == "[iban]"
    assert masker(tokenize=["api_key"], mask=["credential"]).text(KEY) == "[api_key]"


def test_without_room_for_a_token_it_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.dlp.values._MOST_TOKENS", 0)
    assert masker(tokenize=["iban"]).text(IBAN) == "[iban]"


def test_a_class_that_there_is_not_masks_nothing_silently() -> None:
    with pytest.raises(Denied, match="cards"):
        masker(mask=["cards"])


@pytest.mark.parametrize("name", THERE)
def test_what_policy_is_told_says_no_value(name: str) -> None:
    of, text = THERE[name]
    rows = told(scan(DETECTOR, {"a": [text], f"{CARD}": {"b": 1}}))
    assert (of, "$.a[0]") in [(row["class"], row["path"]) for row in rows]
    said = json.dumps(rows)
    assert CARD not in said
    assert KEY not in said


def test_what_repr_shows_says_no_value() -> None:
    (found,) = scan(DETECTOR, {"a": KEY})
    assert KEY not in repr(found)
    assert found.values == (KEY,)


def test_an_arguments_own_name_says_nothing_of_its_value() -> None:
    login: dict[str, Any] = {
        "password": "Mistral-4-Quince",
        "body": {"password": "Mistral-4-Quince"},
    }
    rows = told(scan(DETECTOR, login, ["password", "body"]))
    assert [row["path"] for row in rows] == ["$.body.password"]


OTHER = "AKIAZ3NHPM7QWERTYL4B"


@pytest.mark.parametrize(
    "encoded",
    [base64.b64encode(f"it is {OTHER}".encode()).decode(), f"it is {OTHER}".encode().hex()],
)
def test_what_is_encoded_beside_another_of_its_class_is_found_and_masked(encoded: str) -> None:
    text = f"{KEY} and {encoded}"
    assert masker(mask=["credential"]).text(text) == "[api_key] and [masked]"
    rows = told(scan(DETECTOR, {"a": text}), {KEY: "server"})
    assert [(row["count"], row["given"]) for row in rows] == [(1, ""), (1, "server")]


def test_what_a_form_of_the_whole_text_has_as_well_is_there_once() -> None:
    text = f"{KEY} a%20b%20c%20d%20e"
    assert masker(mask=["credential"]).text(text) == "[api_key] a%20b%20c%20d%20e"
    assert [row["count"] for row in told(scan(DETECTOR, {"a": text}))] == [1]


def test_the_last_of_many_encoded_values_is_looked_at() -> None:
    """As a cluster shows its secrets."""
    values = [f"ordinary words, the number {n}" for n in range(100)]
    encoded = [base64.b64encode(v.encode()).decode() for v in [*values, KEY]]
    text = "\n".join(f"k{n}: {one}" for n, one in enumerate(encoded))
    assert masker(mask=["credential"]).text(text) == text.replace(encoded[-1], "[masked]")


@pytest.mark.parametrize("path", [["error", "data"], ["request", "params", "messages", 0]])
def test_edges_are_looked_at_however_deep_they_stand(path: list[Any]) -> None:
    content: Any = {"content": [{"text": CARD[:9]}, {"text": CARD[9:]}]}
    for step in reversed(path):
        content = [content] if isinstance(step, int) else {step: content}
    assert [row["class"] for row in told(scan(DETECTOR, content))] == ["card"]


def test_many_edges_take_as_long_as_their_texts() -> None:
    """What is worse than linear would not end within the clock of this suite."""
    blocks = [{"text": one} for one in ["x anna@exam", "ple.org "] * 20_000]
    masked = masker(mask=["contact"]).of({"content": blocks})["content"]
    assert {block["text"] for block in masked} == {"x [email]", "[email] "}
    (row,) = told(scan(DETECTOR, {"content": blocks}))
    assert row["count"] == 20_000


IN_CLEAR = "4465275426002687"
"""A card's number, and the base64 of a text of nine letters."""
CLEAR_IN_A_PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n\0").decode() + f"+{KEY}+++"


@pytest.mark.parametrize(
    ("named", "said"), [("card", IN_CLEAR), ("credential", CLEAR_IN_A_PICTURE)], ids=str
)
@pytest.mark.parametrize(
    "holds",
    [
        lambda said: {"contents": [{"uri": "a", "blob": said}]},
        lambda said: {"content": [{"type": "resource", "resource": {"blob": said}}]},
        lambda said: {"content": [{"type": "image", "mimeType": "image/png", "data": said}]},
        lambda said: {"structuredContent": {"mimeType": "text/plain", "data": said}},
    ],
    ids=range(4),
)
@pytest.mark.parametrize("duty", ["mask", "tokenize", "drop"])
def test_what_stands_in_the_clear_is_masked_though_it_decodes_to_something(
    named: str, said: str, holds: Any, duty: str
) -> None:
    masked = json.dumps(masker(None, **{duty: [named]}).of(holds(said)))
    assert base64.b64encode(b"[masked]").decode() in masked
    assert KEY not in masked
    assert IN_CLEAR not in masked


HELD = st.sampled_from([IN_CLEAR, CLEAR_IN_A_PICTURE, PICTURE, *(t for _, t in THERE.values())])
MADE = st.builds(lambda text: base64.b64encode(text.encode()).decode(), HELD)
BLOCKS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["text", "image", "resource"]),
        "mimeType": st.just("text/plain"),
        "data": HELD | MADE,
        "blob": HELD | MADE,
        "text": HELD | MADE,
    },
)
DOCUMENTS = st.recursive(
    BLOCKS | HELD | st.just(4111111111111111),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HELD, inner, max_size=2),
    max_leaves=5,
)
ALL = sorted(set(DETECTOR.groups.values()))


@given(DOCUMENTS)
def test_of_what_is_masked_nothing_is_found_again(content: Any) -> None:
    assert scan(DETECTOR, masker(mask=ALL).of({"content": content})) == ()
