"""The policy's files in their configured place: compiled, tested and held against what there is."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gateway.builtin.run_code import own_pins
from gateway.config import Config
from gateway.domain.tools import Kind
from gateway.policy import commands
from gateway.policy.arguments import Takes
from gateway.policy.sources import codes_in, read_sources
from gateway.policy.targets import Known
from gateway.policy.toolchain import find_opa
from gateway.turns import Line
from gateway.wiring.beside import beside
from gateway.wiring.sensitive import classes_of
from gateway.wiring.settings import policy_data, policy_settings


def policy_files(config: Config) -> "PolicyFilesOf":
    """Return what checks and tests the policy of `config`, with no gateway and no data."""
    return PolicyFilesOf(lambda: config)


class PolicyFilesOf:
    """The policy in the configured place."""

    def __init__(self, current: Callable[[], Config]) -> None:
        self._current = current
        self._line = Line()

    async def check(self) -> Mapping[str, Sequence[str]]:
        """Compile it, and return its `problems` and `notices`.

        Raises:
            RateLimited: Too many checks and tests wait already.

        """
        config = self._current()
        checked = await self._line.take(
            lambda: commands.check(policy_settings(config), policy_data(config), _known(config))
        )
        return {"problems": checked.problems, "notices": checked.notices}

    async def problems(self) -> Sequence[str]:
        """Return its problems alone; raises as `check`."""
        return (await self.check())["problems"]

    async def rules(self) -> Mapping[str, Any]:
        """Read its files, and the codes that stand in each.

        Raises:
            RateLimited: As `check`.

        """
        config = self._current()
        return await self._line.take(lambda: asyncio.to_thread(_rules, config))

    async def test(self) -> Mapping[str, Any]:
        """Run its tests, and say how many passed and which failed.

        Raises:
            RateLimited: As `check`.

        """
        settings = policy_settings(self._current())
        tests, notices = await self._line.take(
            lambda: asyncio.to_thread(commands.run_own_tests, settings)
        )
        wrong = [test for test in tests if not test.passed]
        failures = [f"{test.where}: {test.name}" for test in wrong if not test.shipped]
        return {
            "passed": len(tests) - len(wrong),
            "changed": len(wrong) - len(failures),
            "failed": len(failures),
            "failures": failures,
            "notices": list(notices),
        }


def _rules(config: Config) -> Mapping[str, Any]:
    settings = policy_settings(config)
    if settings.is_central:
        return {"digest": "", "files": []}
    sources = read_sources(settings, find_opa())
    files = [{"file": path, "codes": codes_in(sources.files[path])} for path in sources.rego]
    return {"digest": sources.digest(policy_data(config)), "files": files}


def _known(config: Config) -> Known:
    """Return what there is for rules to name; of arguments nothing, if nothing is approved."""
    shown = beside(config).pins()
    own = tuple(own_pins(extracts=True).values())
    approved = [pin for pin in shown if pin.approved is not None]
    return Known(
        servers=frozenset(config.servers),
        quotas=tuple(quota.value for quota in config.limits.quotas),
        classes=classes_of(config.dlp),
        seen=tuple((pin.target.server, pin.target.name) for pin in (*shown, *own)),
        approved=tuple(
            Takes.of(pin.target.server, pin.target.name, pin.approved.definition.content)
            for pin in (*approved, *(own if approved else ()))
            if pin.approved is not None and pin.target.kind in (Kind.TOOL, Kind.PROMPT)
        ),
    )
