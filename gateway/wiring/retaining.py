"""What is old leaves the log: by people's command, and by itself where it is configured."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gateway.admin.journal import Journal
from gateway.admin.keeping import KeepingDesk, Retention
from gateway.audit.bundle import BundleVerification, NotABundle
from gateway.audit.cosignature import WitnessKey
from gateway.config import Config
from gateway.domain.audit import AuditRecord, LogEntry, RecordKind
from gateway.errors import AuditUnavailable, ConfigError, RateLimited
from gateway.storage.retention import NotRemovable
from gateway.storage.verify import Verification
from gateway.wiring.beside import beside
from gateway.wiring.foundation import new_id, now
from gateway.wiring.stores import Stores
from gateway.wiring.witnessing import witness_keys_of

logger = logging.getLogger(__name__)

_ARCHIVE = "archive"
_FIRST_S = 60.0
_EVERY_S = 3600.0


def retention_of(config: Config, store: Stores) -> Retention:
    """Return what archives and removes records of `store`."""

    async def record(code: str, message: str, evidence: Mapping[str, Any]) -> LogEntry:
        fields = {
            "code": code,
            "reasons": [{"code": code, "message": message}],
            "evidence": dict(evidence),
        }
        return await store.audit.append(
            AuditRecord(kind=RecordKind.SYSTEM, time=now(), id=new_id(), fields=fields)
        )

    section = config.audit.retention
    chosen = None if section is None else section.archive
    return store.retention(archive=chosen or config.data_dir / _ARCHIVE, record=record)


def verify_log(
    config: Config,
    checkpoints: Sequence[tuple[str, str]],
    witnesses: Sequence[WitnessKey] = (),
    *,
    without_configured: bool = False,
) -> Verification:
    """Verify the log of `config`, also beside a running gateway, and against `checkpoints`.

    Each of `witnesses`, and of those that are configured unless they are left out, has to have
    cosigned it.

    Raises:
        ConfigError: There is no log.

    """
    configured = [] if without_configured else witness_keys_of(config)
    asked = list(dict.fromkeys([*witnesses, *configured]))
    return beside(config).verify(checkpoints=checkpoints, witnesses=asked)


def told_of_journal(config: Config) -> str:
    """Return what is to be known of records that the log of `config` has not yet; empty of none.

    What was made sure of but not taken up is no part of the log, and nothing that is signed.
    """
    try:
        waiting = beside(config).waiting()
    except (ConfigError, OSError) as error:
        return f"the journal cannot be read, which may have records that the log has not: {error}"
    if not waiting:
        return ""
    return (
        f"{waiting} more records stand in the journal: a gateway that runs takes them up in a moment, "
        "the next start otherwise"
    )


def verify_segment(config: Config, path: Path) -> BundleVerification:
    """Verify an archived file by the key of the log of `config`, and against that log.

    Raises:
        ConfigError: There is no log, or the file cannot be read or is no archive.

    """
    try:
        return beside(config).segment_verified(path)
    except (OSError, NotABundle) as error:
        raise ConfigError(f"{path} cannot be verified: {error}") from error


def keeping_desk(current: Callable[[], Config], store: Stores, journal: Journal) -> KeepingDesk:
    """Return where people come to the log's age."""
    return KeepingDesk(retention_of(current(), store), journal, clock=now)


async def retain(config: Config, store: Stores) -> None:
    """Archive and remove what is older than `audit.retention.keep`, until cancelled."""
    section = config.audit.retention
    if section is None or section.keep is None:
        return
    retention = retention_of(config, store)
    await asyncio.sleep(_FIRST_S)
    while True:
        await retained(retention, section.keep)
        await asyncio.sleep(_EVERY_S)


async def retained(retention: Retention, keep_s: float) -> None:
    """Archive and remove once what is older than `keep_s`; what cannot leave is logged."""
    before_us = int((now() - keep_s) * 1e6)
    try:
        await retention.archive(before_us)
        await retention.prune(before_us)
    except NotRemovable as error:
        logger.info("nothing leaves the audit log: %s", error)
    except (OSError, ConfigError, AuditUnavailable, RateLimited) as error:
        logger.warning("old records could not leave the audit log: %s", error)
