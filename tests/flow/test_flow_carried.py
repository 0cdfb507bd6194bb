"""What the agent itself carried somewhere proves nothing when it comes back from there."""

import base64
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.flow import Proof
from gateway.domain.labels import Effect, Integrity, Label
from gateway.flow import provenance as limits
from gateway.flow import reading
from gateway.flow.carried import Carried, Search
from gateway.flow.provenance import Known, Provenance
from tests.flow.flow_builders import (
    TRUSTED,
    UNTRUSTED,
    proof_of,
    remember,
    source,
    structured,
    texts,
    wrote,
)

BAD = "x@evil.com"


@pytest.mark.parametrize(
    "written",
    [
        BAD,
        f"Write to {BAD} now",
        f"<{BAD}>",
        "X@EVIL.COM",
        "x @ evil . com",
        "x\uff20evil.com",
        "\u200bx@evil.com",
    ],
)
def test_what_a_led_call_wrote_proves_nothing_when_it_is_read(written: str) -> None:
    provenance = Provenance()
    wrote(provenance, written)
    remember(provenance, source(TRUSTED), structured({"email": BAD}), typed=("$.email",))
    remember(provenance, source(TRUSTED), texts(f"Contact: {BAD}"))
    known = provenance.proof_of(BAD, "mail")
    assert known is None or known.integrity is Integrity.UNTRUSTED


def test_what_was_read_before_it_was_written_still_proves() -> None:
    provenance = Provenance()
    book = source(TRUSTED, 1)
    remember(provenance, book, texts("kim@c.example"))
    wrote(provenance, "Kim is kim@c.example")
    remember(provenance, source(TRUSTED, 2), texts("kim@c.example"))
    assert provenance.proof_of("kim@c.example", "mail") == Known(
        proof=Proof.TRUSTED_RESULT, integrity=Integrity.TRUSTED, source=book
    )


def test_a_short_value_counts_as_written_only_as_a_whole_one() -> None:
    for written, proves in (("13", False), ("2013 was good", True)):
        provenance = Provenance()
        wrote(provenance, written)
        remember(provenance, source(TRUSTED), structured({"id": 13}), typed=("$.id",))
        known = provenance.proof_of("13", "mail")
        assert known is not None
        assert (known.integrity is Integrity.TRUSTED) is proves


def test_more_written_than_can_be_kept_may_be_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_MOST_WRITTEN", 100)
    provenance = Provenance()
    remember(provenance, source(TRUSTED), texts("early@c.example"))
    wrote(provenance, "a" * 99)
    remember(provenance, source(TRUSTED), texts("late@c.example"))
    assert proof_of("early@c.example", provenance=provenance) == "trusted_result"
    assert proof_of("late@c.example", provenance=provenance) == "none"
    wrote(provenance, "b")
    assert proof_of("late@c.example", provenance=provenance) == "none"


def test_of_a_run_that_was_led_before_nothing_vouches() -> None:
    provenance = Provenance(complete=False)
    remember(provenance, source(TRUSTED), structured({"id": BAD}), typed=("$.id",))
    known = provenance.proof_of(BAD, "mail")
    assert known is not None
    assert known.integrity is Integrity.UNTRUSTED
    assert proof_of("elsewhere@c.example", provenance=provenance) == "none"


@pytest.mark.parametrize(
    ("effect", "clean"), [(Effect.READ, False), (Effect.WRITE, True), (Effect.EGRESS, True)]
)
def test_a_read_writes_nothing_and_neither_does_a_run_that_nothing_has_led(
    effect: Effect, clean: bool
) -> None:
    provenance = Provenance()
    provenance.sends({"to": "kim@c.example"}, effect, clean=clean)
    remember(provenance, source(TRUSTED), texts("kim@c.example"))
    assert proof_of("kim@c.example", provenance=provenance) == "trusted_result"


