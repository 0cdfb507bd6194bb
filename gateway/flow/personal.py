"""Personal data, by the forms and check digits that their issuers publish."""

import re

import re2

from gateway.flow.signs import Found, Sign

_FEWEST_CONTACTS = 3
"""Different addresses and telephone numbers; one or two are a signature."""

_LENGTHS_OF_IBAN = range(15, 35)
_DIGITS = re.compile(rb"\D")

_IIN = re.compile(
    rb"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}"
    rb"|3[47]\d{13}|6(?:011|4[4-9]\d|5\d\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}"
)
"""Issuer numbers with the lengths that their cards have (ISO/IEC 7812)."""


def _is_iban(found: Found) -> bool:
    """Check the digits of ISO 13616: the whole number is 1 modulo 97."""
    text = found[0].replace(b" ", b"").decode()
    if len(text) not in _LENGTHS_OF_IBAN:
        return False
    return int("".join(str(int(c, 36)) for c in text[4:] + text[:4])) % 97 == 1


def _is_card(found: Found) -> bool:
    """Check the issuer's number and the check digit (ISO/IEC 7812-1, annex B)."""
    digits = _DIGITS.sub(b"", found[1])
    if _IIN.fullmatch(digits) is None or len(set(digits)) <= 2:  # noqa: PLR2004 - 4444 ...
        return False
    doubled = [(c - 48) * (1 + place % 2) for place, c in enumerate(reversed(digits))]
    return sum(d - 9 if d > 9 else d for d in doubled) % 10 == 0  # noqa: PLR2004 - a digit


PERSONAL: tuple[Sign, ...] = (
    Sign(
        trigger=r"\b[A-Z]{2}\d{2} ?[A-Z0-9]{4} ?[A-Z0-9]{4}",
        pattern=re2.compile(
            rb"\b[A-Z]{2}\d{2}(?:[A-Z0-9]{11,30}|(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,3})?)\b"
        ),
        is_real=_is_iban,
    ),
    Sign(
        trigger=r"\d{4}[ -]?\d{4}[ -]?\d{4}|\b3\d{3}[ -]?\d{6}[ -]?\d{4,5}\b",
        pattern=re2.compile(
            rb"(?:^|[^\w.,+/-])(\d{13,19}|\d{4}[ -]\d{4}[ -]\d{4}[ -]\d{4}|\d{4}[ -]\d{6}[ -]\d{4,5})\b"
        ),
        is_real=_is_card,
    ),
    Sign(
        trigger=r"\b\d{3}-\d{2}-\d{4}\b",
        pattern=re2.compile(
            rb"\b(?:00[1-9]|0[1-9]\d|[1-578]\d\d|6[0-57-9]\d|66[0-57-9])-(?:0[1-9]|[1-9]\d)"
            rb"-(?:000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})\b"
        ),
    ),
    Sign(
        trigger=r"@[A-Za-z0-9-]{1,63}[.]|\+\d{1,3}[ .-]?\(?\d|\(\d{3}\) ?\d{3}-|\b\d{3}-\d{3}-\d{4}\b",
        pattern=re2.compile(
            rb"[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,4}"
            rb"|\+\d{1,3}[ .-]?\(?\d{1,4}\)?(?:[ .-]?\d{2,4}){2,4}\b"
            rb"|\(\d{3}\) ?\d{3}-\d{4}\b|\b\d{3}-\d{3}-\d{4}\b"
        ),
        fewest=_FEWEST_CONTACTS,
    ),
)
"""Bank accounts, payment cards, social security numbers of the US, and lists of contacts."""
