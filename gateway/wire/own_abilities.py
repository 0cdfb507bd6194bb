"""What the client of a session of our own can do: its id says it, so that nothing has to be remembered.

It is sealed like any other (`gateway.wire.session`), so what it says is what the client declared when the
session began.
"""

from collections.abc import Mapping
from typing import Any, Final

from gateway.wire.own_session import SESSION

_ABILITIES: Final = {
    "e": ("elicitation", "form"),
    "u": ("elicitation", "url"),
    "s": ("sampling",),
    "c": ("sampling", "context"),
    "t": ("sampling", "tools"),
    "r": ("roots",),
}
"""Letter -> where in its capabilities a client declares the ability (MCP 2025-11-25, lifecycle)."""


def session_for(capabilities: Any, nonce: str, begun_at: float) -> str:
    """Return a session id that says what `capabilities` declare; `nonce` tells it from others.

    `begun_at` is in seconds since the epoch; `own_session.is_over` tells by it when the session has ended.
    """
    declared = capabilities if isinstance(capabilities, dict) else {}
    letters = [letter for letter, path in _ABILITIES.items() if _declares(declared, path)]
    elicitation = declared.get("elicitation")
    if elicitation == {}:
        letters.append("e")  # before there were modes, forms were all there was
    return f"{''.join(letters)}.{int(begun_at):x}.{nonce}"


def abilities_of(session: str | None) -> str:
    """Return the letters of what the client of `session` can do; none without a session."""
    found = None if session is None else SESSION.fullmatch(session)
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
