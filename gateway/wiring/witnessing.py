"""Who cosigns the log's checkpoints, by the configuration."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from gateway.audit.cosignature import WitnessKey
from gateway.config import Config
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.export.witness import DISAGREES, Witness, WitnessSink
from gateway.ports import AuditLog
from gateway.wiring.foundation import new_id, now
from gateway.wiring.posting import poster_to
from gateway.wiring.stores import Stores

_MOST_BYTES = 32 << 10
"""Of an answer: some lines, of which one is ours to have."""


def witnesses_of(config: Config, store: Stores) -> Iterator[tuple[str, WitnessSink]]:
    """Yield who has each witness cosign, under its cursor's name."""
    shown = store.cosignatures()
    for name, one in config.audit.checkpoints.witnesses.items():
        yield (
            follower_of(name),
            WitnessSink(
                Witness(name=name, url=one.url, key=WitnessKey.parse(one.key), every_s=one.every),
                poster=poster_to(one.url, config, most_bytes=_MOST_BYTES),
                shown=shown,
                alarm=partial(_record, store.audit),
                clock=now,
            ),
        )


def witness_keys_of(config: Config) -> list[WitnessKey]:
    """Return the keys of those who have to have cosigned the log."""
    return [WitnessKey.parse(one.key) for one in config.audit.checkpoints.witnesses.values()]


def follower_of(name: str) -> str:
    """Return the name under which a witness is asked."""
    return f"witness {name}"


async def _record(audit: AuditLog, told: str, evidence: Mapping[str, Any]) -> None:
    fields = {
        "code": DISAGREES,
        "reasons": [{"code": DISAGREES, "message": told}],
        "evidence": dict(evidence),
    }
    await audit.append(AuditRecord(kind=RecordKind.SYSTEM, time=now(), id=new_id(), fields=fields))
