"""The time that all have who share a database: that of its server."""

import time
from collections.abc import Callable
from contextlib import closing
from typing import Final

import psycopg

from gateway.errors import ConfigError
from gateway.ports import Clock
from gateway.storage.postgres.connection import connect

_NEGLIGIBLE_S: Final = 0.25
"""So far two machines' seconds may drift apart before one of them takes the other's."""
_ASKED: Final = b"SELECT extract(epoch FROM clock_timestamp())::double precision"

Told = Callable[[float, float, float], None]
"""Takes what the server's clock said, and between which moments of `time.monotonic` that was."""


class ServerClock:
    """A `Clock`: what the server's has said last, gone on by seconds that nobody can set.

    The clock of this machine is not looked at.
    """

    def __init__(self, elapsed: Clock = time.monotonic) -> None:
        """Nothing is known before it is `told`."""
        self._elapsed = elapsed
        self._ahead_s: float | None = None

    def __call__(self) -> float:
        """Return seconds since the epoch.

        Raises:
            RuntimeError: The server was never asked.

        """
        if self._ahead_s is None:
            raise RuntimeError("the server was never asked for the time")
        return self._elapsed() + self._ahead_s

    def told(self, said: float, began: float, ended: float) -> None:
        """Go by what the server said between two moments, where it differs from what is known."""
        least, most = said - ended, said - began
        known = self._ahead_s
        # An answer that came late leaves wide open how far the server is ahead: what fits stays.
        if known is None or not least - _NEGLIGIBLE_S <= known <= most + _NEGLIGIBLE_S:
            self._ahead_s = (least + most) / 2


def untold(_said: float, _began: float, _ended: float) -> None:
    """Leave the clock as it is."""


def ask(conninfo: str, told: Told) -> None:
    """Ask the server for the time, once.

    Raises:
        ConfigError: It does not answer.

    """
    try:
        with closing(connect(conninfo, application="douane clock")) as connection:
            began = time.monotonic()
            ((said,),) = connection.execute(_ASKED).fetchall()
            told(said, began, time.monotonic())
    except psycopg.Error as error:
        raise ConfigError(f"PostgreSQL cannot be used: {str(error).strip()}") from error
