"""Sessions of our own: the id says since when they last, so that nothing has to be remembered.

It is sealed like any other (`gateway.wire.session`).
"""

import re
from typing import Final

from gateway.domain.selection import Choices, Selection

LONGEST_S: Final = 30 * 24 * 3600.0
"""For how long a session can be used: so long those that were ended have to be remembered."""

SESSION: Final = re.compile(r"([a-z]*)\.(?:([0-9a-f]{1,12})\.)?[\x21-\x7e]+")
"""What the client can do (see `gateway.wire.own_abilities`), since when, and what tells it from others."""

_CHOSEN: Final = re.compile(r"[a-z]*\.[0-9a-f]{1,12}\.([0-9]{1,12})~", re.ASCII)


def nonce_after(chosen: int, nonce: str) -> str:
    """Return a nonce that says that the principal's choice number `chosen` is in force."""
    return f"{chosen}~{nonce}"


def chosen_before(session: str) -> int:
    """Return the number of the last choice that was made before `session` began; 0 for none."""
    found = _CHOSEN.match(session)
    return 0 if found is None else int(found[1])


def chosen_in(choices: Choices, session: str | None, run: str) -> Selection:
    """Return what a conversation sees: a `session`, or without one what there is of a `run`."""
    if session is None:
        return choices.within(run)
    return choices.since(chosen_before(session), session)


def is_over(session: str, now: float) -> bool:
    """Whether `session` has lasted too long by `now`, or does not say since when it lasts."""
    found = SESSION.fullmatch(session)
    return found is None or found[2] is None or int(found[2], 16) + LONGEST_S <= now
