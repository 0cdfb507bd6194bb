"""The policy in force, and how it changes while the gateway runs."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from watchfiles import awatch

from gateway.domain.decisions import Decision
from gateway.errors import ConfigError
from gateway.policy import lint
from gateway.policy.archive import PolicyArchive
from gateway.policy.bundle import Policy, compile_wasm, prepare
from gateway.policy.managed import ManagedEngine
from gateway.policy.opa import Opa
from gateway.policy.reads import reads_of
from gateway.policy.refusing import RefusingEngine
from gateway.policy.rest import RestEngine
from gateway.policy.settings import FUEL, EngineKind, OnChange, PolicyEvent, PolicySettings
from gateway.policy.sources import read_sources
from gateway.policy.toolchain import find_opa
from gateway.policy.wasm import MissingBuiltins, WasmEngine
from gateway.ports import PolicyEngine


class Engine(PolicyEngine, Protocol):
    """An engine of this room: it can be put out of force."""

    async def close(self) -> None:
        """Give back what it holds. Nobody asks it after that."""
        ...


async def load(
    settings: PolicySettings,
    config: Mapping[str, Any],
    *,
    on_change: OnChange,
    clock: Callable[[], float] = time.time,
    required: bool = True,
) -> "PolicyHolder":
    """Put the policy of `settings` in force, and keep it up to date until it is closed.

    `config` becomes `data.douane.config`. `on_change` is told of the first policy too; it must not
    raise. One that is not `required` and cannot be used yet has an empty digest, and refuses.

    Raises:
        ConfigError: The policy cannot be used, with every problem.

    """
    holder = PolicyHolder(settings, config, on_change=on_change, clock=clock)
    await holder.begin(required=required)
    return holder


class PolicyHolder:
    """Answers by the policy in force. A new one is built beside it and takes its place at once.

    A question, or all the questions of one list, are answered by the policy that was in force when
    they were asked, also if it is replaced meanwhile.
    """

    def __init__(
        self,
        settings: PolicySettings,
        config: Mapping[str, Any],
        *,
        on_change: OnChange,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._config = config
        self._on_change = on_change
        self._clock = clock
        self._tenure = _Tenure(RefusingEngine(digest=""))
        self._changing = asyncio.Lock()
        self._stop = asyncio.Event()
        self._watcher: asyncio.Task[None] | None = None

    @property
    def digest(self) -> str:
        """Names the policy in force."""
        return self._tenure.engine.digest

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
        """Put the first policy in force and begin to watch for the next."""
        try:
            self._tenure = _Tenure(await self._build())
        except ConfigError as error:
            if required:
                raise
            problems = error.problems or (error.public,)
            self._on_change(PolicyEvent(old="", new="", ok=False, problems=problems))
        else:
            self._on_change(PolicyEvent(old="", new=self.digest, ok=True))
        self._watcher = asyncio.create_task(self._watch())

    async def reload_now(self, config: Mapping[str, Any] | None = None) -> PolicyEvent:
        """Read the policy again, with a new `config` if one is given, and say what came of it.

        A policy that cannot be used changes nothing: the one in force stays.
        """
        async with self._changing:
            old, config_before = self.digest, self._config
            self._config = config_before if config is None else config
            try:
                engine = await self._known(old)
            except ConfigError as error:
                self._config = config_before
                problems = error.problems or (error.public,)
                event = PolicyEvent(old=old, new=old, ok=False, problems=problems)
            else:
                event = PolicyEvent(old=old, new=engine.digest, ok=True)
                await (engine.close() if engine.digest == old else self._replace(engine))
        if not event.ok or event.new != event.old:
            self._on_change(event)
        return event

    async def close(self) -> None:
        """Stop watching and put the policy out of force."""
        self._stop.set()
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
        await self._tenure.engine.close()

    async def _replace(self, engine: Engine) -> None:
        retired, self._tenure = self._tenure, _Tenure(engine)
        await retired.ended()
        await retired.engine.close()

    async def _known(self, old: str) -> Engine:
        """Build an engine that can name its policy: a server may just now not answer."""
        engine = await self._build()
        if old and not engine.digest:
            await engine.close()
            raise ConfigError("the policy server does not say which policy it has")
        return engine

    async def _build(self) -> Engine:
        return await build(self._settings, self._config, clock=self._clock)

    async def _watch(self) -> None:
        settings = self._settings
        central = settings.engine is EngineKind.OPA and settings.server is not None
        if central or settings.path.startswith("https://"):
            while True:
                await asyncio.sleep(settings.poll)
                await self.reload_now()
        while True:
            with contextlib.suppress(FileNotFoundError):
                async for _ in awatch(_folder_of(settings.path), stop_event=self._stop):
                    await self.reload_now()
            await asyncio.sleep(settings.poll)
            if not self.digest and _is_there(settings.path):
                await self.reload_now()


def _folder_of(path: str) -> Path:
    """Return what to watch: a bundle's folder rather than a file, which is replaced, not written."""
    return Path(path) if Path(path).is_dir() else Path(path).parent


def _is_there(path: str) -> bool:
    return Path(path).exists()


class _Tenure:
    """An engine's time in force; it is over when the last question asked of it is answered."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._asked = 0
        self._over: asyncio.Future[None] | None = None

    def __enter__(self) -> Engine:
        self._asked += 1
        return self.engine

    def __exit__(self, *_: object) -> None:
        self._asked -= 1
        if self._asked == 0 and self._over is not None:
            self._over.set_result(None)

    async def ended(self) -> Self:
        """Return once nobody waits for an answer any more. Called once, after it was replaced."""
        if self._asked:
            self._over = asyncio.get_running_loop().create_future()
            await self._over
        return self


async def build(
    settings: PolicySettings, config: Mapping[str, Any], *, clock: Callable[[], float]
) -> Engine:
    """Build the engine that `settings` name, checked and tested; the event loop goes on meanwhile.

    Raises:
        ConfigError: The policy cannot be used.

    """
    if settings.engine is EngineKind.OPA and settings.server is not None:
        return await RestEngine.connect(settings.server, deadline=settings.deadline)
    opa, policy = await asyncio.to_thread(_prepared, settings, config)
    if "decision" not in policy.entrypoints:
        return RefusingEngine(digest=policy.digest)
    if settings.engine is EngineKind.OPA:
        return await ManagedEngine.start(opa, policy, deadline=settings.deadline)
    return await asyncio.to_thread(wasm_engine, opa, policy, clock, fuel=settings.fuel)


def _prepared(settings: PolicySettings, config: Mapping[str, Any]) -> tuple[Opa, Policy]:
    opa = find_opa()
    policy = prepare(opa, read_sources(settings, opa), config)
    if settings.archive is not None:
        PolicyArchive(settings.archive).keep(policy.sources, config)
    return opa, policy


def wasm_engine(
    opa: Opa, policy: Policy, clock: Callable[[], float], *, fuel: int = FUEL
) -> WasmEngine:
    """Compile a policy for this process, which takes a second.

    Raises:
        ConfigError: It cannot be run here.

    """
    try:
        return WasmEngine(
            compile_wasm(opa, policy),
            policy.data,
            digest=policy.digest,
            clock=clock,
            reads=reads_of(policy.modules),
            fuel=fuel,
        )
    except MissingBuiltins as error:
        problems = [
            f"{place}: {name} needs `engine: opa`"
            for name in error.names
            for place in lint.places(policy.modules, name)
        ]
        raise ConfigError(error.public, problems=problems or error.names) from error