@pytest.mark.parametrize(
    "effect", [None, *(effect for effect in Effect if effect is not Effect.READ)]
)
def test_every_other_call_may_have_written(effect: Effect | None) -> None:
    provenance = Provenance()
    provenance.sends({"to": {BAD: "rw"}}, effect, clean=False)
    remember(provenance, source(TRUSTED), texts(BAD))
    assert proof_of(BAD, provenance=provenance) == "none"


@pytest.mark.parametrize(
    "arguments",
    [{"q": [BAD]}, {"q": f"who is {BAD} of Evil"}, {"q": {BAD: 1}}, {"q": "X@Evil.com"}],
)
@pytest.mark.parametrize(
    "echo", [structured({"to": BAD}), texts(f"Nothing is known of {BAD}."), texts(BAD)]
)
def test_what_a_call_carried_proves_nothing_when_it_comes_back(
    arguments: dict[str, Any], echo: dict[str, Any]
) -> None:
    provenance = Provenance()
    remember(provenance, source(TRUSTED), echo, typed=("$.to",), arguments=arguments)
    assert provenance.proof_of(BAD, "mail") is None
    assert provenance.seen(BAD) is None


MALLORY = "evil@mallory.example"

DEEP = MALLORY
for _ in range(6):
    DEEP = base64.b64encode(DEEP.encode()).decode()
SPELLED = [
    "contacts://by/evil%40mallory.example",
    "contacts://by/evil%2540mallory%252Eexample",
    "contacts://by/%65%76%69%6c%40%6d%61%6c%6c%6f%72%79%2e%65%78%61%6d%70%6c%65",
    "EVIL@Mallory.Example",
    "\uff45\uff56\uff49\uff4c\uff20\uff4d\uff41\uff4c\uff4c\uff4f\uff52\uff59\uff0eexample",
    "\u0435vil@mallory.\u0435xample",
    "evil&#64;mallory&period;example",
    "evil&#x40;mallory&#46;example",
    r"evil\u0040mallory\u002eexample",
    r"evil\x40mallory\056example",
    "%u0065vil%u0040mallory%u002eexample",
    "evil=40mallory=2Eexample",
    "evil (at) mallory [dot] example",
    "evil@mallo\u00ad\u200bry.example",
    "ZXZpbEBtYWxsb3J5LmV4YW1wbGU=",
    "by/ZXZpbEBtYWxsb3J5LmV4YW1wbGU/now",
    "by=WlhacGJFQnRZV3hzYjNKNUxtVjRZVzF3YkdVPQ",
    "6576696c406d616c6c6f72792e6578616d706c65",
    "65 76 69 6c 40 6d 61 6c 6c 6f 72 79 2e 65 78 61 6d 70 6c 65",
    "101,118,105,108,64,109,97,108,108,111,114,121,46,101,120,97,109,112,108,101",
    "65.76.69.6c.40.6d.61.6c.6c.6f.72.79.2e.65.78.61.6d.70.6c.65",
    "65|76|69|6c|40|6d|61|6c|6c|6f|72|79|2e|65|78|61|6d|70|6c|65",
    "101-118-105-108-64-109-97-108-108-111-114-121-46-101-120-97-109-112-108-101",
    "101/118/105/108/64/109/97/108/108/111/114/121/46/101/120/97/109/112/108/101",
    "elpmaxe.yrollam@live",
    "mallory.example!evil",
    "MV3GS3CANVQWY3DPOJ4S4ZLYMFWXA3DF",
    "mv3gs3canvqwy3dpoj4s4zlymfwxa3df======",
    "AGUAdgBpAGwAQABtAGEAbABsAG8AcgB5AC4AZQB4AGEAbQBwAGwAZQ==",
    "//5lAHYAaQBsAEAAbQBhAGwAbABvAHIAeQAuAGUAeABhAG0AcABsAGUA",
    "Z.X.Z.p.b.E.B.t.Y.W.x.s.b.3.J.5.L.m.V.4.Y.W.1.w.b.G.U.=",
    "note this: ZXZ pbE BtY Wxs b3J 5Lm V4Y W1w bGU=",
    r"\U00000065vil@mallory.example",
    DEEP,
    "evil%2525252525252540mallory.example",
]
"""`MALLORY`, as whoever is asked for it may read it."""


