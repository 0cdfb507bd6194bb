"""What is found step by step, from its mark on, is what one expression finds in the whole text."""

import html
import re
from collections.abc import Iterator
from urllib.parse import unquote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.flow import decoding, entities, folding, forms, review, spellings, spoken, steps

REMOTE = r"@[\w-]++(?:\.[\w-]++)++\.?:(?![0-9]{1,5}+(?:[\s,;]|\Z))\S"
ON_ANOTHER = re.compile(REMOTE)
PATH_OF_MAIL_HOST = re.compile(rf"@[\w.-]++(?::[0-9]{{1,5}}+)?[/?#]|{REMOTE}")
MAIL_HOST = re.compile(r"@[\w-]++(?:\.[\w-]++)++")
MAIL_LIKE = re.compile(r"\S@(?:\[|[\w-]++\.\w)")
ODD_LINK = re.compile(
    r"(?<!\w)https?:(?!//[^/\\])[/\\]*+[^\s<>\"/\\]++|(?<![:/\\\w.])(?:/|\\){2}[\w-]++(?:\.[\w-]++)++",
    re.IGNORECASE,
)
PLACE_BEYOND = re.compile(
    rf"\A\s*//|(?<![\w/.@-])(?:[\w-]++\.)+(?:{forms._COMMON})(?::[0-9]{{1,5}}+)?[/?]"
    r"|(?:\A\s*|@)(?:(?:[\w-]++\.)+(?:[^\W\d_]{2,24}+|xn--[\w-]{2,59}+)|(?:[0-9]{1,3}\.){3}[0-9]{1,3}+)"
    r"(?::[0-9]{1,5}+)?[/?](?![0-9]{1,2}\s*\Z)",
    re.IGNORECASE,
)
SPELLED_PHONE = re.compile(
    r"(?<![\w+])(?:\+(?![0-9]{4}-[0-9]{2}-|[0-9]{1,3}(?:\.[0-9]{3})+(?!\S))[0-9][0-9 ()./-]{5,20}"
    r"|\((?:0[0-9]{1,5}|[0-9]{3})\) ?(?![0-9]{4}-)[0-9][0-9 -]{3,14})[0-9](?!\w)",
    re.ASCII,
)
BOUNDED = (
    *(forms._IBAN_LIKE, forms._ACCOUNT, forms._SPELLED_PHONE, forms._URL_STOPS, forms._WWW),
    *(forms._SCHEME, forms._URL_MARK, forms._WWW_MARK, forms._ODD_MARK, forms._PLACE),
)

PARTS = [
    *("@", "@a", "@a.b", "a@b.c", "@a.", "@.a", "@a..b", "@-", "@[", "a@", " @", "@a.b.:", "@a.b:", "@a:1/"),
    *("http:", "https:", "HTTP\u017f:", "shttp:", "://", "//", "\\\\", "/\\", "/", "\\", "?", "#", ":", ":22"),
    *(".com", ".com/", ".co\u212a/", "a.com/", "a.de?", "xn--a", ".xn--ab/", "1.2.3.4/", "1.2.3/", ".", "..", ".a"),
    *("/24", "/7 ", "+1", "+123", ".000", "+1.000.000", "(0", "(030) ", "(415)", "12-34", "2026-12-01", "1 ", "1-"),
    *("DE89", " 3704", "0440 5320 1300 0", "AA11", "Z", "a", "e\u0301", "\u0660", "\u00e9", "_", "-", " ", "\n", "\x1c"),
    *("www.", "&", "&#", "&#6", "5", ";", "&amp", "&amp;", "%", "%4", "%41", "%c3", "%A9", "%80", "\\u00", "41", "\\x4"),
    *(",", "'", '"', "<", "(", ")", "](", "),[", "h", "t", "p", "s", "\ud800", "\U0001f980", "\u200b", "\u0130"),
]  # fmt: skip
PIECES = st.lists(
    st.one_of(
        st.sampled_from(PARTS),
        st.builds(str.__mul__, st.sampled_from(PARTS), st.integers(2, 90)),
        st.text("a.@/:1 +-(", max_size=9),
    ),
    max_size=12,
).map("".join)
STEPS = st.one_of(st.integers(1, 40), st.just(steps.STEP))


def stepping(patch: pytest.MonkeyPatch, step: int) -> None:
    for module in (steps, forms, spoken):
        patch.setattr(module, "STEP", step)


