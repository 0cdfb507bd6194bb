"""The classes of data that are looked for, and the groups that policy may speak of."""

from collections.abc import Mapping
from typing import Final

from gateway.dlp.accounts import ACCOUNTS
from gateway.dlp.contacts import CONTACTS
from gateway.dlp.national import NATIONAL
from gateway.dlp.secrets import SECRETS
from gateway.flow.signs import Sign

_OF_GROUP: Final = {
    "private_key": "credential",
    "api_key": "credential",
    "jwt": "credential",
    "url_password": "credential",
    "secret": "password",
    "password": "password",
    "card": "card",
    "iban": "iban",
    "email": "contact",
    "phone": "contact",
}

SIGNS: Final[tuple[Sign, ...]] = (
    *SECRETS,
    *ACCOUNTS,
    *NATIONAL,
    *CONTACTS,
)
"""In the order of precedence where two are at one place."""

GROUPS: Final[Mapping[str, str]] = {
    sign.of: _OF_GROUP.get(sign.of, "national_id") for sign in SIGNS
}
"""Group of each class: `credential`, `password`, `card`, `iban`, `national_id`, `contact`; `own` of an operator's."""
