"""What a principal sees in front of all servers in this conversation: what it chose in it or before."""

from dataclasses import replace
from typing import Final

from gateway.domain.bounded import ByIdentity, octets_of
from gateway.domain.calls import Call
from gateway.domain.flow import RunId
from gateway.domain.identity import Principal
from gateway.domain.selection import EVERY_SERVER, Selection
from gateway.domain.tools import UpstreamId
from gateway.ports.selection import ChoiceStore
from gateway.wire.own_session import chosen_in

_MOST: Final = 5_000
_OCTETS: Final = 16 * 1024**2


class Selections:
    """No conversation changes what another one sees that is under way.

    A session sees what was chosen before it began, which its id says, and what is chosen in it.
    Without a session a conversation is a run: it sees what was chosen while it was not yet live,
    and what its own calls choose.
    """

    def __init__(self, choices: ChoiceStore, *, always_on: frozenset[UpstreamId]) -> None:
        """Show `always_on`, whatever is chosen."""
        self._choices = choices
        self._always_on = always_on
        self._narrowed: ByIdentity[Principal] = ByIdentity(most=_MOST, octets=_OCTETS)

    def applied(
        self, call: Call, principal: Principal, session: str | None, run: RunId
    ) -> Principal:
        """Return `principal` as one who sees no more servers than this conversation may.

        It is one in front of all servers, and `session` is our own, unsealed.
        """
        starts = call.message.method == "initialize"  # the session that begins with it
        chosen = self.next_of(principal) if starts else self.seen_by(principal, session, run)
        if chosen == EVERY_SERVER:
            return principal
        # The same one for all calls that see the same: what is known of it is known by which it is.
        narrowed = self._narrowed.get(principal)
        if narrowed is None or narrowed.servers != chosen:
            narrowed = replace(principal, servers=chosen)
            self._narrowed.put(narrowed, principal, octets=2 * octets_of(narrowed))
        return narrowed

    def next_of(self, principal: Principal) -> Selection:
        """Return what a conversation of `principal` sees that begins now."""
        return self._choices.of(principal.key).newest.plus(self._always_on)

    def seen_by(self, principal: Principal, session: str | None, run: RunId) -> Selection:
        """Return what this conversation of `principal` sees now."""
        choices = self._choices.of(principal.key)
        if not choices.made:
            return EVERY_SERVER
        return chosen_in(choices, session, run).plus(self._always_on)
