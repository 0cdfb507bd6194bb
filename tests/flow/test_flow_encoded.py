"""No encoding proves an address, whether or not anybody has ever heard of it.

None of the encoders here is known to the product: it looks at how much a call carried, and not for what it says.
"""

import base64
import binascii
import codecs
import random
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.labels import Effect, Integrity
from gateway.flow.provenance import Own, Provenance
from tests.flow.flow_builders import TRUSTED, UNTRUSTED, remember, source, structured, texts

MORSE = dict(
    zip(
        "abcdefghijklmnopqrstuvwxyz0123456789@.-_",
        [
            ".-",
            "-...",
            "-.-.",
            "-..",
            ".",
            "..-.",
            "--.",
            "....",
            "..",
            ".---",
            "-.-",
            ".-..",
            "--",
            "-.",
            "---",
            ".--.",
            "--.-",
            ".-.",
            "...",
            "-",
            "..-",
            "...-",
            ".--",
            "-..-",
            "-.--",
            "--..",
            "-----",
            ".----",
            "..---",
            "...--",
            "....-",
            ".....",
            "-....",
            "--...",
            "---..",
            "----.",
            ".--.-.",
            ".-.-.-",
            "-....-",
            "..--.-",
        ],
        strict=True,
    )
)
NATO = [
    "alfa",
    "bravo",
    "charlie",
    "delta",
    "echo",
    "foxtrot",
    "golf",
    "hotel",
    "india",
    "juliett",
    "kilo",
    "lima",
    "mike",
    "november",
    "oscar",
    "papa",
    "quebec",
    "romeo",
    "sierra",
    "tango",
    "uniform",
    "victor",
    "whiskey",
    "xray",
    "yankee",
    "zulu",
]
ELEMENTS = random.Random(7).sample("abcdefghijklmnopqrstuvwxyz", 26)


def rail(text: str) -> str:
    return text[::3] + text[1::3] + text[2::3]


def shifted(text: str) -> str:
    keys = "qwertyuiopasdfghjklzxcvbnm"
    return "".join(keys[(keys.index(c) + 1) % 26] if c in keys else c for c in text)


def substituted(text: str) -> str:
    return "".join(ELEMENTS[ord(c) - 97] if "a" <= c <= "z" else c for c in text)


def spelled(text: str) -> str:
    return " ".join(NATO[ord(c) - 97] if "a" <= c <= "z" else f"sign{ord(c)}" for c in text)


def base(text: str, digits: str) -> str:
    number, found = int.from_bytes(text.encode(), "big"), ""
    while number:
        number, rest = divmod(number, len(digits))
        found += digits[rest]
    return found


BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
PRINTABLE = "".join(map(chr, range(33, 127)))

ENCODERS: Mapping[str, Callable[[str], str]] = {
    "rot13": lambda t: codecs.encode(t, "rot13"),
    "atbash": lambda t: "".join(chr(219 - ord(c)) if "a" <= c <= "z" else c for c in t),
    "substitution": substituted,
    "keyboard": shifted,
    "rail fence": rail,
    "morse": lambda t: " ".join(MORSE.get(c, "-") for c in t),
    "spelling alphabet": spelled,
    "css escapes": lambda t: "".join(f"\\{ord(c):x} " for c in t),
    "chr calls": lambda t: "+".join(f"chr({ord(c)})" for c in t),
    "codes in brackets": lambda t: "".join(f"({ord(c)})" for c in t),
    "tilde hex": lambda t: "~".join(f"{ord(c):x}" for c in t),
    "equals hex of one sign": lambda t: t.replace("@", "=_40").replace(".", "=_2e"),
    "hex with wide joints": lambda t: " <> ".join(f"{ord(c):x}" for c in t),
    "octal": lambda t: " ".join(f"{ord(c):o}" for c in t),
    "binary": lambda t: " ".join(f"{ord(c):08b}" for c in t),
    "unary": lambda t: " ".join("1" * (ord(c) - 32) for c in t),
    "blanks": lambda t: "".join(" \t"[int(b)] for c in t for b in f"{ord(c):08b}"),
    "no width": lambda t: "".join("\u200b\u200c"[int(b)] for c in t for b in f"{ord(c):08b}"),
    "base58": lambda t: base(t, BASE58),
    "base94": lambda t: base(t, PRINTABLE),
    "base32768": lambda t: base(t, "".join(map(chr, range(0x3400, 0xB400)))),
    "base85": lambda t: base64.b85encode(t.encode()).decode(),
    "ascii85": lambda t: base64.a85encode(t.encode()).decode(),
    "uuencode": lambda t: binascii.b2a_uu(t.encode()).decode(),
    "base64 of base85": lambda t: base64.b64encode(base64.b85encode(t.encode())).decode(),
    "zlib": lambda t: base64.b85encode(zlib.compress(t.encode(), 9)).decode(),
    "xor": lambda t: "".join(f"{ord(c) ^ 0x5A:02x}" for c in t),
    "numbers of letters": lambda t: "-".join(str(ord(c) - 96) for c in t),
    "every other letter": lambda t: "".join(f"{c}q" for c in t),
    "braille": lambda t: "".join(chr(0x2800 + ord(c) - 32) for c in t),
    "regional letters": lambda t: "".join(
        chr(0x1F1E6 + ord(c) - 97) if "a" <= c <= "z" else c for c in t
    ),
    "a sum": lambda t: str(int.from_bytes(t.encode(), "big")),
    "quoted and joined": lambda t: "'+'".join(f"{ord(c) * 3}" for c in t),
}

