"""A permitted call on record: decided anew as long as what it was decided on has changed."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from gateway.domain.audit import AuditRecord
from gateway.domain.calls import Permit
from gateway.errors import (
    ApprovalRequired,
    Changed,
    GatewayError,
    LimitExceeded,
    RateLimited,
    Refusal,
    StateChanged,
)
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
        admission.take_back(permit)
        raise
    trail.intent_id = entry.id
    if permit.access is not None and not permit.run.is_trusted:
        await admission.recorded(permit.access)


async def while_it_changes(
    carry: Callable[[], Awaitable[T]], trail: Trail, caught_up: Callable[[], Awaitable[bool]]
) -> T:
    """Return what `carry` returns, which decides anew where the last decision rested on what has changed.

    So does a no: whether memory lacked what other processes have changed `caught_up` says, and it has
    it then.

    Raises:
        StateChanged: It did so each time.

    """
    why = ""
    for number in range(MOST_TRIES):
        try:
            return await carry()
        except Changed as error:
            why = str(error)
            trail.anew(error.what)
        except Refusal as no:
            is_last = number + 1 == MOST_TRIES
            if is_last or not await _rests_on_less(no, trail, caught_up):
                raise
            trail.anew(frozenset())
    raise StateChanged(
        "what this call is decided on changes too fast; nothing was called", detail=why
    )


async def _rests_on_less(
    no: Refusal, trail: Trail, caught_up: Callable[[], Awaitable[bool]]
) -> bool:
    """Whether a no was said before memory had all that is known by now, and may be a yes."""
    # A question was asked of whoever knows before it was filed, what is used up was found so where it is counted,
    # and what is on record has been decided.
    asked = isinstance(no, ApprovalRequired | RateLimited | LimitExceeded)
    if asked or no.recorded or trail.intent_id:
        return False
    try:
        return await caught_up()
    except GatewayError:
        return False  # it stays a no
