"""Whether an address or a URL belongs to us. Strict: what is not plainly ours is not ours."""

import re
from functools import lru_cache

from gateway.domain.labels import Tenant

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = rf"(?P<host>{_LABEL}(?:\.{_LABEL})+)"

_EMAIL = re.compile(rf"[A-Za-z0-9_](?:[.+'-]?[A-Za-z0-9_])*@{_HOST}", re.ASCII)
"""A part of RFC 5321's mailboxes: no quoting, and no `%` or `!`, which relays take for routes."""

_URL = re.compile(rf"https?://{_HOST}(?::[0-9]{{1,5}})?(?:[/?#][!#-;=?-\[\]_a-z~]*)?", re.ASCII)
"""A part of RFC 3986's URLs: no user information, no backslash, no white space, ASCII only."""

_LONGEST = 2048


def is_ours(text: str, tenant: Tenant) -> bool:
    """Tell whether `text` is known to be ours.

    It is one of the tenant's own addresses, members or channels, letter for letter; or an e-mail
    address or http(s) URL whose host is one of the tenant's domains or below one.
    """
    if text in tenant.self_ or text in tenant.members or text in tenant.channels:
        return True
    if len(text) > _LONGEST or not tenant.domains:
        return False
    found = _EMAIL.fullmatch(text) or _URL.fullmatch(text)
    return found is not None and _is_below(found["host"].lower(), tenant.domains)


def _is_below(host: str, domains: frozenset[str]) -> bool:
    ours = _lower_case(domains)
    while "." in host:
        if host in ours:
            return True
        host = host.partition(".")[2]
    return False


@lru_cache(maxsize=16)
def _lower_case(domains: frozenset[str]) -> frozenset[str]:
    return frozenset(domain.lower() for domain in domains)
