"""Whether the user's words name a thing, as people write it: "the Living Room", "issue 42", "Lee's".

Addresses are named letter for letter (`gateway.flow.task`); a name reaches nobody by itself, so here
case, and what stands between words, are left out of account.
"""

import re
from collections.abc import Collection, Iterator, Sequence

from gateway.domain.bounded import digest_of, remembered
from gateway.flow.forms import addresses_in
from gateway.flow.heard import heard
from gateway.flow.words import singular, words_of

_LONGEST_NAME = 256
_MOST_PROMPTS = 64
_OCTETS = 4 * 1024**2
_TOKEN_OCTETS = 100
_SHORT = 4
"""Letters and digits. What has fewer turns up in words that mean something else."""

_ODD = re.compile(r"\.\.|[\W_]{5}|\A[\W_]{3}|[\W_]{3}\Z|[*%$^~|\\`{}\[\]<>]|\A[/-]")
"""Signs that lead elsewhere from a thing, that mean many, or that stand for something themselves."""
_TOKEN = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*|#")
_OF = re.compile(r"['\u2019]s\Z")
_NUMBERING = frozenset({"#", "id", "no", "nr", "number", "numbers", "ids", "version"})
_JOINING = frozenset({"and", "or", "to", "through", "then", "#"})

COMMON = frozenset(
    [
        "a",
        "an",
        "the",
        "i",
        "me",
        "my",
        "we",
        "us",
        "our",
        "you",
        "he",
        "she",
        "it",
        "its",
        "his",
        "her",
        "they",
        "them",
        "is",
        "are",
        "was",
        "be",
        "am",
        "been",
        "do",
        "did",
        "does",
        "has",
        "had",
        "have",
        "can",
        "may",
        "will",
        "of",
        "in",
        "on",
        "at",
        "to",
        "by",
        "up",
        "for",
        "off",
        "out",
        "over",
        "from",
        "with",
        "and",
        "or",
        "but",
        "not",
        "no",
        "yes",
        "if",
        "so",
        "as",
        "all",
        "any",
        "few",
        "how",
        "why",
        "who",
        "what",
        "when",
        "than",
        "that",
        "this",
        "too",
        "also",
        "now",
        "new",
        "old",
        "one",
        "two",
        "ten",
        "get",
        "got",
        "let",
        "see",
        "say",
        "put",
        "set",
        "try",
        "use",
        "way",
        "day",
        "run",
        "own",
        "per",
        "via",
        "etc",
        "ok",
        "hi",
        "re",
        "am",
        "pm",
    ]
)
"""Short words that name nothing."""


def things_in(prompt: str) -> "Things":
    """Return what `prompt` names, ready to be asked."""
    return _things(prompt)


class Things:
    """The words of a prompt, its addresses left out: their parts are nobody's names."""

    def __init__(self, prompt: str) -> None:
        for address in sorted(addresses_in((prompt,)), key=len, reverse=True):
            prompt = prompt.replace(address, " \x01 ")
        self.tokens = tokens_of(prompt)
        self._at: dict[str, list[int]] = {}
        for place, token in enumerate(self.tokens):
            self._at.setdefault(token, []).append(place)

    def name(self, text: str, nouns: Collection[str] = ()) -> bool:
        """Tell whether `text` stands there as whole words.

        A short number counts where one of `nouns`, or what announces a number, stands before it:
        `42` in "issue 42", and not in "42 times". A short word counts unless it is a common one.
        What people do not write between words and around them, nobody has named: `42/..`.
        """
        if len(text) > _LONGEST_NAME or text != text.strip():
            return False
        if not text.isprintable() or _ODD.search(text):
            return False
        wanted = [word for word in tokens_of(text) if word != "#"]
        if not wanted:
            return False
        return any(self._names(wanted, place, nouns) for place in self._places(wanted))

    def _places(self, wanted: Sequence[str]) -> Iterator[int]:
        for place in self._at.get(wanted[0], ()):
            if list(self.tokens[place : place + len(wanted)]) == wanted:
                yield place

    def _names(self, wanted: Sequence[str], place: int, nouns: Collection[str]) -> bool:
        if sum(map(len, wanted)) >= _SHORT and not (len(wanted) > 1 and COMMON.issuperset(wanted)):
            return True
        if len(wanted) == 1 and wanted[0].isdecimal():
            after = self.tokens[place + 1] if place + 1 < len(self.tokens) else ""
            return singular(after) in nouns or self._is_numbered(place, nouns)
        return len("".join(wanted)) > 1 and not COMMON.issuperset(wanted)

    def _is_numbered(self, place: int, nouns: Collection[str]) -> bool:
        before = place - 1
        while before >= 0 and (
            self.tokens[before].isdecimal() or self.tokens[before] in _JOINING - _NUMBERING
        ):
            before -= 1
        token = self.tokens[before] if before >= 0 else ""
        return token in _NUMBERING or singular(token) in nouns


def nouns_of(*names: str) -> frozenset[str]:
    """Return the words of an argument's and a tool's name, which may announce a number."""
    return frozenset(singular(word) for name in names for word in words_of(name))


def tokens_of(text: str) -> tuple[str, ...]:
    """Return the words and numbers of `text`, in lower case."""
    return tuple(_OF.sub("", word) for word in _TOKEN.findall(text.casefold()))


def _name(prompt: str, /) -> bytes:
    return digest_of(prompt)


def _weight(things: Things) -> int:
    return sum(_TOKEN_OCTETS + len(token) for token in things.tokens)


@heard
@remembered(most=_MOST_PROMPTS, octets=_OCTETS, key=_name, weigh=_weight)
def _things(prompt: str, /) -> Things:
    return Things(prompt)
