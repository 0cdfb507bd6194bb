"""Secrets that no issuer marks: drawn at random, and assigned to a name that says what they are."""

import math
import re
from collections import Counter
from typing import Any, Final

import re2

from gateway.flow.credentials import CREDENTIALS, KEY_LINE, is_example
from gateway.flow.signs import Found, Sign

_LEAST_BITS: Final = 3.3
"""Shannon entropy a character. English has 2.5 in words this short, random hexadecimal digits 3.6."""
_HEX_BITS: Final = 2.8
_SHORTEST: Final = 16
_NO_SECRET: Final[Any] = re2.compile(
    rb"(?i)(?:next|prev(?:ious)?|page|paging|pagination|continu\w*|cursor|sync|progress|resume|public|partition|primary"
    rb"|foreign|sort|cache|idempotency|max|min|num|total|count|prompt|completion|input|output|stop|eos|bos|pad"
    rb"|event|change|delta|skip|routing|hash|lookup|row|object|issue|project|tracking|ref|anon\w*|csrf|xsrf)[ _.-]*"
    rb"(?:tokens?|keys?|auth|credentials?)|author(?:s|ed|ing|ship|_?name)?\b|keyboard|keyword|monkey|token(?:s|_?(?:count|type|limit|usage|endpoint|url|uri|id))"
    rb"|(?:key|token|secret|credential)s?_?(?:id|name|path|type|length|size|url|host|file|ref|arn|version)"
)
"""Names that have such a word and name no secret: places in lists, counts, kinds."""
_SHAPED: Final[Any] = re2.compile(
    rb"[a-z]+(?:[_.-][a-z]+)*|[A-Z]+(?:[_.-][A-Z]+)*|(?:[A-Z][a-z]+)+|[\d.:-]+"
    rb"|\d{4}-\d\d-\d\dT.*|[\w-]+\.[a-z]{2,4}|[\w.-]+\.[a-z]{2,6}:\d+"
)
"""What people name things by, dates and files."""
_WORDED: Final[Any] = re2.compile(rb"[A-Za-z][A-Za-z0-9]*(?:[._:/-][A-Za-z0-9]+)+")
_FEW_DIGITS: Final = 3
"""In words and numbers that are joined: `jjwt-jackson-0.11`, `X25519.secret_length`."""

_NAME: Final = (
    r"(?:secret|token|api[_ -]?key|apikey|access[_ -]?key|account[_ -]?key|private[_ -]?key|signing[_ -]?key|encryption[_ -]?key"
    r"|master[_ -]?key|auth|credentials?|passw(?:or)?d|passphrase|passcode|pwd|[a-z0-9][_-](?:key|pass|pw)\b|bearer|webhook[_ -]?key|session[_ -]?key)"
)
_ASSIGNED: Final = r"(?:(?:=>|[?.|]{1,2}=|:{0,3}=|:{1,3}|,)[ \t]*|>\s*)"
_LINE: Final = (
    rf"((?i:[\w.-]{{0,40}}?{_NAME}[\w.-]{{0,24}}))[\\\"'`\]]{{0,3}}(?:[ \t]*string)?[ \t]*{_ASSIGNED}"
    r"(?:(?i:bearer|basic)[ ])?[\\\"'`]{0,3}([A-Za-z0-9+/_=.~!@#$%^&*|:-]{12,512})"
)


def bits(text: bytes) -> float:
    """Return the entropy of `text` a character, by how often it has each (Shannon)."""
    counts = Counter(text)
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in counts.values())


def _is_drawn(found: Found) -> bool:
    name, text = found[1], found[2].rstrip(b".,;:")
    if _NO_SECRET.search(name) or is_example(text) or _SHAPED.fullmatch(text):
        return False
    if len(text) < _SHORTEST or b"://" in text or not re.search(rb"\d", text):
        return False
    if _WORDED.fullmatch(text) and len(re.findall(rb"\d", text)) <= _FEW_DIGITS:
        return False
    is_hex = re.fullmatch(rb"[0-9a-fA-F-]+", text) is not None
    return bits(text) >= (_HEX_BITS if is_hex else _LEAST_BITS)


def _is_typed(found: Found) -> bool:
    return not found[1].startswith((b"<", b"{", b"%", b"*", b"xxx"))


_KEY_BLOCK: Final = re2.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-[^-])*"
    rb"(?:-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----)?"
)
"""To its last line: what is masked is all of it."""


def _whole(sign: Sign) -> Sign:
    if sign.of != "private_key":
        return sign
    return Sign(trigger=sign.trigger, pattern=_KEY_BLOCK, is_real=_has_key_lines, of="private_key")


def _has_key_lines(found: Found) -> bool:
    return KEY_LINE.search(found[0]) is not None


SECRETS: Final[tuple[Sign, ...]] = (
    *map(_whole, CREDENTIALS),
    Sign(
        trigger=rf"(?i){_NAME}[\w.-]{{0,24}}[\\\"'`\]]{{0,3}}(?:[ \t]*string)?[ \t]*[=:?.|,>]",
        pattern=re2.compile(_LINE.encode()),
        is_real=_is_drawn,
        of="secret",
        part=2,
    ),
    Sign(
        trigger=r"\s(?:-u|--user|--proxy-user)[ =]",
        pattern=re2.compile(
            rb"\b(?:curl|wget|http)\b[^\n]{0,300}?\s(?:-u|--user|--proxy-user)[ =]*[\"']?[^\s:\"'$]{1,64}:([^\s\"'$]{4,128})"
        ),
        is_real=_is_typed,
        of="password",
        part=1,
    ),
)
"""Those of issuers, and `secret`: random by its letters, a secret by its name."""
