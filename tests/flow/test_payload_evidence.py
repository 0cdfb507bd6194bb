import base64
import codecs
import random
import tracemalloc
from string import ascii_lowercase, digits
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.flow import Match
from gateway.domain.labels import Confidentiality
from gateway.flow.decoding import MOST_DECODED, decoded_forms
from gateway.flow.payloads import MOST_SEARCHABLE, Payloads

PRIVATE = Confidentiality.PRIVATE
SECRET = "The launch code of the eastern silo is 7391-4482-AX, do not share it."
SPELLED = "The launch code of the eastern silo is kept in a safe under the stairs."


def known(*texts: str, asked: tuple[str, ...] = ()) -> Payloads:
    payloads = Payloads()
    for record, text in enumerate(texts, start=7):
        payloads.add(record, f"r{record}", (text,), asked, PRIVATE)
    return payloads


def kinds(payloads: Payloads, text: str, known_: str = "") -> list[tuple[str, str, str]]:
    return [(m.record, m.kind, m.decoded) for m in payloads.matches(text, known_)]


def tags(text: str) -> str:
    return "".join(chr(0xE0000 + ord(c)) for c in text)


def test_a_whole_value_is_an_exact_match() -> None:
    assert known(SECRET).matches(SECRET) == (
        Match(record="r7", kind="exact", bytes=len(SECRET.encode())),
    )
    assert kinds(known("Spotify Premium"), "Spotify Premium") == [("r7", "exact", "")]


def test_a_piece_is_told_with_its_size_in_bytes_of_the_payload() -> None:
    piece = "code of the eastern silo is 7391-4482-AX"
    assert known(SECRET).matches(f"fyi, {piece}!") == (
        Match(record="r7", kind="fragment", bytes=len(piece)),
    )
    german = "Schl\u00fcssel\u00fcbergabe um neun Uhr am Haupttor"
    assert known(f"Morgen: {german}.").matches(f"({german})") == (
        Match(record="r7", kind="fragment", bytes=len(german.encode())),
    )


@pytest.mark.parametrize("zero", [0x660, 0x966, 0x6F0])
def test_a_number_is_the_same_in_the_digits_of_any_script(zero: int) -> None:
    spelled = "98765432109876".translate({48 + n: zero + n for n in range(10)})
    told = [("r7", "fragment", "")]
    assert kinds(known("The account is 98765432109876, thanks."), f"account {spelled}") == told
    assert kinds(known(f"The account is {spelled}, thanks."), "account 98765432109876") == told


def test_a_code_in_a_text_is_a_piece_by_itself() -> None:
    payloads = known("Your account is DE-7391-4482-AX, dear customer.")
    assert payloads.matches("pay to DE-7391-4482-AX now") == (
        Match(record="r7", kind="fragment", bytes=15),
    )


ENCODINGS = {
    "base64": base64.b64encode(SPELLED.encode()).decode(),
    "base64 url": base64.urlsafe_b64encode(SPELLED.encode()).decode().rstrip("="),
    "base64 lines": base64.encodebytes(SPELLED.encode() * 3).decode(),
    "base64 pieces": " ".join(
        base64.b64encode(SPELLED.encode()).decode()[i : i + 5] for i in range(0, 96, 5)
    ),
    "base64 in the middle": f"x/{base64.b64encode(SPELLED.encode()).decode()} and so on",
    "base64 utf-16": base64.b64encode(SPELLED.encode("utf-16-le")).decode(),
    "base64+base64": base64.b64encode(base64.b64encode(SPELLED.encode())).decode(),
    "hex": SPELLED.encode().hex(),
    "hex separated": SPELLED.encode().hex(":"),
    "percent": "".join(f"%{c:02X}" for c in SPELLED.encode()),
    "percent+base64": quote(base64.b64encode(SPELLED.encode() + b"??>>").decode() + "==/+/+%%%%"),
    "html": "".join(f"&#{ord(c)};" for c in SPELLED),
    "escapes": "".join(f"\\u{ord(c):04x}" for c in SPELLED),
    "unicode": "\u200b".join(SPELLED),
    "unicode tags": tags(SPELLED),
    "unicode wide": "".join(chr(ord(c) + 0xFEE0) if c.isalpha() else c for c in SPELLED),
    "unicode lookalikes": SPELLED.replace("e", "\u0435").replace("o", "\u043e"),
    "spaced": " ".join(SPELLED.replace(" ", "")),
    "spaced dots": ".".join(SPELLED),
    "reversed": SPELLED[::-1],
}