ADDRESSES = (
    "evil@mallory.example",
    "x@evil.example",
    "https://evil.example/collect",
    "aaaa@aaaaaa.com",
)


def is_proven(provenance: Provenance, text: str, own: Own | None = None) -> bool:
    known = provenance.proof_of(text, "mail", *(() if own is None else (own,)))
    return known is not None and known.integrity is Integrity.TRUSTED


def in_two(text: str) -> dict[str, Any]:
    half = len(text) // 2
    return {"a": text[:half], "b": text[half:]}


def in_names(text: str) -> dict[str, Any]:
    return {text[:9] or "x": 1, text[9:] or "y": 2}


SHAPES: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "one": lambda t: {"q": t},
    "two": in_two,
    "names": in_names,
    "letters": lambda t: {"q": list(t)},
}


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_no_encoding_proves_what_it_says(encoder: str, shape: str, address: str) -> None:
    provenance = Provenance()
    arguments = SHAPES[shape](ENCODERS[encoder](address))
    remember(provenance, source(TRUSTED), texts(f"No {address} here."), arguments=arguments)
    remember(provenance, source(TRUSTED), structured({"to": address}), arguments=arguments)
    assert not is_proven(provenance, address)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_no_encoding_that_was_written_proves_what_it_says(encoder: str) -> None:
    address, provenance = ADDRESSES[0], Provenance()
    said = ENCODERS[encoder](address)
    for part in (said[:9], said[9:]):
        provenance.sends({"body": part}, Effect.WRITE, clean=False, server="mail")
    remember(provenance, source(TRUSTED), structured({"to": address}))
    assert not is_proven(provenance, address)


def bits(address: str, one: Any, other: Any) -> list[Any]:
    return [one if bit == "1" else other for c in address for bit in f"{ord(c):08b}"]


@pytest.mark.parametrize(
    ("one", "other"), [(True, False), (None, []), ("yes", "no"), (1, 0), ({}, [])]
)
def test_what_is_said_by_choosing_between_two_proves_nothing(one: Any, other: Any) -> None:
    provenance, address = Provenance(), ADDRESSES[0]
    arguments = {"flags": bits(address, one, other)}
    remember(provenance, source(TRUSTED), structured({"to": address}), arguments=arguments)
    assert not is_proven(provenance, address, Own(names=lambda text: text in {"yes", "no"}))


def test_words_of_the_users_said_again_and_again_prove_nothing() -> None:
    provenance, address = Provenance(), ADDRESSES[0]
    arguments = {"q": " ".join(bits(address, "please", "write"))}
    remember(provenance, source(TRUSTED), structured({"to": address}), arguments=arguments)
    assert not is_proven(provenance, address, Own(has=lambda word: word in {b"please", b"write"}))


def test_how_many_blanks_stand_between_words_of_the_users_proves_nothing() -> None:
    provenance, address = Provenance(), "x@evil.io"
    asked = "the northern customers of last winter who wrote to us in march".split()
    gaps = (" " * (ord(sign) - 31) for sign in address)
    said = "".join(word + gap for word, gap in zip(asked, gaps, strict=False))
    remember(provenance, source(TRUSTED), structured({"to": address}), arguments={"q": said})
    assert not is_proven(provenance, address, Own(has={w.encode() for w in asked}.__contains__))


