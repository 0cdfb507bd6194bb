"""Whether what a call carried has room for a value, in whatever encoding.

Encodings never end, so none is looked for here. What is known to be chosen by somebody trusted says nothing for
an outsider; what is left of a call has to be as long as half of what it would have to say. A shorter rest says
no address: no encoding that anybody has takes less than half a byte a letter.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from gateway.domain._value import value
from gateway.flow.folding import BOUNDARY, words
from gateway.flow.naming import COMMON
from gateway.flow.results import text_of

_MOST_READ: Final = 4 * 1024
"""Bytes of one call. What is longer has room for anything."""
_MOST_LEAVES: Final = 64
_LETTERS_OF_A_BYTE: Final = 2
_COMMON: Final = frozenset(word.encode() for word in COMMON)


@value
class Said:
    """What a call says, one for one: what is said twice is there twice."""

    texts: tuple[str, ...]
    """Its strings and numbers, and the members' names that its tool's definition does not give."""
    marks: int
    """How much else it has: truth values, lists, objects."""


def said_by(arguments: Mapping[str, Any], given: Collection[str] = ()) -> Said | None:
    """Return what `arguments` say besides words that the definition `given`; `None`: anything."""
    texts: list[str] = []
    marks, octets = 0, 0
    waiting: list[Any] = [arguments]
    while waiting:
        node = waiting.pop()
        found: Iterable[str] = ()
        if isinstance(node, dict):
            found = (name for name in node if name not in given)
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
        elif (text := text_of(node)) is not None:
            found = (text,)
        marks += text_of(node) is None
        for text in found:
            octets += len(text.encode("utf-8", "surrogatepass"))
            texts.append(text)
        if octets > _MOST_READ or len(texts) + marks > _MOST_LEAVES:
            return None
    return Said(texts=(*_once(texts, given),), marks=marks - 1)


def _once(texts: Iterable[str], known: Collection[str]) -> Iterator[str]:
    """Yield `texts` without those of `known`, each of which is left out once: twice is a choice."""
    left = set(known)
    for text in texts:
        if text in left:
            left.remove(text)
        else:
            yield text


def has_room(
    text: str,
    carried: Collection[Said],
    is_chosen: Callable[[str], bool],
    is_word: Callable[[bytes], bool],
) -> bool:
    """Tell whether what was `carried` may say `text`, but for what the user and trusted authors chose.

    `is_chosen` tells of a whole text whether they did, `is_word` whether a word is the user's. What stands
    in `text` as it was carried needs no encoding, and is none.
    """
    texts = [one for said in carried for one in said.texts]
    own = Counter(_words(text))
    plain = {word for one in texts for word in _words(one)}
    needed = _letters(b"".join(word for word in own if word not in plain))
    rest = _once(texts, {one for one in texts if is_chosen(one)})
    spared = {word for word in plain if is_word(word)} | _COMMON
    room = sum(said.marks for said in carried)
    for one in rest:
        found = _words(one)
        # One blank between two words says nothing; how many there are does.
        room += len(one.encode("utf-8", "surrogatepass")) - min(one.count(" "), len(found[1:]))
        for word in found:
            if own[word] > 0:
                own[word] -= 1
                room -= len(word)
            elif word in spared:
                spared.remove(word)
                room -= len(word)
    return _LETTERS_OF_A_BYTE * room >= needed


def _words(text: str) -> list[bytes]:
    return [word for word in words(text).split(BOUNDARY.encode()) if word]


def _letters(text: bytes) -> int:
    """Return how many letters have to be said for `text`: what is said again is said in few."""
    return len(set(pairwise(text))) + (text != b"")