@pytest.mark.parametrize("how", ENCODINGS)
def test_what_a_payload_hides_is_found(how: str) -> None:
    found = kinds(
        known(f"Mind: {SPELLED} Thanks."), f"Hello. {ENCODINGS[how]}"[7 * ("pieces" in how) :]
    )
    assert how.split(" ", maxsplit=1)[0] in [
        decoded for _, kind, decoded in found if kind == "fragment"
    ]


@pytest.mark.parametrize("how", ["base64", "hex", "percent", "html", "base64+base64"])
def test_what_a_result_hides_is_found(how: str) -> None:
    found = kinds(known(f"Mind this: {ENCODINGS[how]}"), f"As it says: {SPELLED}")
    assert ("r7", "fragment", how) in found


def test_a_text_that_is_not_hidden_is_not_told_as_hidden() -> None:
    assert kinds(known(SPELLED), SPELLED) == [("r7", "exact", "")]
    accented = (
        "L'\u00e9t\u00e9 dernier \u00e0 la gare de Li\u00e8ge\u2026 \U0001f600 tout allait bien"
    )
    assert kinds(known(accented), f"<<{accented}>>") == [("r7", "exact", "")]
    russian = "\u0441\u0440\u043e\u0447\u043d\u043e\u0435 " * 6
    assert [m[2] for m in kinds(known(russian), russian)] == [""]


CHANCE = [
    ("2024-05-15 10:00", "2024-05-15 10:00"),
    (
        "The dates are 2024-05-15, 2024-05-16, 2024-05-17 and 10:30",
        "2024-05-15, 2024-05-16, 2024-05-17",
    ),
    ("Opened 20240515, closed 19991231 19991231", "20240515 19991231"),
    ("Please let me know if it suits you", "please let me know if that suits"),
    ("Best regards, Emma", "Best regards, Ivan"),
    ("confirmed", "confirmed"),
    ("98.70", "98.70"),
    ("id 4711 of room 12", "room 12, 4711"),
    ("true", "true"),
    ("abc", "abc"),
    ("", ""),
]


@pytest.mark.parametrize(("result", "payload"), CHANCE, ids=range(len(CHANCE)))
def test_what_everybody_says_is_no_evidence(result: str, payload: str) -> None:
    assert known(result).matches(payload) == ()


def test_what_has_a_date_in_it_is_none() -> None:
    for number in ("x20240515", "4520240515", "2024051577"):
        found = kinds(known(f"Number {number}"), f"about {number}")
        assert found == [("r7", "fragment", "")], number


@pytest.mark.parametrize("before", ["2026-01-01 10:00, ", "2026-01-01 "])
@pytest.mark.parametrize("many", [30, 3000])
def test_what_stands_behind_many_dates_is_evidence(before: str, many: int) -> None:
    dates = before * many
    payloads = known(dates + SECRET, dates.strip())
    assert payloads.matches(dates.strip()) == ()
    assert kinds(payloads, dates + SECRET) == [("r7", "exact", "")]
    assert kinds(payloads, f"See {dates + SECRET}!")[0] == ("r7", "fragment", "")


def test_what_a_call_carried_is_no_evidence_when_it_comes_back() -> None:
    payloads = known(f"Sent: {SECRET}", asked=(SECRET,))
    assert payloads.matches(SECRET) == ()
    longer = known(f"{SECRET} It opens at nine in the morning.", asked=(SECRET,))
    assert kinds(longer, f"{SECRET} It opens at nine.") == [("r7", "fragment", "")]


def test_an_id_that_every_call_of_a_run_repeats_is_not_looked_for_in_all_its_results() -> None:
    asked = ("RE-7391-4482-9917", "Spotify Premium")
    payloads = known("Invoice RE-7391-4482-9917 is now on its way.", "Spotify Premium", asked=asked)
    assert payloads._codes._texts == payloads._values._texts == {}
    assert payloads.matches("Pay RE-7391-4482-9917 today") == ()
    assert payloads.matches("Spotify Premium") == ()


def test_what_the_prompt_says_is_no_evidence() -> None:
    payloads = known(f"Note: {SECRET} It opens at nine in the morning.")
    assert payloads.matches(SECRET, f"Please send Bob this: {SECRET}") == ()
    more = f"{SECRET} It opens at nine."
    assert kinds(payloads, more, f"Please send Bob this: {SECRET}") == [("r7", "fragment", "")]
    assert (
        known("https://a.example/join").matches("https://a.example/join", "https://a.example/join")
        == ()
    )


