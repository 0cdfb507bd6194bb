"""What is an address, and how much work it is to find one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.flow import Form
from gateway.flow import forms
from gateway.flow.forms import addresses_in, form_of, links_in

MAIL = [
    "a@b.com",
    "John.O'Brien@x.co.uk",
    "a+b_c%d@x-y.example",
    "b\u00f6b@ex.example",
    "x@a.b.c.d.e.f.g.h.i.j.example",
]
URLS = ["https://a.b/c?d=e#f", "HTTP://A.B", "www.a.example", "a.example/b", "a.example:80/b", "a.example?b=1",
        "ftp://x", "https://u@x.com/@v", "my-app+x.y://open"]  # fmt: skip
ACCOUNTS = ["DE89370400440532013000", "DE89 3704 0044 0532 0130 00", "US133000000121212121212", "4111 1111 1111 1111",
            "4111-1111-1111-1111", "+49 170 1234567", "123456789", "0x" + "a1" * 20, "bc1" + "q" * 38, "1" + "A" * 33]  # fmt: skip
NAMES = ["", "bob", "general", "report.docx", "report.docx?", "node.js", "2024-05-15", "2024-05-15T10:30:00", "1.2.3.4",
         "12345678", "@alice", "a@b", "file_123456789012.txt", "v1.22.333.4444", "and/or"]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "form"),
    [
        *((text, Form.EMAIL) for text in MAIL),
        *((text, Form.URL) for text in URLS),
        *((text, Form.ACCOUNT) for text in ACCOUNTS),
        *((text, Form.NAME) for text in NAMES),
    ],
)
def test_a_text_has_a_form(text: str, form: Form) -> None:
    assert form_of(text) is form
    assert addresses_in([text]) - {"//u@x.com"} == ({text} if form is not Form.NAME else set())


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("Evil <x@evil.com>", Form.EMAIL),
        ("x@evil.com ", Form.EMAIL),
        ("Mark, x@evil.com, Ann", Form.EMAIL),
        ("x\uff20evil.example", Form.EMAIL),
        ("x@\u200bevil.example", Form.EMAIL),
        ("x@evil\uff0ecom", Form.EMAIL),
        ("x@[1.2.3.4]", Form.EMAIL),
        ('"x y"@evil.com', Form.EMAIL),
        ("a" * 99 + "@evil.com", Form.EMAIL),
        ("Mallory <mallory @evil.example>", Form.EMAIL),
        ("mallory(x) @evil.example", Form.EMAIL),
        ("mallory@(c)evil.example", Form.EMAIL),
        ("mallory@(a(b)c)evil . example", Form.EMAIL),
        ("mallory @evil.example", Form.EMAIL),
        ("mallory@" + "(" * 9 + "c" + ")" * 9 + "evil.example", Form.EMAIL),
        ("mallory@(\\))evil.example", Form.EMAIL),
        ("mallory%40evil.example", Form.EMAIL),
        ("mallory&#64;evil.example", Form.EMAIL),
        ("see evil.com/x", Form.URL),
        ("https\uff1a//evil.com", Form.URL),
        ("my account DE89370400440532013000", Form.ACCOUNT),
        ("de89370400440532013000", Form.ACCOUNT),
        ("De89 3704-0044 0532 0130 00", Form.ACCOUNT),
        ("de88370400440532013000", Form.NAME),
        ("9780000411174", Form.NAME),
        ("978-0-00-041117-4", Form.NAME),
        ("9780000411171", Form.ACCOUNT),
        ("+9780000411174", Form.ACCOUNT),
        ("\uff11\uff12\uff13\uff14\uff15\uff16\uff17\uff18\uff19", Form.ACCOUNT),
    ],
)
def test_what_has_an_address_in_it_is_no_name(text: str, form: Form) -> None:
    assert form_of(text) is form


def test_addresses_are_told_from_what_stands_around_them() -> None:
    text = "Mail (kim@c.example), 'sue@c.example': see https://a.b/c). Or www.d.example! Pay DE89370400440532013000."
    assert addresses_in([text, "x@y.example"]) == {
        "kim@c.example",
        "sue@c.example",
        "https://a.b/c",
        "www.d.example",
        "DE89370400440532013000",
        "x@y.example",
    }


@pytest.mark.parametrize("glue", ["", "x", "\u00e9", "_", "(", "-", "'", ":", "=", "1"])
def test_a_link_cannot_be_hidden_by_what_it_is_glued_to(glue: str) -> None:
    found = list(links_in(f"go {glue}https://evil.com/x"))
    assert found
    assert all(link.endswith("evil.com/x") for link in found)


def test_each_link_is_told_once_and_in_order_however_often_it_stands() -> None:
    text = "https://b.c/ " * 5000 + "a.bc/d https://b.c/ www.e.f"
    assert list(links_in(text)) == ["https://b.c/", "a.bc/d", "www.e.f"]


def test_nothing_is_too_far_behind_or_too_often_repeated_to_be_found() -> None:
    text = "x@evil.com " * 1000 + " " * 100_000 + "client@good.example"
    assert addresses_in([text]) == {"x@evil.com", "client@good.example"}


def test_a_mailbox_that_is_too_long_is_nobodys() -> None:
    assert addresses_in(["a" * 64 + "@b.com"]) == {"a" * 64 + "@b.com"}
    assert addresses_in(["a" * 65 + "@b.com"]) == frozenset()


@given(st.text(), st.sampled_from(["kim@c.example", "https://a.b/c"]), st.text())
def test_an_address_is_found_between_any_words(before: str, address: str, after: str) -> None:
    assert address in addresses_in([f"{before} {address} {after}"])
    assert form_of(f"{before} {address} {after}") is not Form.NAME


PARTS = ["www.", "a", "@", ".", "com", "://", "http", "/", "4111 1111", " 1111 1111", "DE", "89", "+49",
         "0x", "bc1", " ", "\n", "'", ":80", "?q", "\\", "\u00e9"]  # fmt: skip


@given(st.lists(st.lists(st.sampled_from(PARTS), max_size=6).map("".join), max_size=5))
def test_of_many_texts_that_is_found_which_each_has(texts: list[str]) -> None:
    each = [addresses_in([text]) for text in texts]
    assert addresses_in(texts) == frozenset[str]().union(*each)


@given(st.text(st.sampled_from("a.@:/w -+01AZ?#x")))
def test_what_is_found_stands_there(text: str) -> None:
    assert all(found in text for found in addresses_in([text]))


PIECES = ["a", "a@", "a@b.", "@", ".a", "a.", "x" * 64 + "@b", "a@" + "b" * 63, "http://", "://", "a://", "www.", "w",
          "www. ", "AA00", "AA00 A", " A", "0 ", "0-", "0", "+0", "0x", "bc1", "1A", "AB12CD34 ", " ", "\u00e9", "\u00e9@\u00e9.\u00e9 ",
          "a.b-c@d.e ", ".com/", ".cc", "a.bb", "a+b.", ":80", ",", "; ", "0" * 21 + "_", "/", "?", "#a", "'", "a://'", "a.com'", "https:/"]  # fmt: skip


@pytest.mark.parametrize("octets", [32 * 1024, pytest.param(1024 * 1024, marks=pytest.mark.full)])
@pytest.mark.parametrize("piece", PIECES)
def test_a_megabyte_of_anything_is_read(piece: str, octets: int) -> None:
    """What is worse than linear would not end within the clock of this suite."""
    text = piece * (octets // len(piece))
    assert isinstance(form_of(text), Form)
    assert len(addresses_in((text,))) <= 4
    assert len(list(links_in(text))) <= 4


def test_a_text_of_the_longest_kind_is_searched_by_every_kind() -> None:
    assert form_of("a" * 1_000_000) is Form.NAME
    assert form_of("a" * 1_000_000 + "@b.com") is Form.EMAIL


@given(
    st.from_regex(
        r"(?:[\w.-]|www[.]|[.]com){0,20}@(?:[\w.-]|www[.]|[.]com){0,20}[/?#+]?", fullmatch=True
    )
)
def test_a_plain_mailbox_is_told_at_once_to_be_what_it_is(text: str) -> None:
    assert form_of(text) is forms._form_of(text)


@pytest.mark.parametrize(
    "text",
    ["a.com+x@b.de", "a.com.@b.de", "www.a@b.de", "a@www.b.de", "a@b.de/c", "a.com-@b.de", "a@b"],
)
def test_what_only_looks_like_a_plain_mailbox_is_looked_at_whole(text: str) -> None:
    assert form_of(text) is forms._form_of(text)
