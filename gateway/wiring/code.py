"""Code mode, wired: the interpreter and its processes, and the tool that runs programs in them."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from gateway.builtin.broker import Carrier
from gateway.builtin.client_models import ClientModels
from gateway.builtin.code import CodeMode, program_tool
from gateway.builtin.offers import Offer, Offers, Sight
from gateway.config import Config
from gateway.domain.programs import Language
from gateway.errors import ConfigError
from gateway.flow.redaction import redaction
from gateway.oauth.present import Present
from gateway.ports.sandbox import Confinement
from gateway.ports.scripts import ScriptStore
from gateway.sandbox import deno
from gateway.sandbox.declarations import typescript_stub
from gateway.sandbox.languages import Engines
from gateway.sandbox.monty import confinement_here, monty_engine
from gateway.sandbox.stubs import python_stub
from gateway.sandbox.turns import Turns
from gateway.wire.jsontext import WireLimits
from gateway.wiring.foundation import new_id, now


@asynccontextmanager
async def engine_of(config: Config) -> AsyncIterator[Engines | None]:
    """Start what runs programs, if any are to be run.

    Raises:
        ConfigError: An interpreter is missing, or has no jail although it must.

    """
    if not config.code.enabled:
        yield None
        return
    limits = config.code.limits.value
    async with AsyncExitStack() as stack:
        python = await stack.enter_async_context(monty_engine(limits, config.data_dir))
        typescript = None
        if has_typescript(config):
            engine = deno.deno_engine(
                limits, config.data_dir, type_check=config.code.typescript_check
            )
            typescript = await stack.enter_async_context(engine)
        engines = Engines(python, typescript)
        for language in engines.languages:
            held = engines.held(language)
            if config.code.jail == "required" and not held.jailed:
                raise ConfigError(
                    "programs must run in a jail, and there is none",
                    problems=[f"{held.reason}; or write `code: {{jail: auto}}`"],
                )
        yield engines


def has_typescript(config: Config) -> bool:
    """Whether programs in TypeScript are to be run, and can be.

    Raises:
        ConfigError: They are to be, and cannot.

    """
    if config.code.typescript == "off":
        return False
    there = deno.installed() is not None
    if config.code.typescript == "required" and not there:
        raise ConfigError("programs must be run in TypeScript, and cannot", problems=[deno.MISSING])
    return there


def stub_of(offer: Offer, language: Language = Language.PYTHON) -> str:
    """Return a tool as the function that a program calls."""
    tool = program_tool(offer)
    return python_stub(tool) if language is Language.PYTHON else typescript_stub(tool)


def told_of(engines: Engines | None) -> Mapping[str, str]:
    """Return what `/readyz` says of programs; nothing where none are run."""
    if engines is None:
        return {}
    told = {"programs": _held(engines, Language.PYTHON)}
    there = Language.TYPESCRIPT in engines.languages
    return told | {"typescript": _held(engines, Language.TYPESCRIPT) if there else "not there"}


def _held(engines: Engines, language: Language) -> str:
    held = engines.held(language)
    text = "jailed" if held.jailed else f"not jailed: {held.reason}"
    return text if engines.checks(language) else f"{text}; types are not checked"


async def probe_programs(config: Config) -> Mapping[str, Confinement | str]:
    """Try what would hold programs here, by language; why there is none of one that is not there.

    Nothing where none are to be run.

    Raises:
        ConfigError: An interpreter is missing that must be there.

    """
    if not config.code.enabled:
        return {}
    limits = config.code.limits.value
    found: dict[str, Confinement | str] = {"python": await confinement_here(limits)}
    if has_typescript(config):
        held = await deno.deno_confinement(limits)
        found["typescript"] = held or deno.MISSING
    else:
        closed = config.code.typescript == "off"
        found["typescript"] = "it is switched off" if closed else deno.MISSING
    return found


def code_mode(
    config: Config,
    engine: Engines | None,
    *,
    offers: Offers,
    sight: Sight,
    scripts: ScriptStore,
    carrier: Callable[[], Carrier],
    models: ClientModels | None,
    tasks: bool,
    present: Present,
) -> CodeMode | None:
    """Return the tool that runs programs in `engine`, if there is one.

    What waits goes on for those who were `present` since it began.
    """
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
        models=models,
        tasks=tasks,
        languages=engine.languages,
        absent=lambda principal, since: present.of("", principal).since(since),
    )


def models_of(config: Config) -> ClientModels | None:
    """Return what asks clients' models, if programs may have them read something."""
    asks = config.code.enabled and config.code.extract == "client"
    return ClientModels(new_id=new_id) if asks else None
