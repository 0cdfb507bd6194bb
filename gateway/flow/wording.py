"""What the words of a definition say a tool does."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any

from gateway.domain._value import value
from gateway.domain.labels import Effect
from gateway.flow.words import (
    ACCESS,
    ACCESS_PAIRS,
    ADDRESSED,
    ASIDES,
    JOINING,
    MONEY,
    OF_THE_TOOL,
    RUNNABLE,
    SECRET_PAIRS,
    SECRETS,
    VERBS,
    VERBS_OR_NOUNS,
    YIELDING,
    base_of,
    singular,
)

_MOST_TEXT = 2048
"""Characters of a description. What a tool does stands at its beginning."""

_MOST_WORDS = 64
_SENTENCE = re.compile(r"[.!?](?=\s|$)|\n\s*\n")
_TOKEN = re.compile(r"[A-Za-z]+(?:'[a-z]+)?|,")

_ORDER = tuple(Effect)


@value
class Heard:
    """An effect, and the words that speak for it."""

    effect: Effect
    because: str


def worst(effects: Iterable[Effect]) -> Effect:
    """Return the last of `effects` in the order of `Effect`; there is at least one."""
    return max(effects, key=_ORDER.index)


def spoken_effects(name: Sequence[str], description: Any) -> tuple[Heard, ...]:
    """Return what the words of a tool's name and of its description say that it does."""
    first, *later = _sentences(description)
    heard = [*_of_name(name), *(() if _is_of_things(first, name) else _of_sentence(first))]
    for sentence in later:
        if sentence and sentence[0] in OF_THE_TOOL:
            # A step that mildens nothing: what it returns, it may return after having done more.
            heard += [each for each in _of_sentence(sentence) if each.effect != Effect.READ]
    return tuple(heard)


def _is_of_things(sentence: Sequence[str], name: Sequence[str]) -> bool:
    """Tell whether `sentence` begins with what is read: "Orders of this account", of `list_orders`."""
    at, verb = _verb_of(name)
    return bool(sentence) and verb is Effect.READ and sentence[0] in name[at + 1 :]


def names_secrets(name: Sequence[str], description: Any, *, reads: bool) -> str | None:
    """Return the words that say that a tool's results hold what gives access, if there are any.

    Of a tool that does not read (`reads`) only the name counts, and only if it makes such a thing.
    """
    found = _secret(name)
    if found is not None and (reads or YIELDING.intersection(name)):
        return found
    first = _sentences(description)[0]
    if reads and first and VERBS.get(singular(first[0])) is Effect.READ:
        # Beside the verb: further on stands what the tool needs, or what else there is.
        return _secret(first[1:_NEAR])
    return None


_NEAR = 6


def _of_name(name: Sequence[str]) -> Iterator[Heard]:
    at, verb = _verb_of(name)
    if verb is None:
        return
    effects = [verb, VERBS_OR_NOUNS.get(name[0]) if name[0] == "run" else None]
    later = range(at + 1, len(name))
    if verb is Effect.READ:
        # What is read may be called after a deed; only a second verb is one.
        effects += [_verb(name[i]) for i in later if name[i - 1] in JOINING]
    else:
        effects += [VERBS.get(name[i]) for i in later]
    said = worst(effect for effect in effects if effect is not None)
    yield Heard(effect=said, because=f"name: {'_'.join(name)}")
    if said is not Effect.READ:
        yield from _of_object(name[at + 1 :] or name[:at], said, name)


def _verb_of(name: Sequence[str]) -> tuple[int, Effect | None]:
    """Return where the verb of a name stands, and what it does."""
    for at, word in enumerate(name):
        if word in VERBS:
            return at, VERBS[word]
    for at, word in enumerate(name):
        if word in VERBS_OR_NOUNS:
            return at, VERBS_OR_NOUNS[word]
    return 0, None


def _verb(word: str) -> Effect | None:
    return VERBS.get(word) or VERBS_OR_NOUNS.get(word)


def _of_object(words: Sequence[str], verb: Effect, name: Sequence[str]) -> Iterator[Heard]:
    """Yield what doing `verb`, which is no read, to a thing called `words` amounts to."""
    things = [singular(word) for word in words]
    head = things[-1] if things else ""
    if head in MONEY and verb in {Effect.WRITE, Effect.EGRESS}:
        yield Heard(effect=Effect.PAY, because=f"name: {'_'.join(name)} moves {head}")
    if head in ADDRESSED and verb is Effect.WRITE and name[0] in _MAKING:
        yield Heard(effect=Effect.EGRESS, because=f"name: {'_'.join(name)} makes {head}")
    if found := _secret(name) or _found(name, ACCESS, ACCESS_PAIRS):
        yield Heard(effect=Effect.CREDENTIAL, because=f"name: {found} gives access")


_MAKING = frozenset({"create", "add", "write", "make", "put", "new"})


def _secret(words: Sequence[str]) -> str | None:
    return _found(words, SECRETS, SECRET_PAIRS)


def _found(
    words: Sequence[str], alone: Collection[str], pairs: Collection[tuple[str, str]]
) -> str | None:
    singulars = [singular(word) for word in words]
    single = (word for word in singulars if word in alone)
    paired = (" ".join(pair) for pair in pairwise(singulars) if pair in pairs)
    return next(chain(single, paired), None)


def _sentences(description: Any) -> list[list[str]]:
    """Return the sentences of a description, at least one, each as words and commas."""
    text = description[:_MOST_TEXT] if isinstance(description, str) else ""
    parts = _SENTENCE.split(text.strip())
    return [[token.lower() for token in _TOKEN.findall(part)[:_MOST_WORDS]] for part in parts]


def _of_sentence(sentence: Sequence[str]) -> Iterator[Heard]:
    start = next((i for i, word in enumerate(sentence) if word not in ASIDES), len(sentence))
    if start == len(sentence):
        return
    lead, effect = _described_verb(sentence[start])
    if effect is None or (
        lead in VERBS_OR_NOUNS and start > 0 and sentence[start - 1] in _ARTICLES
    ):
        return
    yield from _said(effect, lead, sentence)
    third_person = lead != sentence[start]
    for at in range(start + 1, len(sentence) - 1):
        if sentence[at] not in JOINING and sentence[at] != ",":
            continue
        word = sentence[at + 1] if sentence[at + 1] not in JOINING else _after(sentence, at + 2)
        other = VERBS.get(singular(word) if third_person else word)
        if other is not None and (not third_person or word != singular(word)):
            yield from _said(other, word, sentence)


_ARTICLES = frozenset({"a", "an", "the", "this", "your"})


def _after(sentence: Sequence[str], at: int) -> str:
    return sentence[at] if at < len(sentence) else ""


def _described_verb(word: str) -> tuple[str, Effect | None]:
    for base in base_of(word):
        effect = _verb(base)
        if effect is not None:
            return base, effect
    return word, None


def _said(effect: Effect, verb: str, sentence: Sequence[str]) -> Iterator[Heard]:
    if effect is Effect.EXECUTE and not RUNNABLE.intersection(map(singular, sentence)):
        return  # Searches and tests are run as well.
    yield Heard(effect=effect, because=f"description: {verb}")
