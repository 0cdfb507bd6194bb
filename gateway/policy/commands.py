"""What a person does with a policy at the command line: check it, test it, ask it."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from gateway.domain._value import value
from gateway.domain.decisions import Decision
from gateway.errors import ConfigError
from gateway.policy.arguments import misnamed
from gateway.policy.building import EMPTY, build
from gateway.policy.bundle import prepare
from gateway.policy.dlp_table import absent_in_dlp
from gateway.policy.missing import maybe_missing
from gateway.policy.settings import PolicySettings
from gateway.policy.shipped import is_shipped
from gateway.policy.sources import read_sources
from gateway.policy.standard import changed, run_tests
from gateway.policy.targets import Known, absent, absent_in_access, absent_in_quotas
from gateway.policy.testing import RuleTest
from gateway.policy.toolchain import find_opa

_INIT = "; the shipped decision.rego does, which `douane init` writes into an empty folder"


@value
class Checked:
    """What there is to say of a policy that is not in force."""

    problems: tuple[str, ...] = ()
    """Whatever keeps it from being put in force, or from ever saying yes."""
    notices: tuple[str, ...] = ()
    """What its operator should know and is not wrong."""


async def check(
    settings: PolicySettings, config: Mapping[str, Any], known: Known | None = None
) -> Checked:
    """Return what is wrong with a policy: it cannot be put in force, or rules of it never hold.

    Either they can never say yes, or they name a server, a tool or an argument that is not there.
    """
    try:
        built = await build(settings, config, clock=time.time)
    except ConfigError as error:
        return Checked(problems=error.problems or (error.public,))
    await built.engine.close()
    if built.is_empty:
        return Checked(problems=(f"{settings.path}: {EMPTY}{_INIT}",))
    if settings.is_central or known is None:
        return Checked(notices=built.notices)
    found = await asyncio.to_thread(_looked_at, settings, config, known)
    return Checked(problems=found.problems, notices=(*built.notices, *found.notices))


def _looked_at(settings: PolicySettings, config: Mapping[str, Any], known: Known) -> Checked:
    """Return what the rules say of names that are not there, and of what may not be."""
    opa = find_opa()
    policy = prepare(opa, read_sources(settings, opa), config, tested=False)
    files = policy.sources.files
    own = [module for module in policy.modules if not is_shipped(files[module.path])]
    data = policy.data.get("douane", {})
    problems = (
        *misnamed(own, known.approved),
        *absent(own, known),
        *absent_in_access(data.get("access"), known),
        *absent_in_quotas(data.get("quotas"), known),
        *absent_in_dlp(data.get("dlp"), known.classes),
    )
    return Checked(problems=problems, notices=tuple(maybe_missing(own, known.approved)))


def run_own_tests(settings: PolicySettings) -> tuple[tuple[RuleTest, ...], tuple[str, ...]]:
    """Run the policy's own tests, and say which rules change what shipped ones say.

    Raises:
        ConfigError: They cannot be run.

    """
    opa = find_opa()
    sources = read_sources(settings, opa)
    tests = run_tests(opa, sources)
    return tests, changed(opa, sources, tests)


async def evaluate(
    settings: PolicySettings, config: Mapping[str, Any], question: Mapping[str, Any]
) -> Decision:
    """Ask a policy one question, by the engine that `settings` name, without putting it in force.

    Raises:
        ConfigError: The policy cannot be used.
        PolicyUnavailable: It has no usable answer.

    """
    engine = (await build(settings, config, clock=time.time)).engine
    try:
        return await engine.evaluate(question)
    finally:
        await engine.close()


async def pin_approvals(
    settings: PolicySettings, config: Mapping[str, Any], question: Mapping[str, Any]
) -> int:
    """Ask a policy how many people must approve a definition, without putting it in force.

    Raises:
        ConfigError: The policy cannot be used.
        PolicyUnavailable: It has no usable answer.

    """
    engine = (await build(settings, config, clock=time.time)).engine
    try:
        return await engine.pin_approvals(question)
    finally:
        await engine.close()