def told(text: str) -> tuple[object, ...]:
    return (
        forms._is_on_another(text),
        any(forms._PATH.match(text, end) for _, end in forms._going_on(text)),
        list(forms._odd_links(text)),
        forms._is_beyond(text),
        forms._has_phone(text),
        list(forms._mailboxes(text)),
        forms._is_mail_like(text.translate(dict.fromkeys(b"()\\"))),
    )


def by_one(text: str) -> tuple[object, ...]:
    """Return the same as an expression tells it that keeps the interpreter until it is done."""
    bare = "".join(text.translate(dict.fromkeys(b"()\\")).split())
    remote = ON_ANOTHER.search(text) is not None
    phones = SPELLED_PHONE.finditer(text)
    return (
        remote,
        remote or PATH_OF_MAIL_HOST.search(text) is not None,
        [odd[0] for odd in ODD_LINK.finditer(text)],
        PLACE_BEYOND.search(text) is not None,
        any(sum(map(str.isdigit, phone[0])) in range(8, 16) for phone in phones),
        list(mailboxes(text)),
        MAIL_LIKE.search(bare) is not None,
    )


def mailboxes(text: str) -> Iterator[str]:
    for host in MAIL_HOST.finditer(text):
        before = text[max(0, host.start() - 65) : host.start()]
        length = forms._length(forms._MAILBOX_BACKWARDS, before)
        mailbox = before[len(before) - length :].lstrip("'`")
        if 0 < len(mailbox) <= 64:
            yield mailbox + host[0]


@settings(max_examples=100)
@given(PIECES, STEPS)
@example("see http:a", 1)
@example("//a.http:x", 1)
@example("@" + "a" * 200 + ".b", 3)
@example("a@" + "a" * 200 + ".b:x", 3)
@example("\x1c" + "a." * 100 + "bc/123", 5)
@example("@" + "a." * 100 + "b-c/x", 5)
@example("+123" + ".000" * 60 + " ", 7)
@example("+123" + ".000" * 60 + "x", 7)
@example("+1.000 +49 30 123456", 7)
def test_hosts_links_and_numbers_are_found_step_by_step_as_by_one_expression(
    text: str, step: int
) -> None:
    expected = by_one(text)
    with pytest.MonkeyPatch.context() as patch:
        stepping(patch, step)
        remote, path, *others = told(text)
        assert (remote, remote or path, *others) == expected


@settings(max_examples=100)
@given(PIECES, STEPS)
def test_what_an_expression_finds_it_finds_step_by_step(text: str, step: int) -> None:
    every = [[found.span() for found in one.finditer(text)] for one in BOUNDED]
    firsts = [one.search(text, 3, 70) for one in BOUNDED]
    with pytest.MonkeyPatch.context() as patch:
        stepping(patch, step)
        assert [[f.span() for f in steps.found_in(one, text)] for one in BOUNDED] == every
        again = [steps.first_in(one, text, 3, 70) for one in BOUNDED]
    assert [f and f.span() for f in again] == [f and f.span() for f in firsts]


@settings(max_examples=100)
@given(PIECES, STEPS)
@example("%41%c3%a9%80%e2%82%41%e2%82", 1)
@example("\\u0041\\x41\\u{1f980}%u0041", 1)
@example("%%41%%4%1%zz%c3%", 1)
@example("&#00065;&#0000000065&amp&am;&#x41", 1)
@example("e\u0301s \u0130x_", 1)
def test_texts_are_undone_and_cut_into_words_step_by_step_as_in_one(text: str, step: int) -> None:
    shown = folding.revealed(text) if folding.is_suspicious(text) else text
    plain = html.unescape(entities._LONG.sub(entities._short, text))
    escaped = decoding._ESCAPE.sub(decoding._unescaped, text)
    percents = spellings._PERCENT.sub(spellings._unquoted, text)
    spelled = spellings._ESCAPE.sub(spellings._unescaped, text)
    spelled = spelled.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    expected = (
        percents,
        spelled if spellings._ESCAPE.search(text) else text,
        plain if "&" in text else text,
        unquote(text),
        [escaped] if text.count("\\") > 3 and escaped != text else [],
        re.findall(r"[^\W_]+", shown.casefold()),
        re.split("[,;]", text),
    )
    with pytest.MonkeyPatch.context() as patch:
        stepping(patch, step)
        assert (
            next(spellings._percent(text), text),
            next(spellings._escapes(text), text),
            entities.from_html(text),
            entities.unquoted(text),
            [form for how, form in decoding._undone(text, 1) if how == "escapes"],
            spoken._tokens(text),
            list(review._split(text)),
        ) == expected
        assert folding.is_suspicious(text) == (shown != text)
