"""From what lies there to an engine that may be put in force."""

import asyncio
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from gateway.domain._value import value
from gateway.errors import ConfigError
from gateway.policy import lint
from gateway.policy.bundle import Policy, compile_wasm, prepare
from gateway.policy.in_words import in_words
from gateway.policy.opa import Opa
from gateway.policy.reads import reads_of
from gateway.policy.refusing import RefusingEngine
from gateway.policy.settings import FUEL, EngineKind, PolicySettings
from gateway.policy.sources import Snapshot, sources_of, take
from gateway.policy.toolchain import find_opa
from gateway.policy.wasm import MissingBuiltins, WasmEngine
from gateway.ports import PolicyEngine

EMPTY: Final = "no rule says what data.douane.decision is, so every call is refused"


class Engine(PolicyEngine, Protocol):
    """An engine of this room: it can be put out of force."""

    async def close(self) -> None:
        """Give back what it holds. Nobody asks it after that."""
        ...


@value
class Built:
    """An engine that may be put in force."""

    engine: Engine
    notices: tuple[str, ...] = ()
    """What its operator should know and is not wrong."""

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing about any decision: then all are a no."""
        return isinstance(self.engine, RefusingEngine)


async def build(
    settings: PolicySettings, config: Mapping[str, Any], *, clock: Callable[[], float] = time.time
) -> Built:
    """Build the engine that `settings` name, of what lies there now; as `build_of`.

    Raises:
        ConfigError: The policy cannot be used.

    """
    if settings.is_central:
        return await build_of(None, settings, config, clock=clock)
    return await build_of(await asyncio.to_thread(take, settings), settings, config, clock=clock)


async def build_of(
    snapshot: Snapshot | None,
    settings: PolicySettings,
    config: Mapping[str, Any],
    *,
    clock: Callable[[], float],
    renamed: Callable[[], None] = lambda: None,
) -> Built:
    """Build an engine of `snapshot`, checked and tested; the event loop goes on meanwhile.

    A central server's policy lies there, so of it there is no snapshot; `renamed` is called whenever
    it turns out to be another one.

    Raises:
        ConfigError: The policy cannot be used, or nobody can say just now if it can.

    """
    with in_words("the policy cannot be built"):
        return await _built(snapshot, settings, config, clock, renamed)


async def _built(
    snapshot: Snapshot | None,
    settings: PolicySettings,
    config: Mapping[str, Any],
    clock: Callable[[], float],
    renamed: Callable[[], None],
) -> Built:
    if snapshot is None:
        if settings.server is None:
            raise ConfigError("there is no central policy server")
        from gateway.policy.rest import RestEngine  # noqa: PLC0415 - it brings two HTTP clients

        server, deadline = settings.server, settings.deadline
        engine = await RestEngine.connect(server, deadline=deadline, renamed=renamed)
        return Built(engine=engine)
    try:
        opa, policy = await asyncio.to_thread(_prepared, snapshot, settings, config)
        ready = await _engine(opa, policy, settings, clock)
        said = (EMPTY,) if isinstance(ready, RefusingEngine) else ()
        return Built(engine=ready, notices=(*said, *policy.notices))
    except (OSError, subprocess.SubprocessError) as error:
        # A full disk, a machine that is too slow: it may do tomorrow.
        raise ConfigError("the policy cannot be built here", problems=[str(error)]) from error


async def _engine(
    opa: Opa, policy: Policy, settings: PolicySettings, clock: Callable[[], float]
) -> Engine:
    if "decision" not in policy.entrypoints:
        return RefusingEngine(digest=policy.digest)
    if settings.engine is EngineKind.OPA:
        from gateway.policy.managed import ManagedEngine  # noqa: PLC0415 - likewise

        return await ManagedEngine.start(opa, policy, deadline=settings.deadline)
    return await asyncio.to_thread(wasm_engine, opa, policy, clock, fuel=settings.fuel)


def _prepared(
    snapshot: Snapshot, settings: PolicySettings, config: Mapping[str, Any]
) -> tuple[Opa, Policy]:
    opa = find_opa()
    policy = prepare(opa, sources_of(snapshot, settings, opa), config)
    if settings.keep is not None:
        settings.keep(policy.sources, config)
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