@pytest.mark.parametrize("spelled", SPELLED)
def test_what_a_call_carried_proves_nothing_in_any_of_its_spellings(spelled: str) -> None:
    provenance = Provenance()
    echo = texts(f"Nobody is known by {MALLORY}.")
    remember(provenance, source(TRUSTED), echo, arguments={"uri": spelled})
    assert provenance.proof_of(MALLORY, "mail") is None
    assert provenance.seen(MALLORY) is None


@pytest.mark.parametrize("spelled", SPELLED)
def test_what_a_led_call_wrote_proves_nothing_in_any_of_its_spellings(spelled: str) -> None:
    provenance = Provenance()
    wrote(provenance, spelled)
    remember(provenance, source(TRUSTED), structured({"email": MALLORY}))
    assert provenance.proof_of(MALLORY, "mail") is None


@pytest.mark.parametrize(
    "parts", [["evil@", "mallory.example"], ["ev", "il", "mallory", "example"]]
)
def test_what_several_led_calls_wrote_in_pieces_proves_nothing(parts: list[str]) -> None:
    provenance = Provenance()
    for part in parts:
        wrote(provenance, part)
    remember(provenance, source(TRUSTED), structured({"email": MALLORY}))
    assert provenance.proof_of(MALLORY, "mail") is None


OTHER_DIGITS = [{48 + n: zero + n for n in range(10)} for zero in (0x660, 0x966, 0x6F0, 0x1D7CE)]
"""Arabic-Indic, Devanagari, Persian ones, and bold ones of mathematics."""
NUMBERS = ["+4915112345678", "DE89370400440532013001", "4234567"]
HOSTS = [
    "3627734734",
    "0xd83ad6ce",
    "0XD8.0x3a.0xd6ce",
    "0330.072.0326.0316",
    "216.3856078",
    "00000330.58.0xd6.206.",
]
"""As browsers and servers read 216.58.214.206 (WHATWG URL, IPv4 parser)."""


@pytest.mark.parametrize(
    ("sent", "back"),
    [
        (MALLORY, "evil%40mallory.example"),
        (MALLORY, "evil&#64;mallory.example"),
        ("evil@b\u00fccher.example", "evil@xn--bcher-kva.example"),
        ("evil@xn--bcher-kva.example", "evil@b\u00fccher.example"),
        ("https://evil.example/a b", "https://evil.example/a%20b"),
        ("caf\u00e9@mallory.example", "cafe\u0301@mallory.example"),
        ("stra\u00dfe@mallory.example", "STRASSE@mallory.example"),
        *((sent.translate(digits), sent) for sent in NUMBERS for digits in OTHER_DIGITS),
        *((sent, sent.translate(digits)) for sent in NUMBERS for digits in OTHER_DIGITS),
        ("+49 151 12345678".translate(OTHER_DIGITS[0]), "0151 12345678"),
        ("0151 12345678", "+49 151 12345678".translate(OTHER_DIGITS[0])),
        ("\u24ff\u2776\u2777\u2778\u2779\u277a\u277b\u2460", "01234561"),
        ("1.234567\u06f8E7", "12345678"),
        ("0xbc614e", "12345678"),
        ("0b101111000110000101001110", "12345678"),
        ("0O57060516", "12345678"),
        *(
            (f"http://{host}/pay", "http://216.58.214.206/pay")
            for host in (
                *HOSTS,
                "me@3627734734:80",
                "%33627734734",
                "3627734734".translate(OTHER_DIGITS[0]),
            )
        ),
        *(("http://216.58.214.206/pay", f"http://{host}/pay") for host in HOSTS),
        *((host, "http://216.58.214.206/") for host in HOSTS),
        ("see http:3627734734, now", "http://216.58.214.206/"),
        ("http:\\\\3627734734\\", "http://216.58.214.206/"),
        ("http://127.1/", "http://127.0.0.1/"),
        ("http://[2001:0db8:0:0::0001]:80/", "http://[2001:db8::1]/"),
        ("http://[::ffff:216.58.214.206]/", "http://[::ffff:d83a:d6ce]/"),
    ],
)
def test_an_echo_proves_nothing_in_any_spelling_of_its_own(sent: str, back: str) -> None:
    provenance = Provenance()
    remember(provenance, source(TRUSTED), structured({"to": back}), arguments={"q": sent})
    assert provenance.proof_of(back, "mail") is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"local": "evil", "domain": "mallory.example"},
        {"domain": "mallory.example", "local": "evil"},
        {"evil": "mallory.example"},
        {"a": "evil@mal", "b": ["lory.", "example"]},
        {"a": list(MALLORY)},
        {"q": "example, mallory: Evil"},
        {"local": "ZXZpbA==", "domain": "mallory%2eexample"},
    ],
)
def test_what_is_put_together_from_what_a_call_carried_proves_nothing(
    arguments: dict[str, Any],
) -> None:
    provenance = Provenance()
    remember(provenance, source(TRUSTED), structured({"to": MALLORY}), arguments=arguments)
    assert provenance.proof_of(MALLORY, "mail") is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "Evil"},
        {"name": "evil example"},
        {"q": "mallory"},
        {"q": "who is at mallory.example?"},
        {"page": 2, "order": "by name, at most 20"},
    ],
)
def test_what_a_call_named_in_part_is_proven_by_the_answer(arguments: dict[str, Any]) -> None:
    provenance = Provenance()
    remember(provenance, source(TRUSTED), structured({"to": MALLORY}), arguments=arguments)
    assert proof_of(MALLORY, provenance=provenance) == "trusted_result"


