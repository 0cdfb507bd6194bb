"""What the user's words order: the words that stand where an order begins.

"Her record" orders nothing to be recorded. The few verbs by which people ask to find something out are known
here; of the many by which they ask for a deed most are not. So words that order anything else are not known to
ask for nothing.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from unicodedata import combining

from gateway.domain.labels import Effect
from gateway.domain.normal import normal
from gateway.flow.asking import ALIKE, BESIDE_ORDERS, FINDING_OUT
from gateway.flow.heard import heard
from gateway.flow.words import VERBS, VERBS_OR_NOUNS

SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n")
TELLS = re.compile(
    r"\?|\b(?:is|are|was|were|been|has|have|had|did|does|will|would|can|could|should)\b"
)
"""What a question has, or a sentence that tells of something."""
_OF_YOU = re.compile(r"\b(?:can|could|would|will) you\b")
"""What asks somebody to do something."""
_WORD_OR_STOP = re.compile(r"[a-z]+|[.,;:!-]")
_BEFORE = frozenset(
    [*".,;:!-", "and", "then", "please", "or", "you", "just", "also", "kindly", "now"]
)
"""What stands before an order."""
_WANTING = frozenset(["want", "like", "need", "have", "got", "remember", "forget", "try", "going"])
"""After which "to" does as well."""

_LISTING = frozenset([*",:-", "and", "or"])
"""What may stand before one more thing as well."""
_AFTER_THINGS = frozenset(
    """
    . , ; : ! - and or from of for in on at about with by today tomorrow tonight yesterday
    """.split()  # noqa: SIM905 - a table of words
)
"""What stands behind a thing, and behind few deeds: most are done to something that follows."""
_DEEDS = frozenset([*VERBS, *ALIKE.split()])


def plain(text: str) -> str:
    """Return `text` in lower case and without accents."""
    return "".join(c for c in normal("NFKD", text.casefold()) if not combining(c))


@heard
def ordered(prompt: str) -> frozenset[str]:
    """Return the words of `prompt`, in lower case, that stand where an order begins."""
    return frozenset(word for one in _orders(prompt) for _, word, _ in _leading(one))


@heard
def orders_acts(prompt: str) -> bool:
    """Tell whether `prompt` orders anything but to find something out.

    One more of the things that it lists, or whoever is spoken to, is no deed: "from Bob and Anna".
    """
    return any(_orders_act(*each) for one in _orders(prompt) for each in _leading(one))


def _orders(prompt: str) -> Iterator[str]:
    """Yield the sentences of `prompt` that may order something."""
    return filter(_may_order, SENTENCE.split(plain(prompt)))


def _may_order(sentence: str) -> bool:
    tells = TELLS.search(sentence)
    return tells is None or _OF_YOU.search(sentence) is not None or _begins_with_deed(sentence)


def _begins_with_deed(sentence: str) -> bool:
    """Tell whether a deed leads, so that what is told behind it is of a thing: "add it to the list I have"."""
    words = _WORD_OR_STOP.findall(sentence)
    first, after = next(((a, b) for a, b in pairwise((*words, "")) if a not in _BEFORE), ("", ""))
    does = VERBS.get(first, Effect.READ) is not Effect.READ
    return does and "?" not in sentence and TELLS.fullmatch(after) is None


def _leading(sentence: str) -> Iterator[tuple[str, str, str]]:
    """Yield each word that stands where an order begins, between what is before and behind it."""
    tokens = ("", ".", *_WORD_OR_STOP.findall(sentence), ".")
    for earlier, before, word, after in zip(
        tokens, tokens[1:], tokens[2:], tokens[3:], strict=False
    ):
        if before in _BEFORE or (before == "to" and earlier in _WANTING):
            yield before, word, after


def _orders_act(before: str, word: str, after: str) -> bool:
    if len(word) <= 1 or word in BESIDE_ORDERS or _finds_out(word):
        return False
    return word in _DEEDS or not (after == "," or (before in _LISTING and after in _AFTER_THINGS))


def _finds_out(word: str) -> bool:
    effect = VERBS.get(word) or VERBS_OR_NOUNS.get(word)
    return effect is Effect.READ or word in FINDING_OUT
