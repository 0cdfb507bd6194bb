"""Which of several texts have a word: found by the word, forgotten with the text."""

from collections.abc import Collection, Hashable
from typing import Generic, TypeAlias, TypeVar

Word = TypeVar("Word", bound=Hashable)
Numbers: TypeAlias = tuple[int, ...]


class Index(Generic[Word]):
    """Words, and the numbers of the texts that have them, in the order in which they came."""

    def __init__(self) -> None:
        self._numbers: dict[Word, Numbers] = {}

    def add(self, number: int, words: Collection[Word]) -> None:
        """Note that the text `number` has `words`, each of them once."""
        for word in words:
            self._numbers[word] = (*self._numbers.get(word, ()), number)

    def drop(self, number: int, words: Collection[Word]) -> None:
        """Forget the text `number`, which has `words`; the oldest one is forgotten soonest."""
        for word in words:
            known = self._numbers[word]
            at = known.index(number)
            if left := known[:at] + known[at + 1 :]:
                self._numbers[word] = left
            else:
                del self._numbers[word]

    def having(self, word: Word) -> Numbers:
        """Return which texts have `word`."""
        return self._numbers.get(word, ())
