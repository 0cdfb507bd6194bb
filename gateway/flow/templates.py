"""Resource templates (RFC 6570): whether a URI is an expansion of one, and of what.

What a server fixes in a template, and a person has approved, is a name; what a caller puts into it
is an argument. That holds as long as nothing the caller puts in can say which host is meant.
"""

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

import re2

from gateway.domain.bounded import digest_of, remembered
from gateway.domain.tools import MOST_EXPRESSIONS

_EXPRESSION: Final = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")
_PATTERNS: Final = {
    "": r"([^/?#]*)",
    "+": r"(.*)",
    "#": r"((?:#.*)?)",
    ".": r"((?:\.[^/?#]*)?)",
    "/": r"((?:/[^?#]*)?)",
    ";": r"((?:;[^/?#]*)?)",
    "?": r"((?:\?[^#]*)?)",
    "&": r"((?:&[^#]*)?)",
}
_REACHES: Final = re.compile(
    r"(?:https?|wss?|ftps?|sftp|ssh|git|smb|nfs|ldaps?|file|imaps?|smtps?|gopher|telnet|rtsp|redis"
    r"|data|dict|tftp|jar|s3|gs|mailto|javascript)(?:\+[a-z]+)?:",
    re.IGNORECASE,
)
"""Schemes that reach somebody else than the server that is asked. Others are its own words."""
_FIXED: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/?#{}]*[/?#]|(?!//)[^{}])")
"""A scheme and an authority that end before anything is put in."""
_OWN_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_LONGEST: Final = 8192
_MOST_WORK: Final = 1_000_000
"""Characters of a URI times instructions of its template's pattern: some ten milliseconds at the very
worst, where each character could be each of a literal that repeats one. Three expressions are some 50."""
_INSTRUCTIONS, _MADE_OF_EACH, _MADE = 8, 5_000, 90
"""Of an expression in a pattern; what it and a character take of making that. Of 16 it is made in 0.7 ms."""
_MOST_PATTERNS: Final = 1024
_OCTETS: Final = 16 * 1024**2
_COMPILED: Final = 4 * 1024
_A_CHARACTER: Final = 64
"""Bytes of a compiled pattern, by itself and for each character of it."""


def filled_in(template: str, uri: str) -> tuple[str, ...] | None:
    """Return what was put into `template` to get `uri`, decoded; `None` if it is none of its own.

    It is none either if what was put in may say which host is meant, or if telling it may take long.
    """
    pattern: Any = _compiled(template) if work_of(template, uri) else None
    is_quick = pattern is not None and len(uri) * pattern.programsize <= _MOST_WORK
    found = pattern.fullmatch(uri) if is_quick else None
    return None if found is None else tuple(unquote(one) for one in found.groups() if one)


def work_of(template: str, uri: str) -> int:
    """Return how much work `filled_in` may be, in characters compared; nothing where it is told at once.

    Told without the pattern, for to make one that is not remembered is most of the work.
    """
    # Told first, for it is quick: most templates are others'.
    if len(uri) > _LONGEST or not uri.startswith(template.partition("{")[0]):
        return 0
    of_one, letters = _INSTRUCTIONS * len(uri) + _MADE_OF_EACH, len(template)
    return (len(uri) + _MADE) * letters + of_one * template.count("{")


def names_in(template: str) -> Iterator[str]:
    """Yield the names of what can be put into `template`."""
    for expression in _EXPRESSION.finditer(template):
        for name in expression[2].split(","):
            yield name.partition(":")[0].rstrip("*")


def _name(template: str) -> bytes:
    return digest_of(template)


def _weight(pattern: Any) -> int:
    return _COMPILED + _A_CHARACTER * len(pattern.pattern)


@remembered(most=_MOST_PATTERNS, octets=_OCTETS, key=_name, weigh=_weight)
def _compiled(template: str) -> Any:
    needed = _FIXED if _REACHES.match(template) else _OWN_SCHEME
    if len(template) > _LONGEST or needed.match(template) is None:
        return None
    if template.count("{") > MOST_EXPRESSIONS:
        return None
    parts, at = [], 0
    for expression in _EXPRESSION.finditer(template):
        parts += [re2.escape(template[at : expression.start()]), _PATTERNS[expression[1]]]
        at = expression.end()
    parts.append(re2.escape(template[at:]))
    try:
        return re2.compile("".join(parts))
    except re2.error:
        return None