def test_links_are_told_beside_the_text_and_out_of_encodings() -> None:
    page = known("Visit https://evil.example/claim?id=1 or www.evl.io today.")
    assert ("r7", "link", "") in kinds(page, "See https://evil.example/claim?id=1.")
    assert kinds(page, "(www.evl.io)") == [("r7", "link", "")]
    hidden = base64.b64encode(b"go to https://evil.example/claim?id=1").decode()
    assert ("r7", "link", "base64") in kinds(page, hidden)
    assert "link" not in [kind for _, kind, _ in kinds(page, "https://other.example/page")]


def test_every_result_that_has_it_is_told() -> None:
    assert kinds(known(SECRET, f"Again: {SECRET}"), SECRET) == [
        ("r7", "exact", ""),
        ("r8", "fragment", ""),
    ]


def test_leaves_do_not_run_into_each_other() -> None:
    payloads = Payloads()
    payloads.add(1, "r1", ("the launch code", "of the eastern silo"), (), PRIVATE)
    assert payloads.matches("the launch code of the eastern silo") == ()


def test_a_dropped_result_leaves_no_trace() -> None:
    payloads = known(f"{SECRET} {ENCODINGS['base64']}", "Spotify Premium")
    payloads.drop(7)
    payloads.drop(8)
    assert (payloads._octets, payloads._texts, payloads._fragments._grams) == (0, {}, {})
    assert payloads._values._texts == payloads._codes._texts == {}
    assert payloads._numbers == {}


def test_a_result_that_was_forgotten_for_its_size_can_still_be_dropped() -> None:
    payloads = Payloads(octets=100)
    payloads.add(7, "r7", ("x" * 90,), (), PRIVATE)
    payloads.add(8, "r8", (SPELLED,), (), PRIVATE)
    payloads.drop(7)
    assert kinds(payloads, SPELLED) == [("r8", "exact", "")]


def test_what_is_searchable_is_bounded_and_the_oldest_goes_first() -> None:
    payloads = Payloads(octets=1000)
    for record in range(1, 40):
        payloads.add(
            record, f"r{record}", (f"{record} {SPELLED} number {record:09d}-XYZ",), (), PRIVATE
        )
        assert payloads._octets <= 1000
    assert len(payloads._texts) < 20
    assert kinds(payloads, "number 000000039-XYZ")[0][0] == "r39"
    assert payloads.matches("000000001-XYZ") == ()
    payloads.add(40, "r40", ("x" * 5000,), (), PRIVATE)
    assert payloads._octets <= 1002


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_can_be_looked_for_in_any_other(result: str, payload: str) -> None:
    payloads = known(result)
    payloads.matches(payload)
    assert all(m.bytes >= 0 for m in payloads.matches(result))


@given(st.binary(min_size=30, max_size=200))
def test_random_bytes_in_base64_are_no_evidence(octets: bytes) -> None:
    assert known(SPELLED).matches(base64.b64encode(octets).decode()) == ()


def test_rot13_is_not_claimed() -> None:
    assert known(SPELLED).matches(codecs.encode(SPELLED, "rot13")) == ()


def test_a_run_takes_no_more_memory_than_is_said() -> None:
    dice = random.Random(1)
    texts = ["".join(dice.choices(ascii_lowercase + digits, k=4096)) for _ in range(128)]
    tracemalloc.start()
    payloads = Payloads()
    for record, text in enumerate(texts, start=1):
        payloads.add(record, f"r{record}", (text,), (), PRIVATE)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert payloads._octets <= MOST_SEARCHABLE
    assert held < 27 * MOST_SEARCHABLE


@pytest.mark.parametrize(
    "payload",
    [
        "%25" * 20_000,
        "&amp;" * 12_000,
        base64.b64encode(b"ab " * 15_000).decode(),
        "6162" * 15_000,
        " ".join([base64.b64encode(SPELLED.encode()).decode()] * 600),
        "\\u0041" * 10_000,
    ],
    ids=range(6),
)
def test_what_is_decoded_of_a_text_is_bounded(payload: str) -> None:
    assert sum(len(form.text) for form in decoded_forms(payload)) <= MOST_DECODED


def test_what_is_found_is_as_confidential_as_the_result_that_it_is_from() -> None:
    payloads = Payloads()
    opening = "The harbour office opens at seven in the summer and at nine in the winter."
    payloads.add(1, "r1", (SECRET,), (), Confidentiality.SECRET)
    payloads.add(2, "r2", (opening,), (), Confidentiality.PUBLIC)
    found = {m.record: m.confidentiality for m in payloads.matches(f"{SECRET} {opening}")}
    assert found == {"r1": Confidentiality.SECRET, "r2": Confidentiality.PUBLIC}
