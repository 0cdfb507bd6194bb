"""Which servers a principal wants to see in front of all servers, from which conversation on.

A choice narrows what policy shows, and never widens it.
"""

from collections.abc import Iterable

from gateway.domain._value import value
from gateway.domain.tools import OWN, UpstreamId


@value
class Selection:
    """These servers and no others; or every server `but` these, those that come later included."""

    names: frozenset[UpstreamId] = frozenset()
    but: bool = True

    def shows(self, server: UpstreamId) -> bool:
        """Whether what `server` has is among what is wanted; what is our own always is."""
        return server == OWN or (server in self.names) is not self.but

    def plus(self, servers: frozenset[UpstreamId]) -> "Selection":
        """Return the same, and `servers`."""
        names = self.names - servers if self.but else self.names | servers
        return Selection(names=names, but=self.but)

    def without(self, servers: frozenset[UpstreamId]) -> "Selection":
        """Return the same, less `servers`."""
        names = self.names | servers if self.but else self.names - servers
        return Selection(names=names, but=self.but)


EVERY_SERVER = Selection()
"""What whoever has not chosen sees: all that policy shows."""


@value
class Choice:
    """One choice of a principal's."""

    number: int
    """Counts a principal's choices from 1, so that the later of two is known without a clock."""
    selection: Selection
    runs: frozenset[str]
    """The principal's other runs that were live when it was made. It is not in force in any of them."""
    session: str = ""
    """The session that it was made in, as it is in force there too; empty without one."""


@value
class Choices:
    """What one principal has chosen, oldest first."""

    made: tuple[Choice, ...] = ()

    @property
    def number(self) -> int:
        """The newest choice's; 0 before the first."""
        return self.made[-1].number if self.made else 0

    @property
    def newest(self) -> Selection:
        """What a conversation sees that begins now."""
        return self.made[-1].selection if self.made else EVERY_SERVER

    def since(self, number: int, session: str) -> Selection:
        """Return what `session` sees, which began when the choice `number` was the newest."""
        return self._last(
            choice
            for choice in self.made
            if choice.number <= number or choice.session == session != ""
        )

    def within(self, run: str) -> Selection:
        """Return what calls of `run` see that are in no session."""
        return self._last(choice for choice in self.made if run not in choice.runs)

    def _last(self, before: Iterable[Choice]) -> Selection:
        found = tuple(before)
        if found:
            return found[-1].selection
        # What was chosen before the oldest that is kept is forgotten, if there was anything.
        forgotten = bool(self.made) and self.made[0].number > 1
        return self.made[0].selection if forgotten else EVERY_SERVER

    def followed_by(
        self, selection: Selection, runs: frozenset[str], session: str, *, most: int
    ) -> "Choices":
        """Return the same with one more choice, of which the last `most` are kept."""
        choice = Choice(number=self.number + 1, selection=selection, runs=runs, session=session)
        return Choices(made=(*self.made, choice)[-most:])
