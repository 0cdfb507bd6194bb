"""What an upstream's `WWW-Authenticate` says about getting in (RFC 9110 section 11.6.1, RFC 6750)."""

import re
from collections.abc import Iterable

from gateway.domain._value import value

_OCTET = r"[!#$%&'*+.^_`|~0-9A-Za-z-]"  # RFC 9110 section 5.6.2
_TOKEN = rf"(?<!{_OCTET}){_OCTET}++"
"""Tried once for each token, and taken whole: linear in the text."""
_PART = re.compile(
    rf'(?:(?P<name>{_TOKEN})[ \t]*+=[ \t]*+(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s,"]+))'
    rf"|(?P<scheme>{_TOKEN})(?=[ \t]|,|$))"
)
_ESCAPED = re.compile(r"\\(.)")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,128}")
"""RFC 6749 section 3.3; no honest one is longer."""
_MOST_SCOPES = 64
_LONGEST = 8192
"""Characters that are read. No honest one is longer."""


@value
class Challenge:
    """The members of a challenge that a client acts on; empty where it names none."""

    resource_metadata: str = ""
    """RFC 9728 section 5.1: a URL, on nobody's word but the upstream's."""
    scopes: tuple[str, ...] = ()
    error: str = ""


def read_challenge(text: str, scheme: str = "bearer") -> Challenge:
    """Return the first challenge of `scheme` in a `WWW-Authenticate`, or an empty one."""
    found: dict[str, str] = {}
    inside = False
    for part in _PART.finditer(text[:_LONGEST]):
        if part["scheme"] is not None:
            if inside:
                break
            inside = part["scheme"].lower() == scheme
        elif inside:
            plain = part["plain"]
            said = plain if plain is not None else _ESCAPED.sub(r"\1", part["quoted"])
            found.setdefault(part["name"].lower(), said)
    return Challenge(
        resource_metadata=found.get("resource_metadata", ""),
        scopes=scopes_in(found.get("scope", "").split()),
        error=found.get("error", ""),
    )


def scopes_in(said: Iterable[object]) -> tuple[str, ...]:
    """Return what of `said` are scopes, each once, in its order (RFC 6749 section 3.3)."""
    scopes = (one for one in said if isinstance(one, str) and _SCOPE.fullmatch(one))
    return tuple(dict.fromkeys(scopes))[:_MOST_SCOPES]
