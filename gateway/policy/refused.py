"""A policy that was refused, and when it is tried again."""

import asyncio
from typing import Final

from gateway.errors import ConfigError

_AGAIN_S: Final = 10.0
"""The pause before what was refused is tried again, although nobody changed it; then twice as long."""
_SELDOM_S: Final = 900.0


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
