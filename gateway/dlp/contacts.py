"""Ways to reach a person: addresses of mail, and telephone numbers as they are written internationally."""

from typing import Final

import phonenumbers
import re2

from gateway.flow.signs import Found, Sign

_NAMED: Final = "(?i:\\b(?:phone|telephone|tel|mobile|cell|fax|desk|office|whatsapp|signal|sms|call(?: (?:me|us|him|her|them))?)\\b)"
_REGIONS: Final = ("US", "GB", "DE", "FR", "IT", "ES", "NL", "CH", "SE", "AU", "IN", "BR")
"""Whose national form is tried where a word says that it is a telephone's."""


def _is_phone(found: Found) -> bool:
    return _is_number(found[1].decode("ascii", "replace"), None)


def _is_named_phone(found: Found) -> bool:
    return any(_is_number(found[1].decode("ascii", "replace"), region) for region in _REGIONS)


def _is_number(text: str, region: str | None) -> bool:
    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(text, region))
    except phonenumbers.NumberParseException:
        return False


CONTACTS: Final[tuple[Sign, ...]] = (
    Sign(
        trigger=r"@[A-Za-z0-9-]{1,63}[.][A-Za-z]",
        pattern=re2.compile(
            rb"[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,4}[A-Za-z]{2,24}\b"
        ),
        of="email",
    ),
    Sign(
        trigger=r"\+[1-9]\d{0,2}[ .()-]{0,2}\d|\b00[1-9]\d{0,2}[ ]",
        pattern=re2.compile(rb"(?:^|[^\w+.])((?:\+|00)[1-9](?:[ .()/-]{0,2}\d){7,14})\b"),
        is_real=_is_phone,
        of="phone",
        part=1,
    ),
    Sign(
        trigger=_NAMED,
        pattern=re2.compile(
            (
                _NAMED + r"[^0-9A-Za-z(+]{0,4}(?:(?:no|number|nr|on|at)\b[^0-9A-Za-z(+]{0,3})?"
            ).encode()
            + rb"(\(?\d(?:[ .()-]{0,2}\d){7,11})\b"
        ),
        is_real=_is_named_phone,
        of="phone",
        part=1,
    ),
)
"""Telephone numbers are held to the plans of their countries (libphonenumber's data)."""
