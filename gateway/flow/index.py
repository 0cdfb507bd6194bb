"""Which of several texts have a word: found by the word, forgotten with the text."""

from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

Word = TypeVar("Word", bound=Hashable)
Text = TypeVar("Text")


class Index(Generic[Word, Text]):
    """Words, and the texts that have them, or their numbers, in the order in which they came."""

    def __init__(self) -> None:
        self._texts: dict[Word, Text | list[Text]] = {}
        """Most words are in one text, which stands there itself."""

    def add(self, text: Text, words: Collection[Word]) -> None:
        """Note that `text`, which is no list, has `words`, each of them once."""
        texts = self._texts
        for word in words:
            known = texts.get(word)
            if known is None:
                texts[word] = text
            elif isinstance(known, list):
                known.append(text)
            else:
                texts[word] = [known, text]

    def drop(self, text: Text, words: Collection[Word]) -> None:
        """Forget `text`, which has `words`; the oldest one is forgotten soonest."""
        texts = self._texts
        for word in words:
            known = texts[word]
            if not isinstance(known, list):
                del texts[word]
                continue
            known.remove(text)
            if len(known) == 1:
                texts[word] = known[0]

    def having(self, word: Word) -> tuple[Text, ...]:
        """Return the texts that have `word`."""
        known = self._texts.get(word)
        if known is None:
            return ()
        return tuple(known) if isinstance(known, list) else (known,)
