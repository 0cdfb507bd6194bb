"""What kinds of destinations there are: addresses, which reach somebody anywhere, and names.

What is found here is treated more strictly than what is not, so this finds too much rather than too
little. Whether an address is ours is decided elsewhere, and strictly. The work is linear in a text.
"""

import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from urllib.parse import unquote

from gateway.domain.flow import Form
from gateway.flow.entities import from_html
from gateway.flow.folding import STEP, revealed

_AFTER = ".,;:!?)]}*'\""
_QUOTES = "'`"

# Each kind is looked for by what is rare in other text, and told from there to both sides: an
# expression that begins with what every word begins with would be tried at every letter.
_MAIL_HOST = re.compile(r"@[\w-]++(?:\.[\w-]++)++")
_MAILBOX_BACKWARDS = re.compile(r"[\w.+%!#$&*/=?^`'{|}~-]*+")
_LONGEST_MAILBOX = 64
"""Octets (RFC 5321 section 4.5.3.1.1)."""
_MAIL_LIKE = re.compile(r"@(?<=\S@)(?:\[|[\w-]++\.\w)")
"""What a mail server may take for an address, however odd."""

_REMOTE = r"@[\w-]++(?:\.[\w-]++)++\.?:(?![0-9]{1,5}+(?:[\s,;]|\Z))\S"
"""How ssh is told of a file on another machine."""
_PATH_OF_MAIL_HOST = re.compile(rf"@[\w.-]++(?::[0-9]{{1,5}}+)?[/?#]|{_REMOTE}")
"""No mailbox has one: what stands before the host is the user of a URL without a scheme."""

_PLAIN_MAILBOX = re.compile(
    r"(?!.*[Ww]{3}\.)[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_][A-Za-z0-9_-]*)*"
    r"@[A-Za-z0-9][A-Za-z0-9-]*(?:\.[A-Za-z0-9][A-Za-z0-9-]*)+"
)
_LONGEST_PLAIN = 128
"""Characters, of which all belong to a mailbox that may well exist."""

_ISBN_DIGITS = 13

_REMARK = re.compile(r"\([^()]*+\)")
_DEEPEST_REMARKS = 8
"""Within each other (RFC 5322 section 3.2.2)."""
_MANY_REMARKS = 1024
"""More of them are not taken out."""
_ODD = frozenset("()\\")

_IBAN_LIKE = re.compile(r"(?<!\w)[A-Za-z]{2}[0-9]{2}(?:[ -]?[A-Za-z0-9]){11,30}+(?!\w)", re.ASCII)

_COMMON = (
    "com|net|org|edu|gov|info|biz|io|ai|app|dev|co|me|tv|ly|gl|gd|xyz|top|online|site|website|shop"
    "|club|link|click|live|store|tech|pro|cloud|space|fun|icu|art|blog|news|mobi|vip|bid"
    "|win|work|life|today|world|agency|support|finance|bank|pay|de|uk|fr|nl|ru|su|cn|eu|us"
    "|ca|au|ch|es|se|jp|br|tk|ga|cf|gq|pw|ws|ua|ir|kr|hk|tw|sg|za|mx|tr|cz|dk|fi|gr|hu|ie"
)
"""Top-level domains of which programs that show text make links of a host alone."""

_HOST_MARK = re.compile(
    # What begins with just one sign is found much sooner; in prose white space follows a full stop.
    r"\.(?=\w)(?:"
    # Of any host with a path; and of a host alone, if it ends as hosts do and as files do not.
    r"(?:[^\W\d_]{2,24}+|xn--[A-Za-z0-9-]{2,59}|(?<=[0-9]\.)[0-9]{1,3})"
    r"(?::[0-9]{1,5})?(?:/|[?#]\w)"
    rf"|(?:{_COMMON})(?![\w@-]|\.\w))"
)
_URL_MARK = re.compile(rf"://|{_HOST_MARK.pattern}")
_WWW_MARK = re.compile(rf"{_URL_MARK.pattern}|[Ww]{{3}}\.")
_WWW = re.compile(r"\.(?<=[Ww]{3}\.)")
_URL_END = re.compile(r"[^\s<>\"]*+")
_URL_STOPS = re.compile(r"['\\]|\]\(|\),?\[")
"""A quote, and how Markdown goes on."""
_ODD_LINK = re.compile(
    r"(?<!\w)https?:(?!//[^/\\])[/\\]*+[^\s<>\"/\\]++|(?<![:/\\\w.])(?:/|\\){2}[\w-]++(?:\.[\w-]++)++",
    re.IGNORECASE,
)
"""What programs that show pages take for a link, though it is none: `https:/a`, `//a.example`."""
_SCHEME = re.compile(r":(?:(?<=[Hh][Tt]{2}[Pp]:)|(?<=[Hh][Tt]{2}[Pp].:))", re.DOTALL)

_DOTS = "\u3002\uff0e\uff61"
"""What else stands for a dot in a host's name (UTS 46)."""
_SCHEME_BACKWARDS = re.compile(r"[A-Za-z0-9+.-]*+")
_HOST_BACKWARDS = re.compile(r"[\w.-]*+")
_LONGEST_SCHEME = 16
_LONGEST_HOST = 253

