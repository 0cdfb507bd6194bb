"""Whether this gateway is configured as those are that share its database."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from gateway.config import Config
from gateway.config.alike import alike
from gateway.domain.trouble import Trouble
from gateway.errors import GatewayError

logger = logging.getLogger(__name__)

_EVERY_S: Final = 2.0
GRACE_S: Final = 900.0
"""So long gateways may differ while they are replaced one after the other."""


class Others(Protocol):
    """Of a `PolicyBoard`, what is needed here."""

    async def configured(self, told: str) -> Sequence[tuple[str, str]]: ...


class Alike:
    """Compares what most gateways are configured by with what this one is.

    Of as many who differ those are right that have been configured so for longer. Nothing is decided by
    it: it says who is ready.
    """

    def __init__(
        self,
        board: Others | None,
        current: Callable[[], Config],
        *,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        """Compare what `current` gives, the configuration in force; `elapsed` is what time is measured with."""
        self._board = board
        self._current = current
        self._elapsed = elapsed
        self._trouble = Trouble()
        self._of: Config | None = None
        self._own = ""
        """What is told of that configuration."""
        self._others: Mapping[str, str] = {}
        self._differs = ""
        self._since = 0.0

    async def follow(self) -> None:
        """Compare again and again, until cancelled; where there is one gateway there is nothing to compare."""
        while self._board is not None:
            try:
                await self.compare(self._board)
            except GatewayError as error:
                logger.debug("how others are configured is not known: %s", error.detail)
            await asyncio.sleep(_EVERY_S)

    async def compare(self, board: Others) -> None:
        """Tell how this gateway is configured, and see how the others are; raises what the board does."""
        if (config := self._current()) is not self._of:
            self._of, self._own = config, json.dumps(dict(alike(config)), sort_keys=True)
        own = self._own
        told = await board.configured(own)
        right = _right([text for _, text in told] or [own])
        self._others = {name: _keys(right, text) for name, text in told if text != right}
        before, self._differs = self._differs, _keys(right, own) if own != right else ""
        if self._differs and not before:
            self._since = self._elapsed()
        if self._trouble.is_new(self._differs):
            logger.warning(
                "most gateways are configured otherwise than this one: %s", self._differs
            )

    @property
    def problem(self) -> str:
        """Why this gateway is not ready; empty if it is."""
        if not self._differs or self._elapsed() - self._since < GRACE_S:
            return ""
        return f"most gateways are configured otherwise: {self._differs}; give all the same file, or restart the older ones"

    @property
    def facts(self) -> Mapping[str, str]:
        """Which gateways are configured otherwise than most, and in what."""
        if not self._others:
            return {}
        each = "; ".join(f"{name}: {keys}" for name, keys in sorted(self._others.items()))
        return {"configured_otherwise": each}


def _right(told: Sequence[str]) -> str:
    """Return what most have told; of as many, what is first."""
    return max(dict.fromkeys(told), key=told.count)


def _keys(right: str, other: str) -> str:
    """Return the keys in which two differ."""
    one, two = _read(right), _read(other)
    return ", ".join(sorted(key for key in one.keys() | two.keys() if one.get(key) != two.get(key)))


def _read(text: str) -> Mapping[str, str]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
