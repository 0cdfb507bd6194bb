"""What a principal sees in front of all servers in this conversation: what it chose before."""

from dataclasses import replace

from gateway.domain.calls import AGGREGATE, Call
from gateway.domain.flow import RunId
from gateway.domain.identity import Principal
from gateway.domain.selection import EVERY_SERVER, Selection
from gateway.ports.selection import ChoiceStore
from gateway.wire.own_session import chosen_before


class Selections:
    """No call changes what the calls after it in the same conversation see.

    A session sees what was chosen before it began, which its id says. Without a session a
    conversation is a run: it sees what was chosen while it was not yet live.
    """

    def __init__(self, choices: ChoiceStore) -> None:
        self._choices = choices

    def applied(
        self, call: Call, principal: Principal, session: str | None, run: RunId
    ) -> Principal:
        """Return `principal` as one who sees no more servers than this conversation may.

        `session` is our own, unsealed. At a server's own endpoint nothing is narrowed.
        """
        if call.endpoint != AGGREGATE:
            return principal
        chosen = self._chosen(call, principal, session, run)
        return principal if chosen == EVERY_SERVER else replace(principal, servers=chosen)

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
