"""What a person does with a policy at the command line: check it, test it, ask it."""

import time
from collections.abc import Mapping
from typing import Any

from gateway.domain.decisions import Decision
from gateway.errors import ConfigError
from gateway.policy.building import build
from gateway.policy.settings import PolicySettings
from gateway.policy.sources import read_sources
from gateway.policy.standard import RuleTest, run_tests
from gateway.policy.toolchain import find_opa


async def check(settings: PolicySettings, config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return everything that keeps a policy from being put in force; nothing if it could be."""
    try:
        engine = await build(settings, config, clock=time.time)
    except ConfigError as error:
        return error.problems or (error.public,)
    await engine.close()
    return ()


def run_own_tests(settings: PolicySettings) -> tuple[RuleTest, ...]:
    """Run the policy's own tests.

    Raises:
        ConfigError: They cannot be run.

    """
    opa = find_opa()
    return run_tests(opa, read_sources(settings, opa))


async def evaluate(
    settings: PolicySettings, config: Mapping[str, Any], question: Mapping[str, Any]
) -> Decision:
    """Ask a policy one question, by the engine that `settings` name, without putting it in force.

    Raises:
        ConfigError: The policy cannot be used.
        PolicyUnavailable: It has no usable answer.

    """
    engine = await build(settings, config, clock=time.time)
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
    engine = await build(settings, config, clock=time.time)
    try:
        return await engine.pin_approvals(question)
    finally:
        await engine.close()
