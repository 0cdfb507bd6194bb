"""An engine's time in force, and what was refused instead."""

import asyncio
from typing import Final

from gateway.errors import ConfigError
from gateway.policy.building import Engine

_AGAIN_S: Final = 10.0
"""The pause before what was refused is tried again, although nobody changed it; then twice as long."""
_SELDOM_S: Final = 900.0


async def retire(tenure: "Tenure") -> None:
    """Close its engine once nobody waits for an answer."""
    await tenure.ended()
    await tenure.engine.close()


class Refused:
    """What was refused, why, and when it is tried again."""

    def __init__(self, print_: str, error: ConfigError) -> None:
        self.print = print_
        self.error = error
        self.problems = error.problems or (error.public,)
        self.tries = 0
        self._at = asyncio.get_running_loop().time()

    @property
    def is_due(self) -> bool:
        """Whether it is time to try the same again."""
        pause_s = min(_SELDOM_S, _AGAIN_S * 2.0 ** min(self.tries, 32))
        return asyncio.get_running_loop().time() - self._at >= pause_s


class Tenure:
    """An engine's time in force; it is over when the last question asked of it is answered."""

    def __init__(self, engine: Engine, number: int, print_: str) -> None:
        self.engine = engine
        self.number = number
        """Of the look at what it was built of."""
        self.print = print_
        """Of what lay there then."""
        self._asked = 0
        self._over: asyncio.Future[None] | None = None

    def __enter__(self) -> Engine:
        self._asked += 1
        return self.engine

    def __exit__(self, *_: object) -> None:
        self._asked -= 1
        if self._asked == 0 and self._over is not None:
            self._over.set_result(None)

    async def ended(self) -> None:
        """Return once nobody waits for an answer any more. Called once, after it was replaced."""
        if self._asked:
            self._over = asyncio.get_running_loop().create_future()
            await self._over