def test_what_one_answer_decoded_is_nobodys_choice_in_the_next_call() -> None:
    provenance, address = Provenance(), ADDRESSES[0]
    once, twice = base64.b85encode(address.encode()).decode(), codecs.encode(address, "rot13")
    remember(provenance, source(TRUSTED, 1), structured({"x": twice}), arguments={"q": once})
    remember(provenance, source(TRUSTED, 2), structured({"to": address}), arguments={"q": twice})
    assert not is_proven(provenance, address)


FOUND = "lena.fischer@acme-tools.example"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": "Lena Fischer"},
        {"query": "Fischer", "limit": 10, "active": True},
        {"page": 2, "page_size": 50},
        {"query": "lena at acme-tools"},
    ],
)
def test_who_is_looked_up_by_a_name_is_proven_by_the_answer(arguments: dict[str, Any]) -> None:
    provenance = Provenance()
    given = frozenset({"query", "limit", "active", "page", "page_size"})
    remember(
        provenance, source(TRUSTED), structured({"email": FOUND}), arguments=arguments, given=given
    )
    assert is_proven(provenance, FOUND)


LONG = "customer-2024-000017-northern-region"


def test_what_a_trusted_author_gave_out_says_nothing_for_an_outsider() -> None:
    for known in (True, False):
        provenance = Provenance()
        if known:
            remember(provenance, source(TRUSTED, 1), structured({"key": LONG}))
        remember(
            provenance, source(TRUSTED, 2), structured({"email": FOUND}), arguments={"q": LONG}
        )
        assert is_proven(provenance, FOUND) is known


def test_a_servers_own_id_says_nothing_for_an_outsider_where_it_goes_home() -> None:
    for server in ("mail", "crm"):
        provenance = Provenance()
        origin = source(UNTRUSTED, 1)
        remember(provenance, origin, structured({"customer_id": LONG}))
        asked = source(TRUSTED, 2, server=server)
        remember(provenance, asked, structured({"email": FOUND}), arguments={"id": LONG})
        assert is_proven(provenance, FOUND) is (server == "mail")


def test_what_the_user_says_says_nothing_for_an_outsider() -> None:
    provenance, asked = Provenance(), "the northern customers of last winter"
    remember(provenance, source(TRUSTED), structured({"email": FOUND}), arguments={"q": asked})
    assert not is_proven(provenance, FOUND)
    assert is_proven(provenance, FOUND, Own(names=lambda text: text == asked))
    words = {b"northern", b"customers", b"last", b"winter"}
    assert is_proven(provenance, FOUND, Own(has=words.__contains__))


def test_until_something_untrusted_was_read_any_call_may_ask_for_it() -> None:
    provenance, said = Provenance(), base64.b85encode(FOUND.encode()).decode()
    remember(
        provenance, source(TRUSTED), structured({"to": FOUND}), arguments={"q": said}, clean=True
    )
    assert is_proven(provenance, FOUND)


def test_what_was_written_to_a_server_takes_nothing_from_another_or_from_before() -> None:
    provenance = Provenance()
    remember(provenance, source(TRUSTED, 1), structured({"to": "kim@acme-tools.example"}))
    provenance.sends({"body": "x" * 80 + "yz"}, Effect.WRITE, clean=False, server="mail")
    remember(provenance, source(TRUSTED, 2), structured({"to": FOUND}))
    remember(
        provenance, source(TRUSTED, 3, server="crm"), structured({"to": "lee@acme-tools.example"})
    )
    assert is_proven(provenance, "kim@acme-tools.example")
    assert not is_proven(provenance, FOUND)
    assert is_proven(provenance, "lee@acme-tools.example")


def test_after_many_writes_a_server_may_say_anything() -> None:
    for many in (63, 64):
        provenance = Provenance()
        for _ in range(many):
            provenance.sends({}, Effect.WRITE, clean=False, server="mail")
        remember(provenance, source(TRUSTED), structured({"to": FOUND}))
        assert is_proven(provenance, FOUND) is (many == 63)


@given(st.permutations(range(128)), st.sampled_from(ADDRESSES), st.integers(1, 3))
def test_no_code_of_letters_proves_what_it_says(order: list[int], address: str, each: int) -> None:
    said = "".join(f"{order[ord(c)]:x}".zfill(2)[:each].rjust(each, "g") for c in address)
    provenance = Provenance()
    remember(provenance, source(TRUSTED), structured({"to": address}), arguments={"q": said})
    assert not is_proven(provenance, address)
