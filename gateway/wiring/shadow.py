"""The policy in force, and the candidate beside it where one is asked."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial

from gateway.config import Config
from gateway.domain._value import value
from gateway.policy.archive import PolicyArchive
from gateway.policy.authzen import AuthzenPoint
from gateway.policy.beside import Beside
from gateway.policy.candidate import Shadowed
from gateway.policy.reload import PolicyHolder, load
from gateway.policy.settings import FUEL, EngineKind, PolicySettings
from gateway.policy.shared import Shared
from gateway.ports import PolicyEngine
from gateway.web.metrics import Metrics
from gateway.wiring.foundation import now
from gateway.wiring.policy_files import policy_files
from gateway.wiring.reporting import CandidateReporter, PolicyReporter
from gateway.wiring.settings import decision_point, policy_data, policy_settings
from gateway.wiring.stores import Stores

ARCHIVE = "policies"
"""The folder in `data_dir` where the text of every policy that was in force is kept."""

_CANDIDATE_FUEL = FUEL // 10
"""What a candidate may take of the time of a call: some milliseconds."""


@value
class Policies:
    """What calls are decided by."""

    in_force: PolicyHolder
    candidate: PolicyHolder | None
    deciding: PolicyEngine
    """The policy in force; with a candidate, its answers are beside."""
    announce: Callable[[], None]
    """Tells of them, and from now on of every change: nothing is in force that is only built."""


@asynccontextmanager
async def policies(config: Config, store: Stores, metrics: Metrics) -> AsyncIterator[Policies]:
    """Put the configured policy in force, and ask the candidate beside it if there is one.

    A candidate that cannot be used is said to be so; the gateway starts without it.

    Raises:
        ConfigError: The policy cannot be used.

    """
    async with AsyncExitStack() as stack:
        settings = replace(
            policy_settings(config), keep=PolicyArchive(config.data_dir / ARCHIVE).keep
        )
        files = policy_files(config)
        reporter = PolicyReporter(store, metrics, problems=files.problems)
        in_force = await load(
            settings,
            policy_data(config),
            on_change=reporter,
            clock=now,
            epoch=store.epoch,
            agree=None if store.board is None else partial(Shared, store.board),
        )
        stack.push_async_callback(in_force.close)
        stack.push_async_callback(reporter.settle)
        deciding = await _beside(config, in_force, stack)
        if config.policy.candidate is None:
            yield Policies(
                in_force=in_force, candidate=None, deciding=deciding, announce=reporter.begin
            )
            return
        beside = CandidateReporter(store, metrics)
        candidate = await load(
            candidate_settings(config, settings),
            policy_data(config),
            on_change=beside,
            clock=now,
            required=False,
        )
        stack.push_async_callback(candidate.close)
        stack.push_async_callback(beside.settle)

        def announce() -> None:
            reporter.begin()
            beside.begin()

        shadowed = Shadowed(
            deciding,
            candidate,
            deadline_s=settings.deadline,
            on_answer=lambda verdict, live: metrics.candidates.labels(verdict, live).inc(),
        )
        yield Policies(in_force=in_force, candidate=candidate, deciding=shadowed, announce=announce)


async def _beside(config: Config, live: PolicyEngine, stack: AsyncExitStack) -> PolicyEngine:
    """Return `live` with the decision point behind it that has to allow calls too, if there is one."""
    settings = decision_point(config)
    if settings is None:
        return live
    point = AuthzenPoint(settings)
    stack.push_async_callback(point.close)
    return Beside(live, point)


def candidate_settings(config: Config, settings: PolicySettings) -> PolicySettings:
    """Return where the candidate is and who evaluates it.

    What decides nothing need not be signed; and a central server has no place for it.
    """
    return replace(
        settings,
        path=str(config.policy.candidate),
        engine=EngineKind.WASM if settings.server is not None else settings.engine,
        server=None,
        verification_key=None,
        fuel=_CANDIDATE_FUEL,
    )
