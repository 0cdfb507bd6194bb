"""Secrets that give access, by the forms that their issuers publish."""

import binascii
import re

import orjson
import re2

from gateway.flow.signs import Found, Sign

_FEWEST_DIFFERENT = 8
_MIXED = 16
"""Different characters in the random part of a real key: `xxxxxxxx` is an example."""

_EXAMPLE = re.compile(
    rb"example|sample|placeholder|your[_-]|my[_-]?(?:password|secret|key)|changeme|redacted|dummy"
    rb"|x{4}|\*{3}|\.{3}|0{8}|1234567890|abcdefgh",
    re.IGNORECASE,
)
_KEY_LINE = re.compile(rb"[A-Za-z0-9+/]{40}")
_SYMBOLS = b"!@#$%^&*+=~?"
_REFERENCE = (b"$", b"<", b"{", b"[", b"(", b"%", b"env:", b"file:", b"vault:", b"op:")
"""How a value begins that only says where the secret is."""


def _is_random(found: Found) -> bool:
    text: bytes = found[0]
    return len(set(text)) >= _FEWEST_DIFFERENT and _EXAMPLE.search(text) is None


def _is_key_text(found: Found) -> bool:
    """Tell whether key material follows the first line of a PEM block; documents quote the line."""
    return _KEY_LINE.search(found[1]) is not None


def _is_jwt(found: Found) -> bool:
    head: bytes = found[1]
    try:
        header = orjson.loads(
            binascii.a2b_base64(head.translate(_URL_SAFE) + b"=" * (-len(head) % 4))
        )
    except (binascii.Error, ValueError):
        return False
    return isinstance(header, dict) and isinstance(header.get("alg"), str)


_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def _is_password(found: Found) -> bool:
    """Tell whether what is assigned looks made up by nobody but its owner.

    A word alone is as likely to be prose ("password: required"), so a digit or a symbol is wanted.
    """
    text: bytes = found[1].rstrip(b".,;:!?)]}")
    if len(text) < 6 or text.startswith(_REFERENCE) or _EXAMPLE.search(text):  # noqa: PLR2004
        return False
    if b"://" in text:
        return False  # where to change it
    has_letter = re.search(rb"[A-Za-z]", text) is not None
    has_more = re.search(rb"\d", text) is not None or any(c in _SYMBOLS for c in text)
    return has_letter and has_more and b"(" not in text


def _is_in_url(found: Found) -> bool:
    password: bytes = found[1]
    return (
        not password.startswith(_REFERENCE)
        and _EXAMPLE.search(password) is None
        and password.lower() not in (b"password", b"pass", b"passwd", b"pwd", b"secret", b"user")
    )


def _prefixed(trigger: str, pattern: str) -> Sign:
    expression = re2.compile(rf"\b(?:{pattern})".encode())
    return Sign(trigger=trigger, pattern=expression, is_real=_is_random)


