"""Whether everything is refused, at every gateway over one PostgreSQL; see `storage.stop.Stop`."""

from typing import Final

import orjson

from gateway.errors import BadCommand, Denied, PolicyUnavailable, Stopped
from gateway.ports.stop import LATER, Standstill
from gateway.storage.postgres.board import PostgresBoard

_UNREADABLE: Final = "what holds cannot be read"


class PostgresStop:
    """The switch of all gateways. What each knows of it is a moment old; records compare what is so.

    So a gateway that has not heard of a stop yet sends nothing more that rests on anything.
    """

    def __init__(self, board: PostgresBoard) -> None:
        self._board = board
        self._said: str | None = None
        self._holds: Standstill | None = None
        self._is_here = False
        """Whether it holds here whatever is heard, because nobody else could be told."""
        board.tell(self._heard)

    @property
    def holds(self) -> Standstill | None:
        """What holds now, as far as was heard here; `None` if calls are carried."""
        return self._holds

    def require_none(self) -> None:
        """Return if calls are carried.

        Raises:
            Stopped: They are not.

        """
        if self._holds is not None:
            raise Stopped("an operator has stopped all calls")

    async def put(self, standstill: Standstill) -> None:
        """Refuse everything from now on, everywhere; durable on return.

        Raises:
            BadCommand: It holds here until it is lifted here, and perhaps nowhere else.

        """
        told = {"by": standstill.by, "at": standstill.at, "note": standstill.note}
        said = orjson.dumps(told).decode()
        self._heard(said)
        self._is_here = True
        try:
            await self._board.stop(said)
            self._is_here = False
        except PolicyUnavailable as error:
            raise BadCommand(
                f"all calls are refused here, and perhaps nowhere else: {error.detail}"
            ) from error

    async def lift(self, seen: Standstill) -> None:
        """Carry calls again, everywhere, where nothing holds but the stop that was `seen`.

        It is durable on return. What is stopped again meanwhile stays so.

        Raises:
            Denied: Another one holds by now, and goes on.
            BadCommand: Everything stays refused.

        """
        said = self._said
        if said is None:
            return
        if self._holds is not seen:
            raise Denied(LATER)
        try:
            holds = await self._board.go(said)
        except PolicyUnavailable as error:
            raise BadCommand(f"all calls stay refused: {error.detail}") from error
        if self._said is said:  # else everything was stopped again meanwhile
            self._is_here = False
            self._heard(holds)
        if holds is not None:
            raise Denied(LATER)

    def _heard(self, said: str | None) -> None:
        if said != self._said and not (self._is_here and said is None):
            self._said, self._holds = said, None if said is None else _read(said)


def _read(said: str) -> Standstill:
    try:
        found = orjson.loads(said)
        return Standstill(by=str(found["by"]), at=float(found["at"]), note=str(found["note"]))
    except (ValueError, TypeError, KeyError):
        return Standstill(by="", at=0.0, note=_UNREADABLE)