_ACCOUNT = re.compile(
    r"[0-9](?:"
    # A bank account, from its check digits on.
    r"(?<=(?<!\w)[A-Z]{2}[0-9])[0-9](?: ?[A-Z0-9]){8,40}\b"
    # A card or a phone. A date or a version is no account.
    r"|(?<![\w.-][0-9])(?:[ -]?[0-9]){8,20}(?![\w-])"
    # A wallet.
    r"|(?<=(?<!\w)0)x[0-9a-fA-F]{40}\b|(?<=(?<!\w)bc1)[a-z0-9]{20,80}\b"
    r"|(?<=(?<!\w)[13])[A-HJ-NP-Za-km-z1-9]{25,34}\b)"
)
_ACCOUNT_BEGINS = re.compile(r"(?:[A-Z]{2}|bc|\+)\Z")


_ON_ANOTHER = re.compile(_REMOTE)
_PLACE_BEYOND = re.compile(
    rf"\A\s*//|(?<![\w/.@-])(?:[\w-]++\.)+(?:{_COMMON})(?::[0-9]{{1,5}}+)?[/?]"
    # A version has no four numbers, and a part of a network ends with how large it is.
    r"|(?:\A\s*|@)(?:(?:[\w-]++\.)+(?:[^\W\d_]{2,24}+|xn--[\w-]{2,59}+)|(?:[0-9]{1,3}\.){3}[0-9]{1,3}+)"
    r"(?::[0-9]{1,5}+)?[/?](?![0-9]{1,2}\s*\Z)",
    re.IGNORECASE,
)


def is_of_a_place(text: str, *, is_path: bool = False) -> bool:
    """Tell whether `text` has a URL, or a host and what is asked of it, that nothing else looks like.

    `src/com.example.app/Main.java`, `react@18.2.0/index` and `logger.info(x)` have none. Of a file's path
    (`is_path`) any part may look like a host.
    """
    shown = _shown(text)
    if not (":" in shown or "/" in shown or "?" in shown or "\\" in shown):
        return False
    if "://" in shown or any(one.search(shown) for one in (_ODD_LINK, _ON_ANOTHER)):
        return True
    return not is_path and _PLACE_BEYOND.search(shown) is not None


def form_of(text: str) -> Form:
    """Return what `text` is, or what it has in it: a name has nothing of an address."""
    # What most addresses are, in which there is nothing else to be found.
    if "@" in text and len(text) <= _LONGEST_PLAIN and _PLAIN_MAILBOX.fullmatch(text):
        return Form.EMAIL
    return _form_of(text)


def _form_of(text: str) -> Form:
    if next(links_in(text), None):
        return Form.URL
    text = revealed(_shown(text))
    if _is_mail_like(text) or ("%" in text and _is_mail_like(unquote(text))):
        return Form.URL if _PATH_OF_MAIL_HOST.search(text) else Form.EMAIL
    is_account = next(_accounts(text), None) is not None or _has_iban(text) or _has_phone(text)
    return Form.ACCOUNT if is_account else Form.NAME


def _is_mail_like(text: str) -> bool:
    """Tell whether a mail server may find an address in `text`, which it reads without remarks and space."""
    if "@" not in text:
        return False
    if text.count("(") > _MANY_REMARKS:
        return True  # as below: nobody knows what is left of it
    for _ in range(_DEEPEST_REMARKS if "(" in text else 0):
        text = _REMARK.sub("", text)
    if not _ODD.isdisjoint(text):
        return True  # whoever reads it as mail servers do may find an address
    return _MAIL_LIKE.search("".join(text.split())) is not None


_SPELLED_PHONE = re.compile(
    r"(?<![\w+])(?:\+(?![0-9]{4}-[0-9]{2}-|[0-9]{1,3}(?:\.[0-9]{3})+(?!\S))[0-9][0-9 ()./-]{5,20}"
    r"|\((?:0[0-9]{1,5}|[0-9]{3})\) ?(?![0-9]{4}-)[0-9][0-9 -]{3,14})[0-9](?!\w)",
    re.ASCII,
)
"""With its country, or with its area in parentheses; a year in these, a date and an amount are none."""


def _has_phone(text: str) -> bool:
    """Tell whether a phone's number stands in `text`, with other signs in it than between two digits."""
    # Digits of a phone number (ITU-T E.164).
    return any(sum(map(str.isdigit, p[0])) in range(8, 16) for p in _SPELLED_PHONE.finditer(text))


def _has_iban(text: str) -> bool:
    """Tell whether an account's number stands in `text`, in small letters or cut up otherwise."""
    return any(_is_valid(found[0]) for found in _IBAN_LIKE.finditer(text))


def is_iban(text: str) -> bool:
    """Tell whether `text` is an account's number, and nothing else."""
    return _IBAN_LIKE.fullmatch(text) is not None and _is_valid(text)


def _is_valid(iban: str) -> bool:
    """Tell whether the check digits are right (ISO 13616, ISO 7064 MOD 97-10)."""
    plain = iban.replace(" ", "").replace("-", "")
    return int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1