CREDENTIALS: tuple[Sign, ...] = (
    Sign(
        trigger=r"PRIVATE KEY",
        pattern=re2.compile(
            rb"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----((?s:.){0,400})"
        ),
        is_real=_is_key_text,
    ),
    _prefixed("PuTTY-User-Key", r"PuTTY-User-Key-File-[23]: [a-z0-9-]+"),
    _prefixed("AGE-SECRET-KEY", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    _prefixed("(?:AKIA|ASIA)[A-Z2-7]", r"(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
    _prefixed("gh[pousr]_", r"gh[pousr]_[A-Za-z0-9]{36,255}\b"),
    _prefixed("github_pat_", r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}\b"),
    _prefixed("glpat-", r"glpat-[A-Za-z0-9_-]{20,}"),
    _prefixed("xox[abeoprs]-|xapp-", r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{24,}"),
    _prefixed("hooks[.]slack", r"hooks\.slack\.com/services/T\w{6,}/B\w{6,}/[A-Za-z0-9]{20,}"),
    _prefixed("AIza", r"AIza[0-9A-Za-z_-]{35}"),
    _prefixed("GOCSPX-", r"GOCSPX-[A-Za-z0-9_-]{28}"),
    _prefixed(r"ya29[.]", r"ya29\.[A-Za-z0-9_-]{30,}"),
    _prefixed("[rs]k_(?:live|test)_", r"[rs]k_(?:live|test)_[0-9a-zA-Z]{20,}"),
    _prefixed("whsec_", r"whsec_[A-Za-z0-9+/]{32,}"),
    _prefixed("sk-", r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,}"),
    _prefixed("T3BlbkFJ", r"sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}\b"),
    _prefixed("sk-ant-", r"sk-ant-[a-z]{3,5}\d\d-[A-Za-z0-9_-]{80,}"),
    _prefixed("hf_", r"hf_[A-Za-z0-9]{34}\b"),
    _prefixed("npm_", r"npm_[A-Za-z0-9]{36}\b"),
    _prefixed("pypi-Ag", r"pypi-AgE[A-Za-z0-9_-]{50,}"),
    _prefixed(r"SG[.]", r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    _prefixed("do[opr]_v1_", r"do[opr]_v1_[a-f0-9]{64}\b"),
    _prefixed("shp(?:at|ca|pa|ss)_", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b"),
    _prefixed("hvs[.]", r"hvs\.[A-Za-z0-9_-]{24,}"),
    _prefixed(":AA[A-Za-z0-9_-]{4}", r"\d{8,10}:AA[A-Za-z0-9_-]{33}\b"),
    _prefixed("AccountKey=", r"AccountKey=[A-Za-z0-9+/]{86}=="),
    Sign(
        trigger=r"eyJ[A-Za-z0-9_-]{8,}[.]eyJ",
        pattern=re2.compile(rb"\b(eyJ[A-Za-z0-9_-]{8,})\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,}"),
        is_real=_is_jwt,
    ),
    Sign(
        trigger=(
            r"(?i)(?:passw(?:or)?d|passphrase|pwd|api[_ -]?key|secret[_ -]?(?:access[_ -]?)?key"
            r"|(?:access|auth|refresh|bot)[_ -]?token|client[_ -]?secret)[\\\"']{0,2}(?:\s*[:=]|\s+is\b)"
        ),
        pattern=re2.compile(
            rb"(?i)(?:passw(?:or)?d|passphrase|pwd|api[_ -]?key|secret[_ -]?(?:access[_ -]?)?key"
            rb"|(?:access|auth|refresh|bot)[_ -]?token|client[_ -]?secret)"
            rb"[\\\"']{0,2}(?:\s*[:=]+\s*|\s+is:?\s+)[\\\"'`]{0,2}([^\s\\\"'`<>,]{6,})"
        ),
        is_real=_is_password,
    ),
    Sign(
        trigger=r"://[^\s/:@]{1,64}:[^\s/@]{3,}@",
        pattern=re2.compile(
            rb"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"']{1,64}:([^\s/@\"']{3,128})@[A-Za-z0-9\[]"
        ),
        is_real=_is_in_url,
    ),
)
"""Keys, tokens and passwords. A form that ordinary texts have too is none of them."""


def _is_drawn(found: Found) -> bool:
    """Tell whether letters of both cases and digits are mixed, as they are in what was drawn."""
    text: bytes = found[1]
    kinds = (rb"[a-z]", rb"[A-Z]", rb"[0-9]")
    return len(set(text)) >= _MIXED and all(re.search(kind, text) for kind in kinds)


def _has_digit(found: Found) -> bool:
    return re.search(rb"\d", found[1]) is not None


SHOWN_ONCE: tuple[Sign, ...] = (
    Sign(
        trigger=r"(?i)\b(?:bearer|basic|negotiate)\s+[A-Za-z0-9+/_.~=-]{12}",
        pattern=re2.compile(rb"(?i)\b(?:bearer|basic|negotiate)\s+([A-Za-z0-9+/_.~=-]{12,})"),
        is_real=_has_digit,
    ),
    Sign(
        trigger=r"(?i)(?:cookie|authorization|x-api-key|proxy-authorization)\\?[\"']?\s*:",
        pattern=re2.compile(
            rb"(?i)\b(?:set-cookie|cookie|authorization|x-api-key)\\?[\"']?\s*:\s*[\"']?([^\r\n\"']{6,})"
        ),
    ),
    Sign(
        trigger=r"(?i)[?&#\s](?:code|code_verifier|id_token|assertion|client_assertion|sig|signature"
        r"|token|key|apikey|session|ticket)=[^&\s]{8}",
        pattern=re2.compile(
            rb"(?i)[?&#\s](?:code|code_verifier|id_token|assertion|client_assertion|sig|signature"
            rb"|token|key|apikey|session|ticket)=([^&\s\"'<>]{8,})"
        ),
        is_real=_has_digit,
    ),
    Sign(
        trigger=r"(?:^|[^A-Za-z0-9_-])[A-Za-z0-9_-]{43}(?:[^A-Za-z0-9_-]|$)",
        pattern=re2.compile(rb"(?:^|[^A-Za-z0-9_-])([A-Za-z0-9_-]{43})(?:[^A-Za-z0-9_-]|$)"),
        is_real=_is_drawn,
    ),
)
"""What stands in headers and addresses of one request, and our own secrets: 256 bits in base64url."""
