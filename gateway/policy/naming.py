"""By which policy the servers behind one address answer: one that is replaced, or several at once."""

from typing import Final

_FRESH: Final = 64
"""For so many questions a policy that is not the newest is known to answer still."""
_MOST: Final = 16
"""Policies that are remembered; a server that names another one each time fills no memory."""


class Naming:
    """Which policy was heard last, and which other ones answer beside it.

    Answers overtake each other, so it is their questions that are counted: an answer that comes late
    says what was so when it was asked. A policy that answers what was asked after another one had
    taken its place has come back: there are servers with the one and with the other, as while a new
    revision is rolled out, and until it is heard no more a decision of either holds.
    """

    def __init__(self, digest: str) -> None:
        self.newest = digest
        """What was heard of the newest question that is answered; empty before any is."""
        self._asked = 0
        self._named_by = 0
        """The question whose answer said so."""
        self._replaced: dict[str, int] = {}
        """Up to which question nobody knew yet that this policy had been replaced."""
        self._back: dict[str, int] = {}
        """The newest question that was answered by a policy which had come back."""

    def ask(self) -> int:
        """Return the number of a question that is now asked."""
        self._asked += 1
        return self._asked

    def heard(self, digest: str, question: int) -> bool:
        """Take in by which policy a question was answered; say whether another one is the newest now."""
        if digest in self._back or question > self._replaced.get(digest, self._asked):
            _keep(self._back, digest, max(question, self._back.get(digest, 0)))
        if question < self._named_by:
            return False
        self._named_by = question
        if digest == self.newest:
            return False
        _keep(self._replaced, self.newest, self._asked)
        self.newest = digest
        return True

    def holds(self, digest: str) -> bool:
        """Whether what this policy decided may still be done; any thread may ask."""
        back = self._back.get(digest)
        return digest == self.newest or (back is not None and self._asked - back <= _FRESH)


def _keep(kept: dict[str, int], digest: str, question: int) -> None:
    kept.pop(digest, None)
    kept[digest] = question
    if len(kept) > _MOST:
        del kept[next(iter(kept))]