def addresses_in(texts: Iterable[str]) -> frozenset[str]:
    """Return the addresses of any form that `texts` contain, as they are written."""
    # None of them has a line's end in it, so that many short texts are read as one.
    text = "\n".join(texts)
    return frozenset((*_mailboxes(text), *_urls(text), *_accounts(text)))


def links_in(text: str) -> Iterator[str]:
    """Yield the URLs in `text`, each once, in order; also those without a scheme, and odd ones.

    A text is read as it stands, as a page would show it, and as whoever is not fooled reads it.
    """
    seen: set[str] = set()
    for shown in dict.fromkeys((text, _shown(text))):
        for link in chain(_urls(shown), _odd_links(shown)):
            if link not in seen:
                seen.add(link)
                yield link


def _odd_links(text: str) -> Iterator[str]:
    if ("/" in text and "//" in text) or "\\" in text or _SCHEME.search(text):
        for odd in _ODD_LINK.finditer(text):
            yield odd[0]


def _shown(text: str) -> str:
    text = from_html(text)
    if text.isascii():
        return text
    for dot in _DOTS:
        text = text.replace(dot, ".")
    return revealed(text)


def _mailboxes(text: str) -> Iterator[str]:
    for host in _MAIL_HOST.finditer(text):
        before = text[max(0, host.start() - _LONGEST_MAILBOX - 1) : host.start()]
        mailbox = before[len(before) - _length(_MAILBOX_BACKWARDS, before) :].lstrip(_QUOTES)
        # A longer one is nobody's, and its end is somebody else's.
        if 0 < len(mailbox) <= _LONGEST_MAILBOX:
            yield mailbox + host[0]


def _urls(text: str) -> Iterator[str]:
    has_scheme = "/" in text and "://" in text
    marks = _WWW_MARK if _WWW.search(text) else _URL_MARK if has_scheme else _HOST_MARK
    at = token_end = last_at = 0
    search = marks.search if len(text) <= STEP else partial(_searched, marks)
    while (mark := search(text, at)) is not None:
        begin = _url_begin(text, at, mark)
        at = mark.end()
        if at > token_end:
            # Once for all the URLs of a token: else each of many would be searched to its end.
            whole = _URL_END.match(text, at)
            token_end = at if whole is None else whole.end()
            last_at = text.rfind("@", at, token_end)
        at = _url_end(text, at, token_end, last_at)
        if begin is not None:
            yield text[begin:at].rstrip(_AFTER)


_LONGEST_MARK = 128
"""Characters of which more than each mark has, with what it asks to stand behind it."""


def _searched(marks: re.Pattern[str], text: str, at: int) -> re.Match[str] | None:
    """Return what `marks.search` returns, found step by step."""
    for begin in range(at, len(text), STEP):
        mark = marks.search(text, begin, begin + STEP + _LONGEST_MARK)
        if mark is not None and mark.start() < begin + STEP:
            return mark
    return None


def _url_end(text: str, at: int, end: int, last_at: int) -> int:
    """Return where a URL ends of which the text up to `at` is known to be, in what ends at `end`.

    A quote ends it, if nothing after it could make of all before it the name of a user.
    """
    stop = _URL_STOPS.search(text, at, end)
    return end if stop is None or last_at >= stop.start() else stop.start()


def _url_begin(text: str, at: int, mark: re.Match[str]) -> int | None:
    """Return where the URL with `mark` begins, at `at` or later; `None` if it is none."""
    if mark[0] == "://":
        before = text[max(at, mark.start() - _LONGEST_SCHEME) : mark.start()]
        scheme = before[len(before) - _length(_SCHEME_BACKWARDS, before) :].lstrip("+.-0123456789")
        return mark.start() - len(scheme) if scheme else None
    if mark[0][0] != ".":
        return mark.start()
    before = text[max(at, mark.start() - _LONGEST_HOST) : mark.start()]
    host = mark.start() - _length(_HOST_BACKWARDS, before)
    is_mail = host > 0 and text[host - 1] == "@"
    return None if is_mail or host == mark.start() else host


def _length(pattern: re.Pattern[str], before: str) -> int:
    """Return how many of the last characters of `before` fit `pattern`, which always matches."""
    found = pattern.match(before[::-1])
    return 0 if found is None else found.end()


def _accounts(text: str) -> Iterator[str]:
    for place in _ACCOUNT.finditer(text):
        begin = place.start()
        before = _ACCOUNT_BEGINS.search(text[max(0, begin - 2) : begin])
        if before is not None or not _is_isbn(place[0]):
            yield (before[0] if before else "") + place[0]


def _is_isbn(text: str) -> bool:
    """Tell whether `text` is the number of a book (ISO 2108), which reaches nobody.

    No country's telephone numbers and no cards begin so.
    """
    digits = text.replace("-", "").replace(" ", "")
    if len(digits) != _ISBN_DIGITS or not digits.startswith(("978", "979")):
        return False
    return sum(int(c) * (3 if i % 2 else 1) for i, c in enumerate(digits)) % 10 == 0
