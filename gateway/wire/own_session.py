"""Sessions of our own: the id says what its client can do, so that nothing has to be remembered.

It is sealed like any other (`gateway.wire.session`), so what it says is what the client declared when the
session began.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from gateway.domain.selection import Choices, Selection

LONGEST_S: Final = 30 * 24 * 3600.0
"""For how long a session can be used: so long those that were ended have to be remembered."""

_ABILITIES: Final = {
    "e": ("elicitation", "form"),
    "u": ("elicitation", "url"),
    "s": ("sampling",),
    "c": ("sampling", "context"),
    "t": ("sampling", "tools"),
    "r": ("roots",),
}
"""Letter -> where in its capabilities a client declares the ability (MCP 2025-11-25, lifecycle)."""
_SESSION: Final = re.compile(r"([a-z]*)\.(?:([0-9a-f]{1,12})\.)?[\x21-\x7e]+")

_CHOSEN: Final = re.compile(r"[a-z]*\.[0-9a-f]{1,12}\.([0-9]{1,12})~", re.ASCII)


def session_for(capabilities: Any, nonce: str, begun_at: float) -> str:
    """Return a session id that says what `capabilities` declare; `nonce` tells it from others.

    `begun_at` is in seconds since the epoch; `is_over` tells by it when the session has ended.
    """
    declared = capabilities if isinstance(capabilities, dict) else {}
    letters = [letter for letter, path in _ABILITIES.items() if _declares(declared, path)]
    elicitation = declared.get("elicitation")
    if elicitation == {}:
        letters.append("e")  # before there were modes, forms were all there was
    return f"{''.join(letters)}.{int(begun_at):x}.{nonce}"


def nonce_after(chosen: int, nonce: str) -> str:
    """Return a nonce that says that the principal's choice number `chosen` is in force."""
    return f"{chosen}~{nonce}"


def chosen_before(session: str) -> int:
    """Return the number of the last choice that was made before `session` began; 0 for none."""
    found = _CHOSEN.match(session)
    return 0 if found is None else int(found[1])


def chosen_in(choices: Choices, session: str | None, run: str) -> Selection:
    """Return what a conversation sees: a `session`, or without one what there is of a `run`."""
    if session is None:
        return choices.within(run)
    return choices.since(chosen_before(session), session)


def is_over(session: str, now: float) -> bool:
    """Whether `session` has lasted too long by `now`, or does not say since when it lasts."""
    found = _SESSION.fullmatch(session)
    return found is None or found[2] is None or int(found[2], 16) + LONGEST_S <= now


def abilities_of(session: str | None) -> str:
    """Return the letters of what the client of `session` can do; none without a session."""
    found = None if session is None else _SESSION.fullmatch(session)
    return "" if found is None else "".join(c for c in found[1] if c in _ABILITIES)


def capabilities_of(abilities: str) -> Mapping[str, Any]:
    """Return capabilities that declare `abilities`, and nothing else."""
    declared: dict[str, dict[str, Any]] = {}
    for letter in abilities:
        name, *rest = _ABILITIES[letter]
        settings = declared.setdefault(name, {})
        settings.update({setting: {} for setting in rest})
    return declared


def can_answer(abilities: str, method: str, params: Mapping[str, Any]) -> bool:
    """Whether a client with `abilities` can be asked `method` by a server."""
    match method:
        case "elicitation/create":
            return ("u" if params.get("mode") == "url" else "e") in abilities
        case "sampling/createMessage":
            return "s" in abilities
        case "roots/list":
            return "r" in abilities
        case _:
            return False


def _declares(capabilities: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    node: Any = capabilities
    for name in path:
        node = node.get(name) if isinstance(node, dict) else None
    return isinstance(node, dict)
