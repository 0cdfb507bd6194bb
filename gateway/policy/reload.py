"""The policy in force, and how it changes while the gateway runs.

Whatever is saved at whatever moment, in the end that is in force which lies there: after every switch
and every few seconds the two are compared, and anything that differs is built anew.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from watchfiles import awatch

from gateway.domain._value import value
from gateway.domain.decisions import Decision
from gateway.domain.epoch import Epoch
from gateway.errors import ConfigError
from gateway.policy.agreement import Agree, Agreement, Alone, Holder
from gateway.policy.building import Built, Engine, build_of
from gateway.policy.refused import Refused
from gateway.policy.refusing import ClosedEngine, RefusingEngine
from gateway.policy.settings import OnChange, PolicyEvent, PolicySettings
from gateway.policy.sources import Snapshot, take

logger = logging.getLogger(__name__)

_LOOK_MS: Final = 5_000
"""How often it is compared, whether or not the system tells of a change: folders are exchanged, links
lead elsewhere, and there are file systems that tell nothing."""
_reads: Final = itertools.count(1)
"""Every look at a policy has a number: of two builds the one that was read later is the newer one."""


async def load(
    settings: PolicySettings,
    config: Mapping[str, Any],
    *,
    on_change: OnChange,
    clock: Callable[[], float] = time.time,
    required: bool = True,
    epoch: Epoch | None = None,
    agree: Agree | None = None,
) -> "PolicyHolder":
    """Put the policy of `settings` in force, and keep it up to date until it is closed.

    `config` becomes `data.douane.config`. `on_change` is told of the first policy too; it must not
    raise. One that is not `required` and cannot be used yet has an empty digest, and refuses.
    `epoch` is turned whenever another policy answers. `agree` says by whose leave, of many gateways.

    Raises:
        ConfigError: The policy cannot be used, with every problem.

    """
    holder = PolicyHolder(
        settings, config, on_change=on_change, clock=clock, epoch=epoch or Epoch(), agree=agree
    )
    try:
        await holder.begin(required=required)
    except BaseException:
        await holder.close()
        raise
    return holder


@value
class _Look:
    """What lay there when somebody looked."""

    number: int
    snapshot: Snapshot | None
    """`None` where it cannot be read, and of a central server."""
    print: str
    """What is another text whenever anything there is."""
    problem: ConfigError | None = None


class PolicyHolder:
    """Answers by the policy in force. A new one is built beside it and takes its place at once.

    A question, or all the questions of one list, are answered by the policy that was in force when
    they were asked, also if it is replaced meanwhile. There is one build at a time, and no build of
    what was read earlier takes the place of what was read later.
    """

    def __init__(
        self,
        settings: PolicySettings,
        config: Mapping[str, Any],
        *,
        on_change: OnChange,
        clock: Callable[[], float],
        epoch: Epoch,
        agree: Agree | None,
    ) -> None:
        self._settings = settings
        self._epoch = epoch
        self._config = config
        self._on_change = on_change
        self._clock = clock
        self._tenure = _Tenure(RefusingEngine(digest=""), number=0, print_="")
        self._changing = asyncio.Lock()
        self._stop = asyncio.Event()
        self._watcher: asyncio.Task[None] | None = None
        self._retiring: set[asyncio.Task[None]] = set()
        self._agreed = 0
        """The number of the last look that found in force, or refused for good reason, what lay there."""
        self._refused: Refused | None = None
        """What of that was refused, if it was."""
        self._lies = _Look(number=0, snapshot=None, print="")
        """What that which is being built is built of."""
        self.agreement: Agreement = (
            Alone(self._put_built) if agree is None else agree(self._holder())
        )
        """By whose leave anything is in force."""

    @property
    def digest(self) -> str:
        """Names the policy in force."""
        return self._tenure.engine.digest

    def holds(self, digest: str) -> bool:
        """Whether the policy of this name is in force; see `PolicyEngine`."""
        return self._tenure.engine.holds(digest)

    @property
    def number(self) -> int:
        """When the policy in force was read: a higher number was read later, by whatever holder."""
        return self._tenure.number

    async def evaluate(self, question: Mapping[str, Any]) -> Decision:
        """Answer one question by the policy in force."""
        with self._tenure as engine:
            return await engine.evaluate(question)

    async def evaluate_many(self, questions: Sequence[Mapping[str, Any]]) -> Sequence[Decision]:
        """Answer each question, in order, all by the policy in force now."""
        with self._tenure as engine:
            return await engine.evaluate_many(questions)

    async def judge_pin(self, question: Mapping[str, Any]) -> str:
        """Ask the policy in force what is to become of a changed manifest."""
        with self._tenure as engine:
            return await engine.judge_pin(question)

    async def pin_approvals(self, question: Mapping[str, Any]) -> int:
        """Ask the policy in force how many people must approve a definition."""
        with self._tenure as engine:
            return await engine.pin_approvals(question)

    async def self_approval(self, question: Mapping[str, Any]) -> bool:
        """Ask the policy in force whether a person may say yes to their own call."""
        with self._tenure as engine:
            return await engine.self_approval(question)

    async def begin(self, *, required: bool = True) -> None:
        """Put the first policy in force and begin to watch for the next.

        Raises:
            ConfigError: It cannot be used, although it is `required`.

        """
        await self.agree()
        if required and not self.number and self._refused is not None:
            raise self._refused.error
        self._watcher = asyncio.create_task(self._watch())

    async def reload_now(self, config: Mapping[str, Any] | None = None) -> PolicyEvent:
        """Build the policy again, with a new `config` if one is given, and say what came of it.

        A policy that cannot be used changes nothing: the one in force stays.
        """
        async with self._changing:
            config_before = self._config
            self._config = config_before if config is None else config
            event = await self._try(await self._look())
            if not event.ok:
                self._config = config_before
            await self._until_agreed()
        return event

    async def agree(self) -> None:
        """Return once that is in force which lies there, or it is known that it cannot be.

        Of many who ask at once one builds, and the others find that it has been done.
        """
        async with self._changing:
            await self._until_agreed()

    async def register(self, before: str, servers: str) -> None:
        """Have `servers` be what is registered at every gateway, in the place of `before`; see `Agreement`."""
        async with self._changing:
            await self.agreement.register(before, servers)

    async def catch_up(self, before: "PolicyHolder") -> None:
        """Return once this holder has seen what lies there later than `before` did.

        Until the event loop gets its next turn, nothing older is in force here than there.
        """
        await self.agree()
        while self._agreed <= before.number:
            await self.agree()

    async def close(self) -> None:
        """Stop watching and put the policy out of force: from now on nothing is answered.

        What is under way still cannot go on by a policy that nobody keeps up to date.
        """
        self._stop.set()
        last = self._tenure
        self._tenure = _Tenure(ClosedEngine(), last.number, last.print)
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait([self._watcher])
        await self.agreement.close()
        await asyncio.gather(*self._retiring)
        await last.engine.close()

    async def _until_agreed(self) -> None:
        while not self._agrees_with(look := await self._look()):
            await self._try(look)
        self._agreed = look.number

    def _agrees_with(self, look: _Look) -> bool:
        if self._tenure.print == look.print or self._stop.is_set():
            self._refused = None
            return True
        return self._refused is not None and self._refused.print == look.print

    async def _look(self) -> _Look:
        number, settings = next(_reads), self._settings
        if settings.is_central:
            # Its decisions are always those of what it has; what that is called, a poll finds out.
            return _Look(number=number, snapshot=None, print="central")
        try:
            snapshot = await asyncio.to_thread(take, settings)
        except ConfigError as error:
            told = repr((error.public, error.problems))
            return _Look(number=number, snapshot=None, print=told, problem=error)
        return _Look(number=number, snapshot=snapshot, print=snapshot.fingerprint)

    async def _try(self, look: _Look) -> PolicyEvent:
        old, first = self.digest, not self.number
        try:
            built = await self._known(old, look)
            self._lies = look
            origin = look.snapshot, self._config
            built = await self.agreement.settle(built, origin, first=first)
        except ConfigError as error:
            return self._refuse(look, error)
        event = self._changed(old, built)
        if first or event.new != event.old:
            self._on_change(event)
        return event

    def _changed(self, old: str, built: Built) -> PolicyEvent:
        return PolicyEvent(
            old=old,
            new=self.digest,
            ok=True,
            empty=built.is_empty,
            notices=built.notices,
            revision=self.agreement.revision,
        )

    def _refuse(self, look: _Look, error: ConfigError) -> PolicyEvent:
        problems = error.problems or (error.public,)
        event = PolicyEvent(old=self.digest, new=self.digest, ok=False, problems=problems)
        before, self._refused = self._refused, Refused(look.print, error)
        if before is None or before.print != look.print or before.problems != problems:
            self._on_change(event)
        else:
            self._refused.tries = before.tries + 1
        return event

    def _put_built(self, built: Built, *, last: bool = False) -> None:
        """Put what was built of what lies here in force; it may be the `last` to be so everywhere."""
        self._put(built.engine, replace(self._lies, number=next(_reads)) if last else self._lies)

    def _adopt(self, built: Built) -> None:
        """Put in force what another gateway has proposed. What lies here is what was replaced by it."""
        old = self.digest
        look = _Look(number=next(_reads), snapshot=None, print=self._tenure.print)
        self._put(built.engine, look)
        if old != self.digest:
            self._on_change(self._changed(old, built))

    def _holder(self) -> Holder:
        return Holder(
            settings=self._settings,
            decides=lambda: self.digest if self.number else "",
            put=partial(self._put_built, last=True),
            adopt=self._adopt,
            build=self._built,
        )

    def _put(self, engine: Engine, look: _Look) -> None:
        """Put `engine` in force, unless what is in force was read later, or nothing is to be any more."""
        before = self._tenure
        retired = _Tenure(engine, look.number, look.print)
        if look.number > before.number and not self._stop.is_set():
            self._refused = None
            if engine.digest == before.engine.digest and before.number:
                # It says the same in other files, or other tests do: what is known of it stays.
                before.number, before.print = look.number, look.print
            else:
                retired, self._tenure = before, retired
                self._epoch.turn()
        task = asyncio.create_task(_retire(retired))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def _known(self, old: str, look: _Look) -> Built:
        """Build an engine that can name its policy: a server may just now not answer."""
        if look.problem is not None:
            raise look.problem
        built = await self._built(look.snapshot, self._config)
        if old and not built.engine.digest:
            await built.engine.close()
            raise ConfigError("the policy server does not say which policy it has")
        return built

    async def _built(self, snapshot: Snapshot | None, config: Mapping[str, Any]) -> Built:
        return await build_of(
            snapshot, self._settings, config, clock=self._clock, renamed=self._epoch.turn
        )

    async def _watch(self) -> None:
        """Follow what lies there until it is cancelled: whatever that meets, it goes on."""
        while True:
            try:
                await self._watch_on()
            except Exception:
                logger.exception("following the policy met a bug; it is looked at again")
                await asyncio.sleep(_LOOK_MS / 1000)

    async def _watch_on(self) -> None:
        settings = self._settings
        if settings.is_central or settings.path.startswith("https://"):
            await asyncio.sleep(settings.poll)
            await (self.reload_now() if settings.is_central else self._look_again())
            return
        try:
            await self._follow(Path(settings.path))
        except OSError as error:
            # It is not there, or the system watches no more folders: then it is only looked at.
            logger.debug("the policy's folder cannot be watched: %s", error)
        await asyncio.sleep(_LOOK_MS / 1000)
        await self._look_again()

    async def _follow(self, path: Path) -> None:
        is_folder = await asyncio.to_thread(path.is_dir)
        # Of a bundle its folder: it is replaced, not written.
        async for _ in awatch(
            path if is_folder else path.parent,
            watch_filter=None,
            step=250,  # milliseconds: so often the watcher wakes, and so long nothing more changes
            recursive=is_folder,
            rust_timeout=_LOOK_MS,
            yield_on_timeout=True,
            stop_event=self._stop,
        ):
            await self._look_again()

    async def _look_again(self) -> None:
        await self.agree()
        refused = self._refused
        if refused is not None and refused.is_due:
            # What it failed of may have been the machine.
            async with self._changing:
                await self._try(await self._look())
                await self._until_agreed()


async def _retire(tenure: "_Tenure") -> None:
    await tenure.ended()
    await tenure.engine.close()


class _Tenure:
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
