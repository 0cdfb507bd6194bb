"""What kinds of destinations there are: addresses, which reach somebody anywhere, and names.

What is found here is treated more strictly than what is not, so this finds too much rather than too
little. Whether an address is ours is decided elsewhere, and strictly. The work is linear in a text.
"""

import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain

from gateway.domain.flow import Form
from gateway.flow.entities import from_html, unquoted
from gateway.flow.folding import revealed
from gateway.flow.steps import STEP, first_in, found_in, run_end, steps_of

_AFTER = ".,;:!?)]}*'\""
_QUOTES = "'`"

# Each kind is looked for by what is rare in other text, and told from there to both sides: an
# expression that begins with what every word begins with would be tried at every letter. What may be
# of any length is told from its mark by steps; `\Z` stands where a step may have cut it.
_MAIL_HOST = re.compile(r"@[\w-]++(?:\.[\w-]|\.?\Z)")
_MAILBOX_BACKWARDS = re.compile(r"[\w.+%!#$&*/=?^`'{|}~-]*+")
_LONGEST_MAILBOX = 64
"""Octets (RFC 5321 section 4.5.3.1.1)."""
_MAIL_LIKE = re.compile(r"@(?<=\S@)(?:\[|[\w-]++(?:\.\w|\.?\Z))")
"""What a mail server may take for an address, however odd."""
_LABEL = re.compile(r"[\w-]*+")
_NEXT_LABEL = re.compile(r"\.\w")

_GOES_ON = re.compile(r"@[\w.-]++(?:[:/?#]|\Z)")
_REMOTE = re.compile(r":(?![0-9]{1,5}+(?:[\s,;]|\Z))\S")
"""How ssh is told of a file on another machine, behind its name."""
_PATH = re.compile(r"(?::[0-9]{1,5}+)?[/?#]")
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
_ODD = "()\\"

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
_ODD_MARK = re.compile(
    r"[:/\\](?:(?<=(?<!\w)http:)|(?<=(?<!\w)https:)|(?<!:)(?<![:/\\\w.].)[/\\])", re.IGNORECASE
)
"""Of what programs that show pages take for a link, though it is none: `https:/a`, `//a.example`."""
_SLASHES = re.compile(r"[/\\]*+")
_ODD_REST = re.compile(r"[^\s<>\"/\\]*+")
_SCHEME = re.compile(r":(?:(?<=[Hh][Tt]{2}[Pp]:)|(?<=[Hh][Tt]{2}[Pp].:))", re.DOTALL)

_DOTS = "\u3002\uff0e\uff61"
"""What else stands for a dot in a host's name (UTS 46)."""
_SCHEME_BACKWARDS = re.compile(r"[A-Za-z0-9+.-]*+")
_HOST = re.compile(r"[\w.-]*+")
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


_PLACE = re.compile(
    r"\.([^\W\d_]{2,24}+|xn--[\w-]{2,59}+|[0-9]{1,3}+)(?::[0-9]{1,5}+)?[/?]", re.IGNORECASE
)
"""How a host ends of which something is asked."""
_TOP = re.compile(_COMMON, re.IGNORECASE)
_FOUR_NUMBERS = re.compile(r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}")
_SIZE = re.compile(r"[0-9]{1,2}")
"""Of a part of a network, which ends with it. A version has no four numbers."""


def is_of_a_place(text: str, *, is_path: bool = False) -> bool:
    """Tell whether `text` has a URL, or a host and what is asked of it, that nothing else looks like.

    `src/com.example.app/Main.java`, `react@18.2.0/index` and `logger.info(x)` have none. Of a file's path
    (`is_path`) any part may look like a host.
    """
    shown = _shown(text)
    if not (":" in shown or "/" in shown or "?" in shown or "\\" in shown):
        return False
    if "://" in shown or next(_odd_links(shown), None) or _is_on_another(shown):
        return True
    return not is_path and _is_beyond(shown)


