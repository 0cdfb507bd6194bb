"""By whose leave a policy comes into force where many gateways share a database: at all of them, or at none.

With it comes into force which servers were registered at run time.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from gateway.domain._value import value
from gateway.domain.roster import named, parts, tag
from gateway.domain.trouble import Trouble
from gateway.errors import ConfigError, PolicyUnavailable
from gateway.policy.agreement import CENTRAL, Holder, Origin
from gateway.policy.building import Built
from gateway.policy.texts import read, servers_in, spelled, with_servers
from gateway.ports.board import PolicyBoard, Posted

logger = logging.getLogger(__name__)

_LOOK_S: Final = 0.25
_TOLD_EACH: Final = 8
"""So many looks for one at what the others decide by, which is only to be told, and at what was refused."""
_MEANWHILE: Final = "what is in force has changed meanwhile; look, and say it again"
_MISNAMED: Final = "other servers are registered with it than its name says"
_WAIT_S: Final = 0.05
_AGAIN_S: Final = 1.0
_PATIENCE_S: Final = 60.0
"""Seconds that all gateways together may take to have what was proposed."""
_STALE_S: Final = 5.0
"""Seconds after which nobody knows any more what is in force."""


@value
class _Ready:
    """What could be in force here."""

    name: str
    servers: str
    """What is registered then."""
    built: Built | None = None
    """The policy, if it is another one than decides now."""
    put: Callable[[Built], None] | None = None
    """How that comes about."""


class Shared:
    """An `Agreement` of many gateways, by way of their board."""

    def __init__(self, board: PolicyBoard, holder: Holder) -> None:
        self._board = board
        self._holder = holder
        self._seat = board.seat()
        self._roster = board.roster
        self._next: _Ready | None = None
        """What is in force next, as far as this gateway goes."""
        self._offers = False
        """Whether that is proposed here just now."""
        self._asked = ""
        """What was to be registered last, as far as this gateway has it. Told no more, it is nowhere."""
        self._refused: frozenset[str] = frozenset()
        """Names of what is registered nowhere, once it was looked at."""
        self._preparing: asyncio.Task[None] | None = None
        self._hearing = asyncio.Lock()
        self._posted = Posted(policy="", revision=0)
        self._heard_at = 0.0
        self._seats: Mapping[str, str] = {}
        self._unfollow = board.follow(self.step)
        self._following = asyncio.create_task(self._follow())

    async def settle(self, built: Built, origin: Origin, *, first: bool) -> Built:
        """Have every gateway put `built` in force; see `Agreement`."""
        await self._prepare_nothing()
        try:
            while (proposed := await self._propose(built, origin, anew=not first)) is None:
                self._roster.put(await self._registered())
            if proposed:
                return built
            await self._drop()
            return await self._in_force()
        except PolicyUnavailable as error:
            told = "what all gateways decide by cannot be told"
            raise ConfigError(told, problems=[error.detail]) from error
        finally:
            self._offers = False
            await self._drop()

    async def _propose(self, built: Built, origin: Origin, *, anew: bool) -> bool | None:
        """Propose `built` with what is registered, and return once it is in force, or what stands against it."""
        servers, policy = self._roster.text, self._called(built.engine.digest)
        name = named(policy, servers)
        ready = _Ready(name=name, servers=servers, built=built, put=self._holder.put)
        self._next, self._offers = ready, True
        proposed = await self._board.propose(
            name, spelled(*origin, self._roster.vouched(servers)), over=tag(servers), anew=anew
        )
        if proposed:
            await self._until_in_force(name)
        return proposed

    async def register(self, before: str, servers: str) -> None:
        """Have every gateway have `servers`; see `Agreement`."""
        await self._prepare_nothing()
        self._offers = True
        try:
            await self.step()
            policy = self._called(self._holder.decides())
            if self._posted.policy != named(policy, before):
                raise ConfigError(_MEANWHILE)
            text = await self._board.text(self._posted.policy)
            name = named(policy, servers)
            self._next = _Ready(name=name, servers=servers)
            asked = with_servers(text, self._roster.vouched(servers))
            proposed = await self._board.propose(name, asked, over=tag(before), anew=True)
            self._asked = servers
            if not proposed:
                await self.step()
                raise ConfigError(_MEANWHILE)
            await self._until_in_force(name)
        except PolicyUnavailable as error:
            told = "what is registered at all gateways cannot be told"
            raise ConfigError(told, problems=[error.detail]) from error
        finally:
            self._offers = False
            await self._drop()

    async def step(self) -> None:
        """See what is in force, and decide by it if that can be done at once.

        Raises:
            PolicyUnavailable: Nobody can say.

        """
        async with self._hearing:
            if self._next is not None and self._roster.is_given_up(self._next.servers):
                await self._drop()
            decides, asked = self._decides, self._asked  # what was asked by now is told, or over
            prepared = decides if self._next is None else self._next.name
            posted = await self._board.hear(self._seat, decides=decides, prepared=prepared)
            if asked and not _has(posted, asked):
                self._roster.give_up(asked)
            self._take(posted)

    def _take(self, posted: Posted) -> None:
        """Decide by what is in force now; make ready for it, or for what is to be next, if that must be."""
        self._posted, self._heard_at = posted, asyncio.get_running_loop().time()
        ready = self._next
        if ready is not None and ready.name == posted.policy:
            self._next = None
            self._roster.put(ready.servers)
            if ready.built is not None and ready.put is not None:
                ready.put(ready.built)
        if self._preparing is not None or self._offers or not self._decides:
            return  # whoever begins makes ready by itself what it begins with
        wanted = posted.proposed or posted.policy
        if wanted and wanted not in (self._decides, self._next and self._next.name):
            self._preparing = asyncio.create_task(self._prepare(wanted))

    async def _prepare(self, name: str) -> None:
        """Make ready what was proposed by this name, or have it refused."""
        try:
            ready = await self._made_ready(name)
            await self._drop()
            self._next = ready
            await self.step()
        except ConfigError as error:
            because = "; ".join(error.problems) or error.public
            logger.error("what another gateway proposed cannot be used here: %s", because)  # noqa: TRY400 - no bug, no traceback
            with suppress(PolicyUnavailable):
                await self._board.refuse(name, f"{self._seat}: {because}")
            await asyncio.sleep(_AGAIN_S)  # it may be what is in force, and the machine
        except PolicyUnavailable as error:
            logger.warning("what another gateway proposed cannot be read: %s", error.detail)
        except Exception:
            logger.exception("making a policy ready met a bug")
        finally:
            self._preparing = None

    async def _prepare_nothing(self) -> None:
        """Give up what is being made ready, and close what is."""
        if self._preparing is not None:
            self._preparing.cancel()
            await asyncio.wait([self._preparing])
        await self._drop()

    async def _made_ready(self, name: str) -> _Ready:
        """Make ready what was proposed by this name.

        Raises:
            ConfigError: It cannot be used here, or is another one here.

        """
        text = await self._board.text(name)
        policy, servers = parts(name)[0], self._servers_in(text)
        if named(policy, servers) != name:
            raise ConfigError(_MISNAMED)
        if servers != self._roster.text:
            self._asked = servers
            await asyncio.to_thread(self._roster.admit, servers)
        if policy == self._called(self._holder.decides()):
            return _Ready(name=name, servers=servers)
        built = await self._of_board(policy, text)
        return _Ready(name=name, servers=servers, built=built, put=self._holder.adopt)

    async def _of_board(self, policy: str, text: bytes) -> Built:
        """Build the policy of this name of its text; raises as `_made_ready`."""
        if self._holder.settings.is_central:
            raise ConfigError("a central server says what is decided by here")
        built = await self._holder.build(*read(text, self._holder.settings))
        if (here := self._called(built.engine.digest)) != policy:
            await built.engine.close()
            raise ConfigError("it is another policy here", problems=[f"{policy} is {here} here"])
        return built

    async def _posted_text(self) -> tuple[str, bytes]:
        """Return the name of what is in force, and its text."""
        decides = self._decides
        posted = await self._board.hear(self._seat, decides=decides, prepared=decides)
        return posted.policy, await self._board.text(posted.policy)

    async def _registered(self) -> str:
        """Return what is registered everywhere.

        Raises:
            ConfigError: It cannot be read.

        """
        name, text = await self._posted_text()
        if tag(servers := self._servers_in(text)) != parts(name)[1]:
            raise ConfigError(_MISNAMED)
        return servers

    def _servers_in(self, text: bytes) -> str:
        return self._roster.opened(servers_in(text))

    def _called(self, digest: str) -> str:
        """Return what a policy is called on the board."""
        return CENTRAL if digest and self._holder.settings.is_central else digest

    @property
    def _decides(self) -> str:
        return self._roster.beside(self._called(self._holder.decides()))

    async def _until_in_force(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + _PATIENCE_S
        while True:
            await self.step()
            if self._posted.policy == name:
                return
            if self._posted.proposed != name:
                because = await self._board.problem(name) or "another one was proposed meanwhile"
                raise ConfigError("it came into force at no gateway", problems=[because])
            if loop.time() > until:
                late = ", ".join(await self._board.lacking(name))
                await self._board.refuse(name, f"not every gateway had it in time: {late} had not")
            await asyncio.sleep(_WAIT_S)

    async def _in_force(self) -> Built:
        """Return what is in force, built of its text and put in force here."""
        name, text = await self._posted_text()
        built = await self._of_board(parts(name)[0], text)
        self._roster.put(self._servers_in(text))
        self._holder.put(built)
        return built

    async def _drop(self) -> None:
        """Close what was made ready and is not wanted any more."""
        before, self._next = self._next, None
        if before is not None and before.built is not None:
            await before.built.engine.close()

    async def _follow(self) -> None:
        """Look again and again, until cancelled."""
        trouble = Trouble()
        for look in itertools.count():
            try:
                await self.step()
                trouble.is_new("")
                if look % _TOLD_EACH == 0:
                    self._seats = await self._board.seats()
                    await self._look_at_refused()
            except PolicyUnavailable as error:
                if trouble.is_new(error.detail):
                    logger.warning("what all gateways decide by cannot be told: %s", error.detail)
            except Exception:
                logger.exception("following the policy in force met a bug; it is looked at again")
            await asyncio.sleep(_LOOK_S)

    async def _look_at_refused(self) -> None:
        """Give up what others were told is registered nowhere: it may have been so between two looks."""
        names = frozenset(await self._board.refused())
        for name in names - self._refused:
            text = await self._board.text(name)
            with suppress(ConfigError):  # none of these gateways has written it, or it is older
                self._roster.give_up(self._servers_in(text))
        self._refused = names

    @property
    def problem(self) -> str:
        """Why this gateway is not ready; see `Agreement`."""
        age_s = asyncio.get_running_loop().time() - self._heard_at
        if age_s > _STALE_S:
            return f"which policy is in force was not heard for {age_s:.0f} seconds"
        if self._posted.policy != self._decides:
            return f"{self._posted.policy or 'none'} is in force, and not decided by here"
        return ""

    @property
    def revision(self) -> int:
        """How often another one came into force; see `Agreement`."""
        return self._posted.revision

    @property
    def facts(self) -> Mapping[str, str]:
        """Which revision is in force, and what each gateway decides by."""
        each = ", ".join(f"{seat} {decides or 'none'}" for seat, decides in self._seats.items())
        return {"policy_revision": str(self._posted.revision), "policy_by_gateway": each}

    async def close(self) -> None:
        """Have nobody wait for this one any more."""
        self._unfollow()
        self._following.cancel()
        await asyncio.wait([self._following])
        await self._prepare_nothing()
        try:
            await self._board.leave(self._seat)
        except PolicyUnavailable as error:
            logger.info("the board was not told that this gateway ends: %s", error.detail)


def _has(posted: Posted, servers: str) -> bool:
    """Whether these servers are registered by what is in force, or by what is to be."""
    return tag(servers) in {parts(posted.policy)[1], parts(posted.proposed)[1]}
