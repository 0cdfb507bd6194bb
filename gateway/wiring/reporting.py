"""What is told to the log, the metrics and the audit log when the policy changes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from gateway.domain.audit import AuditRecord, RecordKind
from gateway.errors import AuditUnavailable, GatewayError
from gateway.policy.settings import PolicyEvent
from gateway.web.metrics import Metrics
from gateway.wiring.foundation import new_id, now
from gateway.wiring.stores import Stores

logger = logging.getLogger(__name__)


class PolicyReporter:
    """Tells the log, the metrics and the audit log of every policy change, in order."""

    method = "policy.reload"
    done, what = "in_force", "policy %s is in force"

    def __init__(
        self,
        store: Stores,
        metrics: Metrics,
        *,
        problems: Callable[[], Awaitable[Sequence[str]]] | None = None,
    ) -> None:
        """`problems` says what of the files never holds; it is asked beside, after each change."""
        self._store = store
        self._metrics = metrics
        self._problems = problems
        self._looking: asyncio.Task[None] | None = None
        self._last: asyncio.Task[None] | None = None
        self._held: list[PolicyEvent] | None = []
        """What there is to tell once what decides is in force; `None` since it is."""

    def __call__(self, event: PolicyEvent) -> None:
        """Take note of a change; it is told at once, or when this comes into force."""
        if self._held is None:
            self._tell(event)
        else:
            self._held.append(event)

    def begin(self) -> None:
        """Tell what has happened so far, and from now on whatever happens."""
        held, self._held = self._held or [], None
        for event in held:
            self._tell(event)

    def _tell(self, event: PolicyEvent) -> None:
        self._count(event)
        if event.ok:
            logger.info(self.what, event.new)
            for notice in event.notices:
                logger.warning("policy: %s", notice)
        else:
            logger.error(
                "a new policy was refused (%s), %s stays: %s",
                self.method,
                event.old or "none",
                "; ".join(event.problems),
            )
        self._last = asyncio.create_task(self._record(event, self._last))
        if event.ok and event.old and self._problems is not None:
            self._looking = asyncio.create_task(self._look(self._problems))

    async def settle(self) -> None:
        """Return once every change so far is recorded, or known not to be."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        if self._last is not None:
            await self._last

    async def _look(self, problems: Callable[[], Awaitable[Sequence[str]]]) -> None:
        """Tell the log of rules that are in force and never hold: nobody may have checked them."""
        try:
            for problem in await problems():
                logger.warning("policy: in force, and wrong: %s", problem)
        except GatewayError as error:
            why = "; ".join((error.public, *getattr(error, "problems", ())))
            logger.warning(
                "what lies there was not looked through for rules that never hold: %s", why
            )
        except Exception:
            logger.exception("checking the policy in force met a bug")

    async def _record(self, event: PolicyEvent, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before
        problems = event.problems or (self.done.replace("_", " "),)
        told = [("policy", text) for text in problems] + [("notice", n) for n in event.notices]
        fields = {
            "method": self.method,
            "verdict": "allow" if event.ok else "deny",
            "code": self.done if event.ok else "refused",
            "policy_digest": event.new,
            "evidence": {"before": event.old}
            | ({"revision": event.revision} if event.revision else {}),
            "reasons": [{"code": code, "message": text} for code, text in told[:50]],
        }
        record = AuditRecord(kind=RecordKind.POLICY, time=now(), id=new_id(), fields=fields)
        try:
            await self._store.audit.append(record)
        except AuditUnavailable as error:
            # Every decision names the policy that made it, and none is given unrecorded.
            logger.error("a policy change could not be recorded: %s", error.detail or error.public)  # noqa: TRY400 - no bug, no traceback
        except Exception:
            logger.exception("recording a policy change met a bug")

    def _count(self, event: PolicyEvent) -> None:
        self._metrics.reloads.labels("ok" if event.ok else "refused").inc()
        if event.ok:
            self._metrics.empty.set(event.empty)


class CandidateReporter(PolicyReporter):
    """Tells the log and the audit log which candidate is asked; it counts for nothing."""

    method = "policy.candidate"
    done, what = "candidate", "candidate policy %s is asked beside the one in force"

    def _count(self, event: PolicyEvent) -> None:
        """Leave the count of what came into force as it is."""
