"""The proof that a definition is the approved one: the only place where `Pinned` is made."""

from gateway.domain.tools import Pin, Pinned, PinStatus, Target
from gateway.errors import PinDrift, PinPending, PinRevoked, UnknownTool


def shows_approved(pin: Pin, *, identity: str) -> bool:
    """Whether the server at `identity` was last seen to show what is in force: as it is, it may pass."""
    approved = pin.approved if pin.status is PinStatus.APPROVED else None
    return approved is not None and approved.identity == identity and pin.observed.is_same(approved)


def verify(target: Target, pin: Pin | None, *, identity: str) -> Pinned:
    """Return the definition of `target` that a person, or policy in their name, approved.

    `identity` is that of the server which is about to be asked.

    Raises:
        UnknownTool: Nothing is pinned for `target`.
        PinPending: Nobody has approved it yet.
        PinDrift: It has changed since it was approved, or was another server's.
        PinRevoked: Its approval was withdrawn.

    """
    if pin is None or pin.target != target:
        raise UnknownTool("there is nothing of this name", detail=str(target))
    match pin.status:
        case PinStatus.APPROVED:
            if pin.approved is None:
                raise PinPending("nobody has approved this definition yet", detail=str(target))
            if pin.approved.identity != identity:
                raise PinDrift(
                    "the server is at another address than when this definition was approved",
                    detail=f"{target}: {pin.approved.identity!r}, now {identity!r}",
                )
            return Pinned(manifest=pin.approved, pin=pin)
        case PinStatus.PENDING:
            raise PinPending("nobody has approved this definition yet", detail=str(target))
        case PinStatus.DRIFTED:
            raise PinDrift("this definition has changed since it was approved", detail=str(target))
        case PinStatus.REVOKED:
            raise PinRevoked("the approval of this definition was withdrawn", detail=str(target))
