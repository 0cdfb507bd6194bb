"""The board of all gateways over one PostgreSQL: the policy in force, and whether everything is stopped."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, LiteralString, TypeVar

import psycopg

from gateway.domain.roster import Roster
from gateway.errors import PolicyUnavailable
from gateway.ports.board import Posted
from gateway.storage.postgres.connection import Connection, Session

T = TypeVar("T")

_PATIENCE_S: Final = 5.0
_NUMBERS: Final = itertools.count(1)
_LACKING: Final = "SELECT name FROM replicas WHERE heard > clock_timestamp() - interval '10 seconds' AND prepared <> %s ORDER BY name"
_REFUSED: Final = """
SELECT p.digest FROM policies AS p CROSS JOIN in_force AS f
WHERE p.in_force_at IS NULL AND split_part(p.digest, '+', 2) NOT IN ('', split_part(f.policy, '+', 2), split_part(f.proposed, '+', 2))
ORDER BY p.proposed_at DESC LIMIT 100
"""
_LIVE: Final = "SELECT name, decides FROM replicas WHERE heard > clock_timestamp() - interval '10 seconds' ORDER BY name"


class PostgresBoard:
    """A `PolicyBoard`. What it says was committed; what it cannot say is raised."""

    def __init__(self, conninfo: str, *, replica: str, key: bytes) -> None:
        """Connect at first use. `replica` names this process, and no other one; by `key` gateways know each other."""
        self.roster = Roster(key)
        """What is registered; see `PolicyBoard`."""
        self._session = Session(conninfo, application="douane board", patience_s=_PATIENCE_S)
        self._replica = replica
        self._steps: list[Callable[[], Awaitable[None]]] = []
        self._heard: list[Callable[[str | None], None]] = []
        self._stopped: str | None = None
        """Who has stopped everything, as it was heard last."""
        self._switched = 0
        """How often this process began or ended to stop everything, or to end that."""

    def seat(self) -> str:
        """Return another name each time; see `PolicyBoard`."""
        return f"{self._replica}/{next(_NUMBERS)}"

    async def hear(self, seat: str, *, decides: str, prepared: str) -> Posted:
        """Say what `seat` decides by, and return what is in force; see `PolicyBoard`."""
        said, switched = (seat, decides, prepared), self._switched
        ((policy, revision, proposed, stopped),) = await self._ask(
            "SELECT * FROM hear_1(%s, %s, %s)", said
        )
        if switched == self._switched:  # else it may be older than what was said here
            self._tell(stopped)
        return Posted(policy=policy, revision=revision, proposed=proposed)

    async def leave(self, seat: str) -> None:
        """Wait for `seat` no more; see `PolicyBoard`."""
        await self._ask("SELECT leave_1(%s)", (seat,))

    async def propose(self, name: str, text: bytes, *, over: str, anew: bool) -> bool | None:
        """Have a policy be the next one, with what is registered; see `PolicyBoard`."""
        said = (name, text, over, anew)
        ((proposed,),) = await self._ask("SELECT propose_2(%s, %s, %s, %s)", said)
        return None if proposed is None else bool(proposed)

    async def refuse(self, name: str, because: str) -> None:
        """Have it come into force nowhere; see `PolicyBoard`."""
        await self._ask("SELECT refuse_1(%s, %s)", (name, because.replace("\0", "")))

    async def problem(self, name: str) -> str:
        """Return why it was refused; see `PolicyBoard`."""
        rows = await self._ask("SELECT problem FROM policies WHERE digest = %s", (name,))
        return "".join(problem for (problem,) in rows)

    async def refused(self) -> Sequence[str]:
        """Return what was to be registered and is nowhere; see `PolicyBoard`."""
        return [name for (name,) in await self._ask(_REFUSED)]

    async def lacking(self, name: str) -> Sequence[str]:
        """Return who lives and could not decide by it; see `PolicyBoard`."""
        return [seat for (seat,) in await self._ask(_LACKING, (name,))]

    async def text(self, name: str) -> bytes:
        """Return its text; see `PolicyBoard`."""
        rows = await self._ask("SELECT content FROM policies WHERE digest = %s", (name,))
        if not rows:
            raise PolicyUnavailable(
                "the policy in force cannot be read", detail=f"{name} is not there"
            )
        return bytes(rows[0][0])

    async def seats(self) -> Mapping[str, str]:
        """Return who lives, and by what it decides; see `PolicyBoard`."""
        return dict(await self._ask(_LIVE))

    async def configured(self, told: str) -> Sequence[tuple[str, str]]:
        """Tell how this gateway is configured; see `PolicyBoard`."""
        return await self._ask("SELECT * FROM configured_1(%s, %s)", (self._replica, told))

    def follow(self, step: Callable[[], Awaitable[None]]) -> Callable[[], None]:
        """Have `step` done where a look finds another policy; see `PolicyBoard`."""
        self._steps.append(step)
        return lambda: self._steps.remove(step)

    async def look_again(self) -> None:
        """Have whatever decides here see what is in force: a call was decided on what is not any more.

        Raises:
            PolicyUnavailable: Nobody can say.

        """
        for step in tuple(self._steps):
            await step()

    def tell(self, heard: Callable[[str | None], None]) -> None:
        """Have `heard` be told now and at each look who has stopped everything; `None` if nobody has."""
        self._heard.append(heard)
        heard(self._stopped)

    async def stop(self, by_whom: str) -> None:
        """Have everything be stopped, at every gateway.

        Raises:
            PolicyUnavailable: It is not, or not known to be.

        """
        await self._switch("SELECT stop_1(%s)", by_whom)

    async def go(self, seen: str) -> str | None:
        """End the stop that says `seen`, and return what holds then; raises as `stop`."""
        ((holds,),) = await self._switch("SELECT go_1(%s)", seen)
        return None if holds is None else str(holds)

    async def look(self) -> None:
        """Hear who has stopped everything, also where nobody decides: a command may be all there is.

        Raises:
            PolicyUnavailable: Nobody can say.

        """
        ((stopped,),) = await self._ask("SELECT stopped FROM in_force")
        self._tell(stopped)

    def close(self) -> None:
        self._session.close()

    def _tell(self, stopped: str | None) -> None:
        self._stopped = stopped
        for heard in self._heard:
            heard(stopped)

    async def _switch(self, statement: LiteralString, said: str) -> list[tuple[Any, ...]]:
        self._switched += 1
        try:
            return await self._ask(statement, (said,))
        finally:
            self._switched += 1

    async def _ask(
        self, statement: LiteralString, values: tuple[Any, ...] = ()
    ) -> list[tuple[Any, ...]]:
        def job(connection: Connection) -> list[tuple[Any, ...]]:
            return connection.execute(statement, values).fetchall()

        try:
            return await asyncio.to_thread(self._session.use, job)
        except psycopg.Error as error:
            raise PolicyUnavailable(
                "what is in force cannot be told now", detail=str(error)
            ) from error
