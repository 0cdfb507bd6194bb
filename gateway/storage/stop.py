"""Whether everything is refused: one small file in the data directory, which outlives the process.

It is there, or it is not. One that cannot be read stops everything as well: nobody knows what it says.
"""

import asyncio
from pathlib import Path
from typing import Final

import orjson

from gateway.errors import BadCommand, Stopped
from gateway.ports.stop import Standstill
from gateway.storage.files import remove, write_atomically

STOP: Final = "stopped"
_UNREADABLE: Final = "the file cannot be read"


class Stop:
    """Everything is refused while it holds; whoever carries calls asks `require_none`."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / STOP
        self._holds = _read(self._path)
        self._changing = asyncio.Lock()

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

        Raises:
            BadCommand: It holds now, and could not be written for after a restart.

        """
        async with self._changing:
            self._holds = standstill
            told = {"by": standstill.by, "at": standstill.at, "note": standstill.note}
            try:
                await asyncio.to_thread(write_atomically, self._path, orjson.dumps(told))
            except OSError as error:
                raise BadCommand(
                    "all calls are refused, but only until the gateway ends: "
                    f"{self._path}: {error.strerror}"
                ) from error

    async def lift(self) -> None:
        """Carry calls again; durable on return.

        Raises:
            BadCommand: The file cannot be removed, and everything stays refused.

        """
        async with self._changing:
            try:
                await asyncio.to_thread(remove, self._path)
            except OSError as error:
                raise BadCommand(
                    f"all calls stay refused: {self._path}: {error.strerror}"
                ) from error
            self._holds = None


def _read(path: Path) -> Standstill | None:
    try:
        found = orjson.loads(path.read_bytes())
        return Standstill(by=str(found["by"]), at=float(found["at"]), note=str(found["note"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):
        return Standstill(by="", at=0.0, note=_UNREADABLE)
