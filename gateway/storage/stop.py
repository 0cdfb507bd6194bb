"""Whether everything is refused: one small file in the data directory, which outlives the process.

It is there, or it is not. One that cannot be read stops everything as well: nobody knows what it says.
"""

import asyncio
from pathlib import Path
from typing import Final

import orjson

from gateway.errors import BadCommand, Denied, Stopped
from gateway.ports.stop import LATER, Standstill
from gateway.storage.files import remove, write_atomically
from gateway.turns import Line

STOP: Final = "stopped"
_UNREADABLE: Final = "the file cannot be read"


class Stop:
    """Everything is refused while it holds; whoever carries calls asks `require_none`."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / STOP
        self._holds = _read(self._path)
        self._line = Line()

    @property
    def holds(self) -> Standstill | None:
        """What holds now; `None` if calls are carried."""
        return self._holds

    def require_none(self) -> None:
        """Return if calls are carried.

        Raises:
            Stopped: They are not.

        """
        if self._holds is not None:
            raise Stopped("an operator has stopped all calls")

    async def put(self, standstill: Standstill) -> None:
        """Refuse everything from now on; durable on return.

        It is written to the end, also if whoever asked goes away.

        Raises:
            BadCommand: It holds now, and could not be written for after a restart.
            RateLimited: It holds now; so much is being written already that this was not.

        """
        self._holds = standstill
        await self._line.take(lambda: self._written(standstill))

    async def _written(self, standstill: Standstill) -> None:
        told = {"by": standstill.by, "at": standstill.at, "note": standstill.note}
        try:
            await asyncio.to_thread(write_atomically, self._path, orjson.dumps(told))
        except OSError as error:
            raise BadCommand(
                "all calls are refused, but only until the gateway ends: "
                f"{self._path}: {error.strerror}"
            ) from error

    async def lift(self, seen: Standstill) -> None:
        """Carry calls again, where nothing holds but the stop that was `seen`; durable on return.

        What is stopped again meanwhile stays so.

        Raises:
            Denied: Another one holds by now, and goes on.
            BadCommand: The file cannot be removed, and everything stays refused.
            RateLimited: So much is being written already; everything stays refused.

        """
        await self._line.take(lambda: self._removed(seen))

    async def _removed(self, seen: Standstill) -> None:
        if self._holds is None:
            return
        if self._holds is not seen:
            raise Denied(LATER)
        try:
            await asyncio.to_thread(remove, self._path)
        except OSError as error:
            raise BadCommand(f"all calls stay refused: {self._path}: {error.strerror}") from error
        if self._holds is seen:
            self._holds = None


def _read(path: Path) -> Standstill | None:
    try:
        found = orjson.loads(path.read_bytes())
        return Standstill(by=str(found["by"]), at=float(found["at"]), note=str(found["note"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):
        return Standstill(by="", at=0.0, note=_UNREADABLE)
