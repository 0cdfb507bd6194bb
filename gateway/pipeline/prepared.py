"""What is known of a call before its arguments: found by one look, and good for one epoch."""

from typing import Final, TypeAlias

from gateway.domain._value import value
from gateway.domain.bounded import Bounded, octets_of
from gateway.domain.calls import Call, OriginKind
from gateway.domain.document import Document
from gateway.domain.epoch import Epoch
from gateway.domain.identity import Principal
from gateway.domain.tools import Pin, Pinned, Profile, Target
from gateway.pipeline.decide import Subject
from gateway.pipeline.schemas import Approved

_MOST: Final = 20_000
_OCTETS: Final = 32 * 1024**2
NEVER: Final = -1
"""An epoch that never is: what was looked up in it is looked up again for the next call."""

_Key: TypeAlias = tuple[int, Target, Profile, str, OriginKind]


@value
class Prepared:
    """A target that its caller may know of, with all that follows from which it is."""

    target: Target
    pin: Pin
    digest: str
    """Of the definition that the pin is about, as records have it."""
    mirrored: Document | None
    """The approved definition of a tool, if it has headers repeat arguments."""
    subject: Subject
    pinned: Pinned | None
    """The proof that it is approved, where it is."""
    approved: Approved | None
    """What was approved, made ready."""
    epoch: int
    """In which all of it was looked up."""


class PreparedCalls:
    """What was looked up for a principal's calls, as long as nothing has changed that it follows from.

    Whose it is, is told by which principal it is: who is known otherwise by now is another one. The
    configuration is not asked about, because nothing here outlives one.
    """

    def __init__(self, epoch: Epoch) -> None:
        self._epoch = epoch
        self._kept: Bounded[_Key, tuple[Principal, Prepared]] = Bounded(most=_MOST, octets=_OCTETS)

    def find(self, call: Call, principal: Principal, target: Target) -> Prepared | None:
        """Return what was looked up in this epoch for a call like this one."""
        found = self._kept.get(_key(call, principal, target))
        if found is None or found[1].epoch != self._epoch.now or call.script is not None:
            return None
        return found[1]

    def keep(self, call: Call, principal: Principal, prepared: Prepared) -> None:
        """Keep it for calls like this one, if it can hold for another one.

        What is for a program, or stands for something that its caller has named, is not kept.
        """
        if prepared.epoch == NEVER or call.script is not None:
            return
        key = _key(call, principal, prepared.target)
        self._kept.put(key, (principal, prepared), 2 * octets_of(principal))


def _key(call: Call, principal: Principal, target: Target) -> _Key:
    return id(principal), target, call.profile, call.endpoint, call.origin
