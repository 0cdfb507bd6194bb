"""What happens to the process itself, on record: its start, its end, another configuration."""

import logging
import os
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from gateway.config import Config
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.document import Digest, canonical
from gateway.errors import AuditUnavailable
from gateway.ports import AuditLog
from gateway.ports.stop import Standstill
from gateway.wiring.foundation import new_id, now
from gateway.wiring.stores import Switch

logger = logging.getLogger(__name__)


def stopped_facts(stop: Switch) -> Mapping[str, str]:
    """Return what /readyz says of a stop; nothing, if calls are carried."""
    return {} if stop.holds is None else {"stopped": f"every call is refused, {stop.holds}"}


def digest_of(config: Config) -> str:
    """Return the digest of everything that is configured; of secrets, where they are."""
    return str(Digest.of(canonical(config.model_dump(mode="json", warnings=False))))


class Happened:
    """Records what no caller and no person does. What cannot be recorded happens all the same."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit

    def stands_still(self, held: Standstill | None) -> None:
        """Say in the log that a stop goes on, if one does."""
        if held is not None:
            logger.warning("every call is refused, %s; `douane policy go` ends that", held)

    async def started(
        self, config: Config, policy_digest: str, held: Standstill | None = None
    ) -> None:
        """Record what runs from now on, and by which rules; or that everything is refused."""
        installed = version("douane")
        await self._record(
            RecordKind.SYSTEM,
            "started",
            f"process {os.getpid()}, version {installed}",
            config_digest=digest_of(config),
            policy_digest=policy_digest,
            evidence={
                "version": installed,
                "process": os.getpid(),
                **({} if held is None else {"stopped": str(held)}),
            },
        )

    async def stopped(self, config: Config, policy_digest: str) -> None:
        """Record that nothing more is carried."""
        await self._record(
            RecordKind.SYSTEM,
            "stopped",
            "drained",
            config_digest=digest_of(config),
            policy_digest=policy_digest,
        )

    async def reloaded(self, before: Config, after: Config, policy_digest: str) -> None:
        """Record which configuration is in force from now on."""
        await self._record(
            RecordKind.CONFIG,
            "reloaded",
            str(after.file),
            config_digest=digest_of(after),
            policy_digest=policy_digest,
            evidence={"before": digest_of(before)},
        )

    async def reload_refused(self, config: Config, problems: str) -> None:
        """Record that `config` stays in force, and why."""
        await self._record(
            RecordKind.CONFIG,
            "reload_refused",
            problems,
            verdict="deny",
            config_digest=digest_of(config),
        )

    async def _record(self, kind: RecordKind, code: str, message: str, **more: Any) -> None:
        fields: Mapping[str, Any] = {
            "code": code,
            "reasons": [{"code": code, "message": message}],
            **more,
        }
        try:
            await self._audit.append(AuditRecord(kind=kind, time=now(), id=new_id(), fields=fields))
        except AuditUnavailable as error:
            logger.error("%s could not be recorded: %s", code, error.detail or error.public)  # noqa: TRY400 - no bug, no traceback
