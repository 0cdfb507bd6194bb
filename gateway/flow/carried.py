"""What calls carried, so that it is known again when it comes back: an echo vouches for nothing."""

from collections.abc import Iterable
from itertools import takewhile

from gateway.domain._value import value
from gateway.flow.folding import BOUNDARY, folded, words
from gateway.flow.spellings import LONGEST, spellings

_SHORTEST_PART = 4
"""Letters. What has fewer is in many texts by chance, and counts only as a whole one."""
_LONGEST_IN_PARTS = 512
"""Letters of a value whose parts are looked for; a longer one is no address."""

_END = BOUNDARY.encode()


@value
class _Call:
    """Where that stands which one call carried."""

    begin: int
    end: int
    words_begin: int
    words_end: int


class Carried:
    """Texts by their letters and digits, in each of their spellings.

    So neither case, look, what stands between nor an encoding hides them; nor does it that one call
    carried a value in parts, which whoever got them put together.
    """

    def __init__(self, texts: Iterable[str] = (), *, most: int | None = None) -> None:
        """Beyond `most` bytes together everything counts as carried."""
        self._letters = _END
        self._words = _END
        self._calls: list[_Call] = []
        self._most = most
        self._length = len(self._letters)
        self.add(texts)

    @property
    def length(self) -> int:
        """How much was carried by now; with it `has` tells what was carried before."""
        return self._length

    def add(self, texts: Iterable[str]) -> None:
        """Note what one more call carries; of a text that is too long to be read, it may be all."""
        texts = tuple(texts)
        if any(len(text) > LONGEST for text in texts):
            self.give_up()
        spelled = [one for text in texts for one in spellings(text.replace(BOUNDARY, " "))]
        added = b"".join(folded(one) + _END for one in spelled)
        begin, words_begin = len(self._letters) - 1, len(self._words) - 1
        self._length += len(added)
        if self._overflows(self._length):
            return
        self._letters += added
        self._words += b"".join(words(one) + _END for one in spelled)
        self._calls.append(
            _Call(
                begin=begin,
                end=len(self._letters),
                words_begin=words_begin,
                words_end=len(self._words),
            )
        )

    def give_up(self) -> None:
        """Take everything for carried from now on."""
        self._most = -1

    def has(self, text: str, before: int | None = None) -> bool:
        """Tell whether `text` may be from what was carried, or from what was so at length `before`.

        It may be if a spelling of it stands there, forwards or backwards, or if all the parts of
        one do in what a single call carried.
        """
        length = self._length if before is None else before
        if self._overflows(length):
            return True
        return any(self._stands(one, length) for one in spellings(text.replace(BOUNDARY, " ")))

    def _stands(self, text: str, length: int) -> bool:
        letters = folded(text)
        if len(letters) < _SHORTEST_PART:
            return self._letters.find(_END + letters + _END, 0, length) >= 0
        if self._letters.find(letters, 0, length) >= 0:
            return True
        if self._letters.find(letters[::-1], 0, length) >= 0:
            return True
        if len(letters) > _LONGEST_IN_PARTS:
            return False
        parts = list(filter(None, words(text).split(_END)))
        return any(
            self._has_words(parts, call) or self._has_pieces(letters, call)
            for call in takewhile(lambda call: call.end <= length, self._calls)
        )

    def _has_words(self, parts: list[bytes], call: _Call) -> bool:
        """Tell whether `call` carried every word of a text, in whatever order."""
        return all(
            self._words.find(_END + word + _END, call.words_begin, call.words_end) >= 0
            or (len(word) >= _SHORTEST_PART and self._letters.find(word, call.begin, call.end) >= 0)
            for word in parts
        )

    def _has_pieces(self, letters: bytes, call: _Call) -> bool:
        """Tell whether `letters` are nothing but whole texts that `call` carried, put together."""
        reached = {0}
        for begin in range(len(letters)):
            if begin in reached:
                reached |= {
                    end
                    for end in range(begin + 1, len(letters) + 1)
                    if self._letters.find(_END + letters[begin:end] + _END, call.begin, call.end)
                    >= 0
                }
        return len(letters) in reached

    def _overflows(self, length: int) -> bool:
        return self._most is not None and length > self._most