def _is_on_another(text: str) -> bool:
    """Tell whether `text` has a file on another machine."""
    return any(
        _REMOTE.match(text, end)
        and text.find(".", at, end - 1) >= 0
        and _host_end(text, at) == end - text.endswith(".", at, end)
        for at, end in _going_on(text)
    )


def _going_on(text: str) -> Iterator[tuple[int, int]]:
    """Yield where something like a host stands behind a mailbox's sign, and goes on as none does."""
    for mark in found_in(_GOES_ON, text):
        yield mark.start() + 1, run_end(_HOST, text, mark.start() + 1)


def _is_beyond(text: str) -> bool:
    first, last = len(text) - len(text.lstrip()), len(text.rstrip())
    return text.startswith("//", first) or any(
        _leads_beyond(text, mark, first, last) for mark in found_in(_PLACE, text)
    )


def _leads_beyond(text: str, mark: re.Match[str], first: int, last: int) -> bool:
    """Tell whether a host ends with `mark`: before a path it begins what is said, but for common ones."""
    begin = _run_begin(text, mark.start())
    if text.startswith(".", begin) or text.find("..", begin, mark.start() + 1) >= 0:
        return False
    before, name = text[begin - 1 : begin] if begin else "", mark[1]
    if before not in {"/", "@"} and _TOP.fullmatch(name):
        return True
    if (begin != first and before != "@") or _SIZE.fullmatch(text, mark.end(), last):
        return False
    return not "0" <= name[0] <= "9" or bool(_FOUR_NUMBERS.fullmatch(text, begin, mark.end(1)))


def _run_begin(text: str, at: int) -> int:
    """Return where what a host may have begins that ends at `at`."""
    width = _LONGEST_HOST
    while (length := _length(_HOST, before := text[max(0, at - width) : at])) == len(before) > 0:
        at, width = at - length, STEP
    return at - length


def _host_end(text: str, at: int) -> int:
    """Return where a host ends that begins at `at`: labels, with one dot between two of them."""
    end = run_end(_HOST, text, at)
    cut = at if text.startswith(".", at) else text.find("..", at, end)
    return cut if cut >= 0 else end - text.endswith(".", at, end)


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
    if _is_mail_like(text) or ("%" in text and _is_mail_like(unquoted(text))):
        has_path = any(_PATH.match(text, end) for _, end in _going_on(text))
        return Form.URL if has_path or _is_on_another(text) else Form.EMAIL
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
    if any(sign in text for sign in _ODD):
        return True  # whoever reads it as mail servers do may find an address
    text = "".join("".join(step.split()) for step in steps_of(text))
    return any(
        mark[0] == "@[" or _NEXT_LABEL.match(text, run_end(_LABEL, text, mark.start() + 1))
        for mark in found_in(_MAIL_LIKE, text)
    )


_SPELLED_PHONE = re.compile(
    r"[+(](?<![\w+].)(?:(?<=\+)(?![0-9]{4}-[0-9]{2}-)[0-9][0-9 ()./-]{5,20}"
    r"|(?<=\()(?:0[0-9]{1,5}|[0-9]{3})\) ?(?![0-9]{4}-)[0-9][0-9 -]{3,14})[0-9](?!\w)",
    re.ASCII,
)
"""With its country, or with its area in parentheses; a year in these and a date are none."""
_AMOUNT = re.compile(r"\+[0-9]{1,3}+(?=\.[0-9]{3})")
_THOUSANDS = re.compile(r"(?:\.[0-9]{3})*+")
_SPACE = re.compile(r"\s|\Z", re.ASCII)


def _has_phone(text: str) -> bool:
    """Tell whether a phone's number stands in `text`, with other signs in it than between two digits."""
    at = 0
    while (phone := first_in(_SPELLED_PHONE, text, at)) is not None:
        if _is_amount(text, phone.start()):
            at = phone.start() + 1
        # Digits of a phone number (ITU-T E.164).
        elif sum(map(str.isdigit, phone[0])) in range(8, 16):
            return True
        else:
            at = phone.end()
    return False