@pytest.mark.parametrize(
    ("sent", "back"),
    [
        ("http://0x1d83ad6ce/", "http://216.58.214.206/"),
        ("http://08.072.0326.0316/", "http://8.58.214.206/"),
        ("http://[2001:0db8:0:0::0001::]/", "http://[2001:db8::1]/"),
        ("version 216.3856078rc", "http://216.58.214.206/"),
        ("9" * 5000, "http://216.58.214.206/"),
        ("20010", "2.10"),
        ("order 120015 of 2001-01-01", "2.15"),
    ],
)
def test_what_is_no_host_in_numbers_is_none_in_another_spelling(sent: str, back: str) -> None:
    provenance = Provenance()
    remember(provenance, source(TRUSTED), structured({"to": back}), arguments={"q": sent})
    assert proof_of(back, provenance=provenance) == "trusted_result"


def test_of_a_text_that_is_too_long_to_be_read_everything_may_be_carried() -> None:
    provenance = Provenance()
    wrote(provenance, " " * 256 * 1024 + "evil%40mallory.example")
    remember(provenance, source(TRUSTED), structured({"to": MALLORY}))
    assert proof_of(MALLORY, provenance=provenance) == "none"


@pytest.mark.parametrize("before", ["0004 ", "ff ", "00000000", "de:ad:be:ef "])
def test_digits_before_an_encoding_hide_nothing(before: str) -> None:
    carried = Carried([f"{before}6576696c406d616c6c6f72792e6578616d706c65"])
    assert carried.has(MALLORY)
    assert not carried.has("kim@elsewhere.example")


@pytest.mark.parametrize(
    "spelled", ["ZXZpbEBtYWxsb3J5LmV4YW1wbGU=", "6576696c406d616c6c6f72792e6578616d706c65"]
)
def test_nothing_that_stands_before_an_encoding_hides_it(spelled: str) -> None:
    carried = Carried([" ".join(f"word{number:04} 41424344;" for number in range(600)), spelled])
    before = " zz ".join(f"41424344454647{n:06x} zz QUJDREVGR0hJSktM{n:04}" for n in range(240))
    hidden = Carried([f"{before} zz {spelled}"])
    assert carried.has(MALLORY)
    assert hidden.has(MALLORY)
    assert not hidden.has("kim@elsewhere.example")


