"""By whose leave a policy comes into force: of one gateway at once, of many at all or at none."""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from gateway.domain._value import value
from gateway.domain.trouble import Trouble
from gateway.errors import ConfigError, PolicyUnavailable
from gateway.policy.building import Built
from gateway.policy.settings import PolicySettings
from gateway.policy.sources import Snapshot
from gateway.policy.texts import read
from gateway.ports.board import PolicyBoard, Posted

logger = logging.getLogger(__name__)

CENTRAL: Final = "central"
"""What a policy is called on the board that a central server has: it names what it has itself."""

_LOOK_S: Final = 0.25
_TOLD_EACH: Final = 8
"""So many looks for one at what the others decide by, which is only to be told."""
_WAIT_S: Final = 0.05
_AGAIN_S: Final = 1.0
_PATIENCE_S: Final = 60.0
"""Seconds that all gateways together may take to have what was proposed."""
_STALE_S: Final = 5.0
"""Seconds after which nobody knows any more what is in force."""


class Agreement(Protocol):
    """What a holder asks before anything that it has built is in force."""

    async def settle(self, built: Built, text: Callable[[], bytes], *, first: bool) -> Built:
        """Put it in force, and return what is in force then.

        As the `first` of this process that is another one, if this one was replaced before.

        Raises:
            ConfigError: It did not come into force, anywhere.

        """
        ...

    @property
    def problem(self) -> str:
        """Why this gateway is not ready; empty if it is."""
        ...

    @property
    def facts(self) -> Mapping[str, str]:
        """What there is to tell of it."""
        ...

    @property
    def revision(self) -> int:
        """How often another policy came into force everywhere; 0 where nobody counts."""
        ...

    async def close(self) -> None: ...


class Alone:
    """An `Agreement` where there is one gateway."""

    def __init__(self, put: Callable[[Built], None]) -> None:
        self._put = put

    async def settle(self, built: Built, text: Callable[[], bytes], *, first: bool) -> Built:  # noqa: ARG002 - nobody is asked
        self._put(built)
        return built

    @property
    def problem(self) -> str:
        return ""

    @property
    def facts(self) -> Mapping[str, str]:
        return {}

    @property
    def revision(self) -> int:
        return 0

    async def close(self) -> None:
        """Nothing is to be closed."""


@value
class Holder:
    """What a `Shared` agreement asks of whoever answers by the policy in force."""

    settings: PolicySettings
    decides: Callable[[], str]
    """Returns the digest of that policy; empty before there is one."""
    put: Callable[[Built], None]
    """Puts what was built here in force."""
    adopt: Callable[[Built], None]
    """Puts in force what somebody else has proposed, whatever lies here."""
    build: Callable[[Snapshot, Mapping[str, Any]], Awaitable[Built]]
    """Builds a policy of its files and its data."""


class Shared:
    """An `Agreement` of many gateways, by way of their board."""

    def __init__(self, board: PolicyBoard, holder: Holder) -> None:
        self._board = board
        self._holder = holder
        self._seat = board.seat()
        self._next: tuple[str, Built, Callable[[Built], None]] | None = None
        """What could be in force here, and how that comes about."""
        self._offers = False
        """Whether that was built here, and is proposed just now."""
        self._preparing: asyncio.Task[None] | None = None
        self._hearing = asyncio.Lock()
        self._posted = Posted(policy="", revision=0)
        self._heard_at = 0.0
        self._seats: Mapping[str, str] = {}
        self._unfollow = board.follow(self.step)
        self._following = asyncio.create_task(self._follow())

    async def settle(self, built: Built, text: Callable[[], bytes], *, first: bool) -> Built:
        """Have every gateway put `built` in force; see `Agreement`."""
        name = self._named(built.engine.digest)
        await self._prepare_nothing()
        self._next, self._offers = (name, built, self._holder.put), True
        try:
            if await self._board.propose(name, text(), anew=not first):
                await self._until_in_force(name)
                return built
            await self._drop()
            return await self._in_force()
        except PolicyUnavailable as error:
            told = "what all gateways decide by cannot be told"
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
            decides = self._decides
            prepared = decides if self._next is None else self._next[0]
            self._take(await self._board.hear(self._seat, decides=decides, prepared=prepared))

    def _take(self, posted: Posted) -> None:
        """Decide by what is in force now; make ready for it, or for what is to be next, if that must be."""
        self._posted, self._heard_at = posted, asyncio.get_running_loop().time()
        ready = self._next
        if ready is not None and ready[0] == posted.policy:
            self._next = None
            ready[2](ready[1])
        if self._preparing is not None or self._offers or not self._decides:
            return  # whoever begins makes ready by itself what it begins with
        wanted = posted.proposed or posted.policy
        if wanted and wanted not in (self._decides, self._next and self._next[0]):
            self._preparing = asyncio.create_task(self._prepare(wanted))

    async def _prepare(self, name: str) -> None:
        """Make ready what was proposed by this name, or have it refused."""
        try:
            built = await self._of_board(name)
            await self._drop()
            self._next = (name, built, self._holder.adopt)
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

    async def _of_board(self, name: str) -> Built:
        """Build what was proposed by this name.

        Raises:
            ConfigError: It cannot be used here, or is another one here.

        """
        if self._holder.settings.is_central:
            raise ConfigError("a central server says what is decided by here")
        built = await self._holder.build(*read(await self._board.text(name), self._holder.settings))
        if (here := self._named(built.engine.digest)) != name:
            await built.engine.close()
            raise ConfigError("it is another policy here", problems=[f"{name} is {here} here"])
        return built

    def _named(self, digest: str) -> str:
        """Return what a policy is called on the board."""
        return CENTRAL if digest and self._holder.settings.is_central else digest

    @property
    def _decides(self) -> str:
        return self._named(self._holder.decides())

    async def _until_in_force(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + _PATIENCE_S
        while True:
            await self.step()
            if self._posted.policy == name:
                return
            if self._posted.proposed != name:
                because = await self._board.problem(name) or "another one was proposed meanwhile"
                raise ConfigError("the policy came into force at no gateway", problems=[because])
            if loop.time() > until:
                await self._board.refuse(name, "not every gateway had it in time")
            await asyncio.sleep(_WAIT_S)

    async def _in_force(self) -> Built:
        """Return what is in force, built of its text and put in force here."""
        decides = self._decides
        posted = await self._board.hear(self._seat, decides=decides, prepared=decides)
        built = await self._of_board(posted.policy)
        self._holder.put(built)
        return built

    async def _drop(self) -> None:
        """Close what was made ready and is not wanted any more."""
        before, self._next = self._next, None
        if before is not None:
            await before[1].engine.close()

    async def _follow(self) -> None:
        """Look again and again, until cancelled."""
        trouble = Trouble()
        for look in itertools.count():
            try:
                await self.step()
                trouble.is_new("")
                if look % _TOLD_EACH == 0:
                    self._seats = await self._board.seats()
            except PolicyUnavailable as error:
                if trouble.is_new(error.detail):
                    logger.warning("what all gateways decide by cannot be told: %s", error.detail)
            except Exception:
                logger.exception("following the policy in force met a bug; it is looked at again")
            await asyncio.sleep(_LOOK_S)

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
