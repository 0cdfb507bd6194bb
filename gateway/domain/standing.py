"""A person's answer that stands: this agent may go there with this tool, until it ends."""

import re
from collections.abc import Iterable
from typing import Final

from gateway.domain._value import value
from gateway.domain.approvals import ApprovalId
from gateway.domain.document import Digest
from gateway.domain.flow import Destination
from gateway.domain.labels import Confidentiality, Effect
from gateway.domain.tools import Pin, Target

STANDS_FOR: Final = frozenset({Effect.WRITE, Effect.EGRESS})
"""Effects for which an answer may stand. To pay, to destroy, to run and to let in is asked each time."""

MOST_OF_ONE: Final = 200
"""Answers that stand for one person at once, with whatever clients."""
MOST_OF_ALL: Final = 2_000
LONGEST_PLACES: Final = 4_096
"""Characters of all places of one answer; nobody reads more each time that they look at the list."""

Places = frozenset[tuple[str, str]]
"""Arguments and their values: `("$.to", "eve@outside.example")`."""

_INDEX = re.compile(r"(?:\]\d+\[)*")
"""Read backwards, as nothing but its end says where it begins: which of an argument's plain items it is. Of an object it says what belongs together, and stays: who gets
which role is no other order of a list. A name that looks so stands in quotes."""


@value
class StandingAnswer:
    """A yes to whatever its principal sends by one tool, as defined then, to exactly its places."""

    id: ApprovalId
    """Of the question that it answers."""
    principal: str
    """The `key` of the principal: this person, by this client."""
    subject: str
    user_id: str
    """Whose calls these are; empty for a client that acts for itself."""
    client_id: str
    client_name: str
    target: Target
    pin_digest: Digest
    confidentiality: Confidentiality
    """Of the run that the person was asked about: one that has read worse is another question."""
    places: Places
    by: str
    """The person's name."""
    by_user_id: str
    note: str
    given_at: float
    expires_at: float
    """Seconds since the epoch."""

    @property
    def person(self) -> str:
        """The `person` of its principal: its key without its client."""
        return self.principal.removesuffix(f"|{self.client_id}")


def places_of(destinations: Iterable[Destination]) -> Places | None:
    """Return where a call goes; `None` where nobody knows all of it, or it goes nowhere.

    Of very many destinations one without a value stands for the rest.
    """
    places = frozenset((_without_index(one.path), one.value) for one in destinations)
    return places if places and all(text for _, text in places) else None


def _without_index(path: str) -> str:
    found = _INDEX.match(path[::-1])
    return path if found is None else path[: len(path) - found.end()]


def is_as_approved(pin: Pin, answer: StandingAnswer) -> bool:
    """Whether what `pin` approved is what `answer` was given to, and was approved by then.

    Whoever approves a tool anew, after a revocation or a drift, vouches for the tool and not for where
    it may send: what was said before that stands no more, however soon it follows.
    """
    approved = pin.approved is not None and pin.approved.digest == answer.pin_digest
    return approved and (pin.approved_at or 0.0) <= answer.given_at


def is_short(places: Places) -> bool:
    """Whether people can be shown all of it, each time."""
    return sum(len(path) + len(text) for path, text in places) <= LONGEST_PLACES
