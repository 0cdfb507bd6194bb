"""What a principal sees in front of all servers in this conversation: what it chose before."""

from dataclasses import replace
from typing import Final

from gateway.domain.bounded import ByIdentity, octets_of
from gateway.domain.calls import AGGREGATE, Call
from gateway.domain.flow import RunId
from gateway.domain.identity import Principal
from gateway.domain.selection import EVERY_SERVER, Selection
from gateway.ports.selection import ChoiceStore
from gateway.wire.own_session import chosen_before

_MOST: Final = 5_000
_OCTETS: Final = 16 * 1024**2


class Selections:
    """No call changes what the calls after it in the same conversation see.

    A session sees what was chosen before it began, which its id says. Without a session a
    conversation is a run: it sees what was chosen while it was not yet live.
    """

    def __init__(self, choices: ChoiceStore) -> None:
        self._choices = choices
        self._narrowed: ByIdentity[Principal] = ByIdentity(most=_MOST, octets=_OCTETS)

    def applied(
        self, call: Call, principal: Principal, session: str | None, run: RunId
    ) -> Principal:
        """Return `principal` as one who sees no more servers than this conversation may.

        `session` is our own, unsealed. At a server's own endpoint nothing is narrowed.
        """
        if call.endpoint != AGGREGATE:
            return principal
        chosen = self._chosen(call, principal, session, run)
        if chosen == EVERY_SERVER:
            return principal
        # The same one for all calls that see the same: what is known of it is known by which it is.
        narrowed = self._narrowed.get(principal)
        if narrowed is None or narrowed.servers != chosen:
            narrowed = replace(principal, servers=chosen)
            self._narrowed.put(narrowed, principal, octets=2 * octets_of(narrowed))
        return narrowed

    def _chosen(
        self, call: Call, principal: Principal, session: str | None, run: RunId
    ) -> Selection:
        choices = self._choices.of(principal.key)
        if not choices.made:
            return EVERY_SERVER
        if call.message.method == "initialize":
            return choices.newest  # the session that begins with it
        if session is not None:
            return choices.since(chosen_before(session))
        return choices.within(run)
