"""A permitted call on record: decided anew as long as what it was decided on has changed."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from gateway.domain.audit import AuditRecord
from gateway.domain.calls import Permit
from gateway.errors import Changed, StateChanged
from gateway.pipeline.admission import Admission
from gateway.pipeline.trail import Trail
from gateway.ports import Ledger

T = TypeVar("T")

MOST_TRIES: Final = 3
"""How often a call is decided: what changes so fast is for whoever calls to wait for."""


async def recorded(
    ledger: Ledger,
    admission: Admission,
    permit: Permit,
    trail: Trail,
    intent: AuditRecord | None = None,
) -> None:
    """Have the intent of what is permitted on record (stage 8), with all that it uses up.

    It is `intent` where somebody has to know its id before.

    Raises:
        Changed: What it was decided on does not hold any more; nothing was used.
        AuditUnavailable: It is not durable.

    """
    trail.pinned = permit.premises.pinned
    try:
        entry = await ledger.put(intent or trail.intent(), permit.premises, permit.uses)
    except Changed:
        admission.not_recorded(permit)
        raise
    trail.intent_id = entry.id
    await admission.recorded(permit)


async def while_it_changes(carry: Callable[[], Awaitable[T]], trail: Trail) -> T:
    """Return what `carry` returns, which decides anew where the last decision rested on what has changed.

    Raises:
        StateChanged: It did so each time.

    """
    changed = Changed([])
    for _ in range(MOST_TRIES):
        try:
            return await carry()
        except Changed as error:
            changed = error
            trail.anew(changed.what)
    raise StateChanged(
        "what this call is decided on changes too fast; nothing was called", detail=str(changed)
    )
