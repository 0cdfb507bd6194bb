"""Whether a data directory serves, as a move has it said; see `gateway.storage.moving.mark`."""

from pathlib import Path

import orjson

from gateway.errors import ConfigError
from gateway.storage.files import remove, write_atomically
from gateway.storage.moving.mark import MARK, Moved, Way, require_serving


def keep_mark(data_dir: Path, moved: Moved) -> None:
    """Have nothing served from a data directory any more; durable on return."""
    told = {
        "way": moved.way.value,
        "move": moved.move,
        "log_id": moved.log_id,
        "other": moved.other,
        "at": moved.at,
    }
    write_atomically(data_dir / MARK, orjson.dumps(told))


def forget_mark(data_dir: Path) -> None:
    """Let a data directory serve; durable on return."""
    remove(data_dir / MARK)


def reopened(moved: Moved | None, place: str) -> Moved:
    """Return the mark that may be taken away.

    Raises:
        ConfigError: There is none, or what is there is not whole.

    """
    if moved is None:
        raise ConfigError(f"{place} was not moved: it serves")
    if moved.way is Way.COMING:
        require_serving(moved, place)
    return moved
