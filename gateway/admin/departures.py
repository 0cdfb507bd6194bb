"""Questions to people end with whoever asked them, and with the plane that did for them."""

from collections.abc import Callable
from typing import Final

from gateway.admin.journal import Change, Journal
from gateway.domain.approvals import Approval, ApprovalRequest, ApprovalState, Span
from gateway.domain.audit import RecordKind
from gateway.domain.document import quoted_name
from gateway.domain.tools import Kind
from gateway.errors import Denied, NotFound
from gateway.ports import ApprovalStore, Clock
from gateway.ports.claims import Claims

_DONE: Final = {
    ApprovalState.WAITING: ("withdraw", "withdrawn"),
    ApprovalState.ALLOWED: ("end", "ended"),
}


class Departures:
    """A yes stays good for whoever comes by the same name; so it ends, too."""

    def __init__(
        self,
        store: ApprovalStore,
        journal: Journal,
        *,
        claims: Claims,
        lacking: Callable[[ApprovalRequest], str],
        clock: Clock,
    ) -> None:
        """`lacking` says who of those whose question it is was not there since it was asked.

        By `claims` one gateway ends a question: all that share the store find it.
        """
        self._store = store
        self._journal = journal
        self._claims = claims
        self._lacking = lacking
        self._clock = clock

    async def settle(self) -> None:
        """End what waits for nobody, and each yes that is nobody's; that is on record before.

        Raises:
            AuditUnavailable: It is not durable.

        """
        for one in self._store.all(now=self._clock()):
            if one.state not in _DONE or one.span is Span.STANDING:
                continue
            if because := self._lacking(one.request):
                async with self._claims.taken(f"{_DONE[one.state][0]} {one.request.id}") as ours:
                    if ours:
                        await self._end(one, because)

    async def _end(self, one: Approval, because: str) -> None:
        await self._journal.happened(_change(one, because))
        try:
            await self._store.end(one.request.id, now=self._clock())
        except (NotFound, Denied):
            return  # it was answered, used or forgotten meanwhile; a yes is seen the next time


def _change(one: Approval, because: str) -> Change:
    request, (verb, code) = one.request, _DONE[one.state]
    name = request.target.name
    if request.target.kind is Kind.RESOURCE:
        name = quoted_name(name)  # as much what the call says as its arguments
    fields = {
        "server": request.target.server,
        "target": name,
        "pin_digest": str(request.pin_digest),
        "run": request.run,
        "approval_id": request.id,
        "decision_id": request.decision_id,
    }
    return Change(
        kind=RecordKind.APPROVAL,
        method=f"approvals.{verb}",
        code=code,
        subject=f"{request.target.server}/{request.target.kind}/{name} for {request.subject}",
        fields={**fields, **({"plane": request.plane} if request.plane else {})},
        evidence=(("because", because),),
    )
