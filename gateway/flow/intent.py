"""Whether the user's words ask for what a tool does. English; other words ask for nothing.

It proves nothing by itself. It tells a call that the task is about from one that it is not: an
attacker can choose whom a call goes to, and cannot change what the user wrote before.
"""

import re
from collections.abc import Iterable

from gateway.domain.bounded import digest_of, remembered
from gateway.domain.labels import Effect
from gateway.flow.words import words_of

_WORD = re.compile(r"[a-z]+")
_LONGEST_PROMPT = 32 * 1024
_MOST_PROMPTS = 64
_MOST_TOOLS = 1024
_OCTETS = 4 * 1024**2
_WORD_OCTETS = 100
"""Bytes that a word of a set takes beside its letters."""
_SHORTEST_STEM = 3

_FAMILIES = tuple(
    frozenset(words.split())
    for words in (
        "delete remove erase trash discard clear clean drop purge wipe cancel revoke unshare destroy",
        "send forward reply respond share invite notify post publish submit upload announce deliver",
        "pay refund transfer wire reimburse settle buy purchase order remit donate",
        "create add make schedule book reserve set put plan organize organise register open write",
        "update change modify adjust edit reset move reschedule correct rename replace set append",
        "get read open visit browse fetch download look check see view summarize summarise",
    )
)
"""Verbs that ask for the same; a verb may stand in more than one."""

_THINGS = {
    Effect.EGRESS: frozenset(["email", "mail", "message", "invitation", "reply", "post"]),
    Effect.PAY: frozenset(
        ["payment", "bill", "invoice", "rent", "money", "fee", "price", "transaction", "order"]
    ),
}
"""Nouns that, where an effect is not to be told from the verb alone, speak of it too."""


def speaks_of(prompt: str, tool: str, effect: Effect) -> bool:
    """Tell whether `prompt` has a word that asks for what `tool` does.

    That is a form of its verb or of one that means the same, or a noun that its effect is known by;
    for a tool that only reads also the name of what it reads.
    """
    said = _stems(prompt[:_LONGEST_PROMPT])
    verb, things = _parts(tool)
    asking = _stemmed(_asking(verb) | _THINGS.get(effect, _NONE))
    return not said.isdisjoint(asking | things if effect is Effect.READ else asking)


def orders(prompt: str, tool: str) -> bool:
    """Tell whether `prompt` tells somebody to do what `tool` does, and to what.

    This is more than `speaks_of`: "who was invited by an email" speaks of mail and orders none.
    """
    words = _words(prompt[:_LONGEST_PROMPT])
    verb, things = _parts(tool)
    return not words.isdisjoint(_asking(verb)) and (
        not things or not _stemmed(words).isdisjoint(things)
    )


_NONE: frozenset[str] = frozenset()


def _name(prompt: str, /) -> bytes:
    return digest_of(prompt)


def _weight(words: frozenset[str]) -> int:
    return sum(_WORD_OCTETS + len(word) for word in words)


def _weight_of_parts(parts: tuple[str, frozenset[str]]) -> int:
    return len(parts[0]) + _weight(parts[1])


@remembered(most=_MOST_PROMPTS, octets=_OCTETS, key=_name, weigh=_weight)
def _words(prompt: str, /) -> frozenset[str]:
    return frozenset(_WORD.findall(prompt.lower()))


@remembered(most=_MOST_PROMPTS, octets=_OCTETS, key=_name, weigh=_weight)
def _stems(prompt: str, /) -> frozenset[str]:
    return _stemmed(_words(prompt))


@remembered(most=_MOST_TOOLS, octets=_OCTETS, key=_name, weigh=_weight_of_parts)
def _parts(tool: str, /) -> tuple[str, frozenset[str]]:
    """Return the verb that a tool's name begins with, and the stems of its other words."""
    verb, *things = words_of(tool) or ("",)
    return verb, _stemmed(word for word in things if len(word) >= _SHORTEST_STEM)


@remembered(most=_MOST_TOOLS, octets=_OCTETS, key=_name, weigh=_weight)
def _asking(verb: str, /) -> frozenset[str]:
    return frozenset({verb}.union(*(family for family in _FAMILIES if verb in family)))


def _stemmed(words: Iterable[str]) -> frozenset[str]:
    return frozenset(_stem(word) for word in words)


def _stem(word: str) -> str:
    """Return what the forms of a regular English word have in common."""
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word