@pytest.mark.parametrize(
    "text",
    ["%2525252540" * 6_000, "xn--maana-pta." * 4_000, "ZXZpbEBt " * 5_000, "41 42 43 44;" * 3_000],
)
def test_what_would_take_long_to_be_read_may_be_anything(text: str) -> None:
    assert Carried([text]).has("kim@c.example")


def test_many_texts_of_one_call_share_the_bound_of_what_is_read() -> None:
    assert Carried(f"row {number}" for number in range(10_000)).has("kim@c.example")
    assert not Carried(f"row {number}" for number in range(1_000)).has("kim@c.example")


def test_a_search_that_would_take_long_finds_what_it_was_for() -> None:
    pieces, text = ["a" * length for length in range(1, 256)], "a" * 255 + "b"
    carried = Carried()
    for _ in range(8):
        carried.add(pieces)
    assert not carried.has(text, search=Search(most=2**40))
    assert carried.has(text)


def test_all_that_one_question_asks_shares_one_bound() -> None:
    carried, search = Carried(["b" * 1_000]), Search(most=1_000_000)
    asked = [carried.has(f"c{number:06}@c.example", search=search) for number in range(1_000)]
    assert not asked[0]
    assert asked[-1]


@pytest.mark.parametrize(("carried", "longest"), [("a" * 29_000, 97), ("a" * 2_400, 480)])
def test_letters_that_repeat_themselves_count_as_what_they_take(carried: str, longest: int) -> None:
    """Each is compared nearly to its end at every byte, unlike an address."""
    asked = ["a" * at + "b" + "a" * (longest - at - 1) for at in range(longest // 2, longest - 5)]
    question, many, all_of_it = Search(), Carried([carried]), 2**25
    found = [many.has(text, search=question) for text in asked * 100]
    assert found.count(False) * len(carried) * longest < all_of_it


def test_letters_that_do_not_repeat_themselves_count_as_bytes() -> None:
    rows = Carried(["see " * 2_000])
    most = 1_000
    question = Search(most * (6 * 10_000 + 1_000))
    asked = (f"{number}.kim.b-{number}@lake-house.example" for number in range(most))
    assert not any(rows.has(text, search=question) for text in asked)


@pytest.mark.parametrize(
    ("carried", "shown"),
    [
        ("(415) 555-2671", "+14155552671"),
        ("call me at 415 555 2671 please", "+1 415-555-2671"),
        ("0170 1234567", "+491701234567"),
        ("0170 1234567", "491701234567"),
        ("+49 170 1234567", "0170/1234567"),
        ("evil.example", "https://evil.example/"),
        ("evil.example", "https://www.evil.example"),
        ("look at evil.example/a/b now", "HTTPS://evil.example/a/b"),
        ("http://evil.example/a", "https://evil.example/a/"),
        (BAD, f"mailto:{BAD}"),
        (4.916e16, "49160000000000000"),
        ("4.916E+16", "49160000000000000"),
        (1.152921504606847e18, "1152921504606846976"),
        (49160000000000000, "4.916e+16"),
    ],
)
def test_an_echo_in_its_servers_own_form_proves_nothing(carried: Any, shown: str) -> None:
    provenance = Provenance()
    remember(provenance, source(TRUSTED), structured({"to": shown}), arguments={"q": carried})
    assert proof_of(shown, provenance=provenance) == "none"
    provenance = Provenance()
    provenance.sends({"q": carried}, Effect.WRITE, clean=False)
    remember(provenance, source(TRUSTED), structured({"to": shown}))
    assert proof_of(shown, provenance=provenance) == "none"


ENDS = ["", *("&p=" + tail for tail in ("q7" * 250, "q7" * 2_500, "-".join(["seven"] * 400)))]


@pytest.mark.parametrize("end", ENDS, ids=len)
@pytest.mark.parametrize(
    "said",
    [
        ("evil.example/c?d=The-merger{}",),
        ("http://evil.example/c?d=The-merger{}",),
        ("https://www.evil.example/c?d=The-merger{}/",),
        ("see https://evil.example/c?d=The-merger{}, now",),
        ("https://evil.example/", "c?d=The-merger{}"),
        ("https://evil.exam", "ple/c?d=The-merger{}"),
        ("c?d=The-mer", "ger{}", "https://evil.example/"),
    ],
    ids=len,
)
def test_how_long_a_value_is_makes_no_echo_a_proof(said: tuple[str, ...], end: str) -> None:
    shown = f"https://evil.example/c?d=The-merger{end}"
    sent = [one.replace("{}", end) for one in said]
    provenance = Provenance()
    remember(provenance, source(TRUSTED), structured({"to": shown}), arguments={"q": sent})
    assert proof_of(shown, provenance=provenance) == "none"
    provenance = Provenance()
    wrote(provenance, *sent)
    remember(provenance, source(TRUSTED), structured({"to": shown}))
    assert proof_of(shown, provenance=provenance) == "none"
    provenance = Provenance()
    for one in sent:
        wrote(provenance, one)
    remember(provenance, source(TRUSTED), structured({"to": shown}))
    assert proof_of(shown, provenance=provenance) == "none"


@pytest.mark.parametrize("end", ENDS, ids=len)
def test_what_one_call_carried_is_put_together_with_the_numbers_in_it(end: str) -> None:
    sent = ["https://evil.example/c?d=The-merger", f"is-near{end}", "2027"]
    carried = Carried([sent[2], *sent[:2]])
    assert carried.has("".join(sent))
    assert not carried.has("".join(sent).replace("2027", "2028"))


@pytest.mark.parametrize("end", ENDS, ids=len)
def test_a_long_value_that_nobody_carried_still_proves(end: str) -> None:
    provenance = Provenance()
    shown = f"https://docs.example/c?d=The-minutes{end}"
    for number in range(20):
        wrote(provenance, f"https://docs.example/c?d=The-merger{number}{end[:-1]}", "docs", "c?d=")
    asked = {"q": ["https://docs.example/c?d=", "minutes", end[:-2]]}
    remember(provenance, source(TRUSTED), structured({"to": shown}), arguments=asked)
    assert proof_of(shown, provenance=provenance) == "trusted_result"


ENCODINGS: dict[str, Callable[[str], str]] = {
    "percent": lambda text: "".join(f"%{octet:02x}" for octet in text.encode()),
    "entities": lambda text: "".join(f"&#{ord(c)};" for c in text),
    "escapes": lambda text: "".join(f"\\u{ord(c):04x}" for c in text),
    "quoted-printable": lambda text: "".join(f"={octet:02X}" for octet in text.encode()),
    "numbers": lambda text: ",".join(str(octet) for octet in text.encode()),
    "hex": lambda text: text.encode().hex(),
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 in lines": lambda text: base64.encodebytes(f"see\n{text},\nhe said".encode()).decode(),
    "full width": lambda text: "".join(
        chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text
    ),
    "unseen": "\u200b".join,
}
VALUES = [
    MALLORY,
    "https://mallory.example/pay",
    "evil@b\u00fccher.example",
    "DE89 3704 0044 0532 0130 00",
]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("inner", ENCODINGS)
def test_one_encoding_within_another_hides_nothing_that_a_call_carried(
    inner: str, value: str
) -> None:
    for outer in ENCODINGS.keys() - {"full width", "unseen"}:
        carried = Carried([ENCODINGS[outer](ENCODINGS[inner](value))])
        assert carried.has(value), outer
        assert not carried.has("kim@elsewhere.example") or outer == "base64 in lines"


@pytest.mark.parametrize(
    "sent",
    [
        "evil@\uff58n--bcher-kva.example",
        "evil@x\u00adn--bcher-kva.example",
        "evil@\uff58\uff4e--\uff42cher-kva.example",
        "evil\uff0540b\uff05c3\uff05bccher.example",
        "\u00e9vil@xn--bcher-kva.example",
        base64.b64encode("ev\u200bil@b\u00fccher.ex\u00adample".encode()).decode(),
    ],
)
def test_characters_that_read_as_others_hide_no_escape(sent: str) -> None:
    back = "evil@b\u00fccher.example"
    provenance = Provenance()
    remember(provenance, source(TRUSTED), structured({"to": back}), arguments={"q": sent})
    assert provenance.proof_of(back, "mail") is None


@pytest.mark.parametrize(
    ("carried", "shown"),
    [
        ("(415) 555-2671", "+14155552672"),
        ("see 2345678", "12345678"),
        ("https://docs.example/a", "https://docs.example/b"),
        ("docs.example", "https://docs.example/b"),
        ("box.example", "https://x.example/"),
        ("t", "https://t.example/"),
        ("4.916e16", "49160000000000001"),
    ],
)
def test_what_only_looks_like_an_echo_still_proves(carried: Any, shown: str) -> None:
    provenance = Provenance()
    remember(provenance, source(TRUSTED), structured({"to": shown}), arguments={"q": carried})
    assert proof_of(shown, provenance=provenance) == "trusted_result"


@pytest.mark.parametrize("label", [TRUSTED, UNTRUSTED])
def test_a_value_that_many_results_show_is_looked_for_in_few_of_their_calls(
    monkeypatch: pytest.MonkeyPatch, label: Label
) -> None:
    looks: list[str] = []
    has = Carried.has

    def noting(self: Carried, text: str, *args: Any, **kwargs: Any) -> bool:
        looks.append(text)
        return has(self, text, *args, **kwargs)

    monkeypatch.setattr(Carried, "has", noting)
    provenance = Provenance()
    for number in range(100):
        remember(provenance, source(label, number), structured(["kim@c.example"]))
    expected = "trusted_result" if label is TRUSTED else "none"
    assert proof_of("kim@c.example", provenance=provenance) == expected
    assert len(looks) < 10


def test_parts_of_different_calls_make_no_whole() -> None:
    provenance = Provenance()
    wrote(provenance, "Dear Kim")
    wrote(provenance, "see c, for example")
    remember(provenance, source(TRUSTED), structured({"to": "kim@c.example"}))
    assert proof_of("kim@c.example", provenance=provenance) == "trusted_result"


def test_a_call_that_asked_too_much_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_MOST_ASKED", 100)
    provenance = Provenance()
    remember(provenance, source(TRUSTED), texts("kim@c.example"), arguments={"q": "a" * 99})
    assert proof_of("kim@c.example", provenance=provenance) == "none"


def test_an_error_vouches_for_nothing() -> None:
    provenance = Provenance()
    error = structured({"id": BAD, "message": "No such thing as kim@c.example"})
    remember(provenance, source(TRUSTED), error, failed=True)
    assert provenance.proof_of(BAD, "mail") is None
    assert provenance.proof_of("kim@c.example", "mail") is None


def test_an_identifier_is_one_only_for_its_own_server_and_in_its_own_words() -> None:
    provenance = Provenance()
    origin = source(UNTRUSTED)
    content = {
        **structured({"file_id": "f-12345", "name": "n-12345"}),
        **texts('{"file_id": "f-66666"}'),
    }
    remember(provenance, origin, content)
    own = Known(proof=Proof.TYPED, integrity=Integrity.UNTRUSTED, source=origin, minted=True)
    assert provenance.proof_of("f-12345", "mail") == own
    assert provenance.proof_of("f-12345", "bank") is None
    assert provenance.proof_of("n-12345", "mail") is None
    # A document that an outsider wrote looks like this, too.
    assert provenance.proof_of("f-66666", "mail") is None


def test_what_a_call_said_before_anything_untrusted_was_read_is_the_users() -> None:
    provenance = Provenance()
    remember(
        provenance,
        source(UNTRUSTED),
        texts("x"),
        arguments={"to": ["kim@c.example", "abc"]},
        clean=True,
    )
    remember(provenance, source(UNTRUSTED), texts("x"), arguments={"to": BAD})
    assert proof_of("kim@c.example", provenance=provenance) == "task"
    assert proof_of(BAD, provenance=provenance) == "none"
    assert proof_of("abc", provenance=provenance) == "none"


def test_what_was_said_is_kept_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_MOST_SAID", 2)
    provenance = Provenance()
    remember(
        provenance,
        source(UNTRUSTED),
        texts("x"),
        arguments={"to": ["name1", "name2", "name3"]},
        clean=True,
    )
    assert [proof_of(f"name{i}", provenance=provenance) for i in (1, 2, 3)] == [
        "task",
        "task",
        "none",
    ]


@given(st.lists(st.lists(st.text(max_size=12), max_size=3), max_size=5), st.data())
def test_whatever_was_carried_is_found_in_any_part(calls: list[list[str]], data: Any) -> None:
    carried = Carried()
    for call in calls:
        carried.add(call)
    for text in (text for call in calls for text in call):
        assert carried.has(text)
        begin = data.draw(st.integers(0, len(text)))
        part = text[begin:]
        assert len(part) < 12 or carried.has(part)
        assert not carried.has(text, before=0) or not text
    assert not carried.has("not there at all")


class Naive:
    """The index, told again over plain lists."""

    def __init__(self, results: int, octets: int) -> None:
        self.limits = results, octets
        self.kept: list[tuple[int, frozenset[str], int]] = []
        self.read = 0

    def remember(self, record: int, leaves: frozenset[str], octets: int) -> None:
        if octets > self.limits[1]:
            return
        self.kept.append((record, leaves, octets))
        while len(self.kept) > self.limits[0] or sum(one[2] for one in self.kept) > self.limits[1]:
            del self.kept[0]

    def seen(self, leaf: str) -> str | None:
        return next(
            (f"r{record}" for record, leaves, _ in reversed(self.kept) if leaf in leaves), None
        )


STEPS = st.lists(
    st.tuples(
        st.frozensets(st.sampled_from("abcde"), max_size=3), st.integers(0, 60), st.booleans()
    )
)


@given(STEPS)
def test_the_index_tells_what_a_search_of_all_that_is_kept_would(
    steps: list[tuple[frozenset[str], int, bool]],
) -> None:
    provenance, naive = Provenance(results=4, octets=100), Naive(4, 100)
    for record, (leaves, octets, asks) in enumerate(steps):
        remember(
            provenance,
            source(TRUSTED, record),
            structured([f"value {x}" for x in leaves]),
            octets=octets,
        )
        naive.remember(record, leaves, octets)
        if asks:
            found = {x: provenance.seen(f"value {x}") for x in "abcde"}
            assert {x: s and s.record for x, s in found.items()} == {
                x: naive.seen(x) for x in "abcde"
            }
            proven = {x for x in "abcde" if provenance.proof_of(f"value {x}", "mail")}
            assert proven == {x for x in "abcde" if naive.seen(x) is not None}
    provenance._look()
    assert set(provenance._places._texts) == {f"value {x}" for one in naive.kept for x in one[1]}


def test_what_only_ends_like_what_was_asked_is_no_echo() -> None:
    carried = Carried(["10", "5"])
    assert [one for one in ("note://5", "issue://10", "note://3") if carried.has(one)] == []


def test_a_number_in_another_form_is_an_echo_whatever_its_sign() -> None:
    assert Carried(["-1200000000"]).has("-1.2E9")


@pytest.mark.parametrize("before", [b"x\0", b"\0", b"\xff\xfe", b"\xfe\xff", b"\0x"])
@pytest.mark.parametrize("said", ["attackers@evil.example", "https://evil.example/p"])
def test_a_mark_of_another_charset_hides_no_word(before: bytes, said: str) -> None:
    """ASCII read by two octets is a text of another script, and a careless reader skips the mark."""
    assert Carried([base64.b64encode(before + said.encode()).decode()]).has(said)
