"""The seam of programs that run: their budgets, and those that wait for a person."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from gateway.domain._value import value
from gateway.domain.scripts import Script, ScriptId


@value
class Parked:
    """A program that waits, as it was when it stopped."""

    script: Script
    snapshot: bytes
    """Sealed: nobody but a gateway with the same keys can have written it."""


class ScriptStore(Protocol):
    """Programs and what they have used up, durable."""

    async def begin(self, script: Script) -> None:
        """File a program that is about to run, or that a token was given out for.

        Raises:
            RateLimited: Its person has so many already, or everybody has, or so much is kept of them.

        """
        ...

    def find(self, id_: ScriptId, *, now: float) -> Script | None:
        """Return a program that may still call tools `now`; from memory, never waits."""
        ...

    async def take(self, id_: ScriptId, grant: int | None, *, now: float) -> bool:
        """Use up one call of the program, and of its grant at this place; durable on return.

        Of all who ask at once exactly as many are told yes as there are calls left. False as well
        if it has ended, was revoked or has run out.
        """
        ...

    def live(self, *, now: float) -> Sequence[Script]:
        """Return every program that may still call tools `now`, oldest first; from memory."""
        ...

    def waits(self, id_: ScriptId) -> bool:
        """Whether a program waits for a person; from memory."""
        ...

    def watched(self, id_: ScriptId, ended: Callable[[], object]) -> AbstractContextManager[None]:
        """Have `ended` called, on the event loop, if the program is ended within the context."""
        ...

    async def end(self, id_: ScriptId) -> bool:
        """End a program, or revoke its token: it calls nothing from now on. Whether it still ran."""
        ...

    async def park(self, parked: Parked) -> None:
        """Keep a program until a person has answered; durable on return.

        It ends those of the same person that are more than may wait (`MOST_WAITING`), or hold more
        together, and those of whoever's hold most where all hold too much. Of one that somebody has
        ended meanwhile nothing is kept.
        """
        ...

    async def unpark(self, id_: ScriptId, principal: str, *, now: float) -> Parked | None:
        """Take a waiting program out again: of all who try, one gets it, and only its principal."""
        ...