def _is_amount(text: str, at: int) -> bool:
    amount = _AMOUNT.match(text, at)
    return (
        amount is not None
        and _SPACE.match(text, run_end(_THOUSANDS, text, amount.end())) is not None
    )


def _has_iban(text: str) -> bool:
    """Tell whether an account's number stands in `text`, in small letters or cut up otherwise."""
    return any(_is_valid(found[0]) for found in found_in(_IBAN_LIKE, text))


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
    if not (("/" in text and "//" in text) or "\\" in text or first_in(_SCHEME, text)):
        return
    end = 0
    for mark in found_in(_ODD_MARK, text):
        begin, after = mark.start(), mark.end()
        if mark[0] == ":":
            begin -= len("http") if text[begin - 1] in "Pp" else len("https")
        if begin >= end and (found := _odd_end(text, after, has_scheme=mark[0] == ":")):
            end = found
            yield text[begin:end]


def _odd_end(text: str, at: int, *, has_scheme: bool) -> int:
    """Return where an odd link ends, from behind its mark on; 0 where it is none."""
    if not has_scheme:
        end = _host_end(text, at)
        return end if text.find(".", at, end) > 0 else 0
    if text.startswith("//", at) and text[at + 2 : at + 3] not in ("", "/", "\\"):
        return 0  # a plain one
    rest = run_end(_SLASHES, text, at)
    end = run_end(_ODD_REST, text, rest)
    return end if end > rest else 0


def _shown(text: str) -> str:
    text = from_html(text)
    if text.isascii():
        return text
    for dot in _DOTS:
        text = text.replace(dot, ".")
    return revealed(text)


def _mailboxes(text: str) -> Iterator[str]:
    for mark in found_in(_MAIL_HOST, text):
        at, end = mark.start(), _host_end(text, mark.start() + 1)
        before = text[max(0, at - _LONGEST_MAILBOX - 1) : at]
        mailbox = before[len(before) - _length(_MAILBOX_BACKWARDS, before) :].lstrip(_QUOTES)
        # A longer one is nobody's, and its end is somebody else's.
        if 0 < len(mailbox) <= _LONGEST_MAILBOX and text.find(".", at, end) > 0:
            yield mailbox + text[at:end]


def _urls(text: str) -> Iterator[str]:
    has_scheme = "/" in text and "://" in text
    marks = _WWW_MARK if first_in(_WWW, text) else _URL_MARK if has_scheme else _HOST_MARK
    at = token_end = last_at = 0
    search = marks.search if len(text) <= STEP else partial(first_in, marks)
    while (mark := search(text, at)) is not None:
        begin = _url_begin(text, at, mark)
        at = mark.end()
        if at > token_end:
            # Once for all the URLs of a token: else each of many would be searched to its end.
            token_end = run_end(_URL_END, text, at)
            last_at = text.rfind("@", at, token_end)
        at = _url_end(text, at, token_end, last_at)
        if begin is not None:
            yield text[begin:at].rstrip(_AFTER)


def _url_end(text: str, at: int, end: int, last_at: int) -> int:
    """Return where a URL ends of which the text up to `at` is known to be, in what ends at `end`.

    A quote ends it, if nothing after it could make of all before it the name of a user.
    """
    stop = first_in(_URL_STOPS, text, at, end)
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
    host = mark.start() - _length(_HOST, before)
    is_mail = host > 0 and text[host - 1] == "@"
    return None if is_mail or host == mark.start() else host


def _length(pattern: re.Pattern[str], before: str) -> int:
    """Return how many of the last characters of `before` fit `pattern`, which always matches."""
    found = pattern.match(before[::-1])
    return 0 if found is None else found.end()


def _accounts(text: str) -> Iterator[str]:
    for place in found_in(_ACCOUNT, text):
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
