"""Payment cards and bank accounts: by their issuers' numbers and check digits, or by what stands beside them."""

import re
from typing import Final

import re2
from stdnum import iban, luhn

from gateway.flow.signs import Found, Sign

_NO_DIGIT: Final = re.compile(rb"\D")
_CARD_LENGTHS: Final = range(12, 20)
_IIN: Final = re.compile(
    rb"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}"
    rb"|3[47]\d{13}|6(?:011|4[4-9]\d|5\d\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}|3(?:0[0-5]|[689]\d)\d{11,13}"
    rb"|62\d{14,17}|220[0-4]\d{12}|9792\d{12}|8[12]\d{14}|(?:2131|1800)\d{11}"
)
"""Issuer identification numbers with the lengths that their cards have (ISO/IEC 7812)."""
_NAMED: Final = (
    "(?i:\\b(?:(?:credit|debit|bank|payment)[ _-]?card|card|cc|visa|master[ _-]?card|amex|american express"
    "|maestro|jcb|diners|unionpay)\\b)"
)


def _is_card(found: Found) -> bool:
    """Check the issuer's number and the check digit (ISO/IEC 7812-1, annex B)."""
    digits = _NO_DIGIT.sub(b"", found[1])
    return _IIN.fullmatch(digits) is not None and _has_check_digit(digits)


def _is_named_card(found: Found) -> bool:
    digits = _NO_DIGIT.sub(b"", found[1])
    return len(digits) in _CARD_LENGTHS and _has_check_digit(digits)


def _has_check_digit(digits: bytes) -> bool:
    return len(set(digits)) > 1 and bool(luhn.is_valid(digits.decode()))


def _is_iban(found: Found) -> bool:
    """Check the digits and the country's form (ISO 13616)."""
    return bool(iban.is_valid(found[1].decode("ascii", "replace")))


_EDGE: Final = rb"(?:^|[^\w.,+/-])"

ACCOUNTS: Final[tuple[Sign, ...]] = (
    Sign(
        trigger=r"(?i)\b[a-z]{2}\d{2}[ -]?[a-z0-9]{2}",
        pattern=re2.compile(
            rb"(?i)\b([a-z]{2}\d{2}(?:[a-z0-9]{11,30}|(?:[ -][a-z0-9]{4}){2,7}(?:[ -][a-z0-9]{1,3})?))\b"
        ),
        is_real=_is_iban,
        of="iban",
        part=1,
    ),
    Sign(
        trigger=r"\d(?:[ -]?\d){12}",
        pattern=re2.compile(
            _EDGE + rb"(\d{13,19}|\d{4}[ -]\d{4}[ -]\d{4}[ -]\d{4}(?:[ -]\d{3})?|\d{4}[ -]\d{6}[ -]\d{4,5})\b"
        ),
        is_real=_is_card,
        of="card",
        part=1,
    ),
    Sign(
        trigger=_NAMED,
        pattern=re2.compile(_NAMED.encode() + rb"[^\n0-9]{0,24}\b(\d(?:[ -]?\d){11,18})\b"),
        is_real=_is_named_card,
        of="card",
        part=1,
    ),
)  # fmt: skip
