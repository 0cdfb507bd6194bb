"""Whether a place serves: what is moved into it may not be all there, or was moved out of it."""

from enum import StrEnum
from pathlib import Path
from typing import Final

import orjson

from gateway.domain._value import value
from gateway.errors import ConfigError

MARK: Final = "moved"
"""The file's name in a data directory. It is there, or it is not; PostgreSQL has a row for it."""


class Way(StrEnum):
    """Which end of a move a place is."""

    COMING = "coming"
    """What is moved into it is not all there yet, or not compared."""
    GONE = "gone"
    """What was in it goes on elsewhere."""


@value
class Moved:
    """Why a place does not serve."""

    way: Way
    move: str
    """Names the move: both its ends have it."""
    log_id: str
    other: str
    """The other end, for people."""
    at: float
    """Seconds since the epoch."""


def mark_in(data_dir: Path) -> Moved | None:
    """Return why nothing is served from a data directory; `None` if something may be.

    Raises:
        ConfigError: There is a mark that cannot be read: nobody knows what it says.

    """
    path = data_dir / MARK
    try:
        found = orjson.loads(path.read_bytes())
        return Moved(
            way=Way(found["way"]),
            move=str(found["move"]),
            log_id=str(found["log_id"]),
            other=str(found["other"]),
            at=float(found["at"]),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"{path} cannot be read, and says whether {data_dir} serves") from error


def require_serving(moved: Moved | None, place: str) -> None:
    """Return if a place serves.

    Raises:
        ConfigError: It does not: with the command that changes that.

    """
    if moved is None:
        return
    if moved.way is Way.COMING:
        raise ConfigError(
            f"what is moved from {moved.other} into {place} is not all there: end it with the same "
            "`douane storage migrate` that began it"
        )
    raise ConfigError(
        f"what was in {place} was moved to {moved.other}, and goes on there: nothing is served from "
        "here. `douane storage reopen` has it serve again, without what was recorded there since"
    )
