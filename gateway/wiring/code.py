"""Code mode, wired: the interpreter and its processes, and the tool that runs programs in them."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from gateway.builtin.broker import Carrier
from gateway.builtin.code import CodeMode, program_tool
from gateway.builtin.offers import Offer, Offers, Sight
from gateway.config import Config
from gateway.errors import ConfigError
from gateway.flow.redaction import redaction
from gateway.ports.sandbox import Confinement, Engine
from gateway.ports.scripts import ScriptStore
from gateway.sandbox.monty import confinement_here, monty_engine
from gateway.sandbox.stubs import python_stub
from gateway.sandbox.turns import Turns
from gateway.wire.jsontext import WireLimits
from gateway.wiring.foundation import new_id, now


@asynccontextmanager
async def engine_of(config: Config) -> AsyncIterator[Engine | None]:
    """Start what runs programs, if any are to be run.

    Raises:
        ConfigError: The interpreter is missing, or has no jail although it must.

    """
    if not config.code.enabled:
        yield None
        return
    async with monty_engine(config.code.limits.value, config.data_dir) as engine:
        confinement = engine.confinement
        if config.code.jail == "required" and not confinement.jailed:
            raise ConfigError(
                "programs must run in a jail, and there is none",
                problems=[f"{confinement.reason}; or write `code: {{jail: auto}}`"],
            )
        yield engine


def stub_of(offer: Offer) -> str:
    """Return a tool as the function that a program calls."""
    return python_stub(program_tool(offer))


def told_of(engine: Engine | None) -> Mapping[str, str]:
    """Return what `/readyz` says of programs; nothing where none are run."""
    if engine is None:
        return {}
    held = engine.confinement
    return {"programs": "jailed" if held.jailed else f"not jailed: {held.reason}"}


async def probe_programs(config: Config) -> Confinement | None:
    """Try what would hold programs here; `None` where none are to be run.

    Raises:
        ConfigError: The interpreter is missing.

    """
    return await confinement_here(config.code.limits.value) if config.code.enabled else None


def code_mode(
    config: Config,
    engine: Engine | None,
    *,
    offers: Offers,
    sight: Sight,
    scripts: ScriptStore,
    carrier: Callable[[], Carrier],
) -> CodeMode | None:
    """Return the tool that runs programs in `engine`, if there is one."""
    if engine is None:
        return None
    held = [ref.resolve(os.environ).reveal() for ref in config.references]
    return CodeMode(
        offers=offers,
        sight=sight,
        engine=engine,
        scripts=scripts,
        carrier=carrier,
        limits=WireLimits(json_depth=config.limits.json_depth),
        redact=redaction(held),
        turns=Turns(config.code.limits.runs).of,
        waits_s=config.code.wait,
        clock=now,
        new_id=new_id,
    )
