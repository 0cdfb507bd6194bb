"""When anything changed that calls are prepared by: one number for a process."""

import itertools


class Epoch:
    """A number that is another one after every change of what is looked up before a call comes.

    What was looked up holds for as long as the number is the one that was read before it was looked
    up. Whoever keeps such a thing turns the epoch once their change can be seen.
    """

    __slots__ = ("_numbers", "now")

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.now = 0

    def turn(self) -> None:
        """End this epoch. Threads may: no number comes twice, whoever is first."""
        self.now = next(self._numbers)
