"""What people do with answers that stand: look at them, end them, and hear which could."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

from gateway.admin.journal import Change, Journal
from gateway.admin.person import EVERY_ROLE, How, Person, Role, beside
from gateway.admin.rows import Row, Rows, rfc3339
from gateway.admin.whose import is_own, sees
from gateway.domain.approvals import Approval, ApprovalId, ApprovalRequest, ApprovalRules
from gateway.domain.audit import RecordKind
from gateway.domain.labels import Confidentiality
from gateway.domain.standing import StandingAnswer
from gateway.errors import Denied, Forbidden, NotFound
from gateway.ports import ApprovalStore, Clock
from gateway.ports.claims import Claims
from gateway.ports.standing import StandingAnswers

_REDEFINED = "the tool's definition is not the one it was for, or was approved anew"
OFTEN = 3
"""How often the same yes is given before somebody is told that it could stand."""


class StandingDesk:
    """Use cases over `StandingAnswers`. Results are plain JSON."""

    def __init__(
        self,
        answers: StandingAnswers,
        approvals: ApprovalStore,
        journal: Journal,
        *,
        claims: Claims,
        rules: Callable[[], ApprovalRules],
        issuer: str,
        clock: Clock,
        barred: Callable[[StandingAnswer, float], Awaitable[str]],
        approved: Callable[[StandingAnswer], bool] = lambda _: True,
        absent: Callable[[StandingAnswer], str] = lambda _: "",
    ) -> None:
        """Take our own `issuer`, and what says whether a tool is still `approved` as it was.

        `absent` says who of those whose calls an answer is for was not there since it was given.
        `barred` says why those whose calls an answer is for cannot make any, or could not since then, or
        nothing.
        By `claims` one gateway records an end: all that share the answers find it.
        """
        self._answers = answers
        self._approvals = approvals
        self._journal = journal
        self._claims = claims
        self._rules = rules
        self._issuer = issuer
        self._clock = clock
        self._barred = barred
        self._approved = approved
        self._absent = absent

    async def list(self, person: Person, *, places: bool = True) -> Rows:
        """Return one row an answer that stands, oldest first: all that the person may see.

        To what places it is was said by calls: their `value` is told, on record, to whoever may end the
        answer, and only with `places`; else it is `None`.

        Raises:
            AuditUnavailable: It cannot be recorded who sees what calls say.

        """
        person.need(*EVERY_ROLE)
        seen = [one for one in self._answers.all() if self._stands_for(person, one)]
        told = {one.id for one in seen if places and not self._may_not_end(person, one)}
        if told:
            what = f"to what places {len(told)} answers stand"
            await self._journal.read(person, "approvals.standing", what)
        return [row_of(one, places=one.id in told) for one in seen]

    async def end(self, person: Person, *, approval: str, note: str = "") -> Row:
        """Have an answer stand no more: the next call asks again.

        Approvers and admins may, and whose calls these are. The row does not tell its places.

        Raises:
            NotFound: No such answer stands, or it is not theirs to see.
            Forbidden: They may not end it.

        """
        person.need(*EVERY_ROLE)
        found = self._answers.get(ApprovalId(approval))
        if found is None or not self._stands_for(person, found):
            raise NotFound(
                "no such answer stands; `douane approvals standing list` lists what does"
            )
        if refusal := self._may_not_end(person, found):
            raise refusal

        async def end() -> None:
            async with self._claims.taken(_end_of(found)):  # on record, and by nobody once more
                if not await self._answers.end(found.id, "a person ended it"):
                    raise Denied("it has ended already")
                await self._answers.forget([found.id])

        await self._journal.make(person, _ended(found, "a person ended it", note), end)
        return row_of(found, places=False)

    def _may_not_end(self, person: Person, answer: StandingAnswer) -> Forbidden | None:
        """Return why a person may not end an answer, nor read to what places it is."""
        if person.how is How.TOKEN and not person.user_id:
            return Forbidden("only a person can end an answer; sign in as one", detail=person.name)
        try:
            if not is_own(person, answer, self._issuer):
                person.need(Role.APPROVER, Role.ADMIN)
        except Forbidden as refusal:
            return refusal
        return None

    async def suggest(self, person: Person) -> Rows:
        """Return one row for each yes that was given again and again, and could stand.

        The same one: to the same principal, tool, definition, destinations and reasons.
        """
        person.need(*EVERY_ROLE)
        return await beside(person, self._suggested, person)

    def _suggested(self, person: Person) -> Rows:
        seen = [
            one
            for one in self._approvals.yeses()
            if one.request.places and sees(person, one.request, self._issuer)
        ]
        rows = []
        for _, group in groupby(sorted(seen, key=_same), key=_same):
            yeses = sorted(group, key=lambda one: one.at or 0.0)
            newest = yeses[-1].request
            if len(yeses) >= OFTEN and newest.may_stand and not self._covers(newest):
                rows.append(_suggestion(yeses))
        return rows

    def times(self, request: ApprovalRequest, user_id: str) -> int:
        """Return how often this person has said yes to what this question asks."""
        given = self._approvals.yeses(request.principal) if request.places and user_id else ()
        asked = (request.target, request.places)
        return sum(
            one.by_user_id == user_id and (one.request.target, one.request.places) == asked
            for one in given
        )

    def until(self, id_: ApprovalId) -> float | None:
        """Return until when the answer to a question stands; `None`: it does not."""
        found = self._answers.get(id_)
        return found.expires_at if found is not None and self._stands(found) else None

    async def answer_to(
        self, request: ApprovalRequest, person: Person, note: str
    ) -> StandingAnswer:
        """Return what would stand if this person said so now.

        Raises:
            Denied: It stands already, the tool is not approved any more as the person saw it, or
                those whose calls these are may make none.

        """
        if self.until(request.id) is not None:
            raise Denied("the answer to this question stands already")
        now = self._clock()
        answer = StandingAnswer(
            id=request.id,
            principal=request.principal,
            subject=request.subject,
            user_id=request.user_id,
            client_id=request.client_id,
            client_name=request.client_name,
            target=request.target,
            pin_digest=request.pin_digest,
            confidentiality=min(request.label.confidentiality, Confidentiality.PRIVATE),
            places=frozenset(request.places),
            by=person.name,
            by_user_id=person.user_id,
            note=note,
            given_at=now,
            expires_at=now + self._rules().standing_s,
        )
        if not self._approved(answer):
            raise Denied("no answer to this question can stand: the tool is defined otherwise now")
        if why := await self._barred(answer, request.asked_at):
            raise Denied(
                f"no answer to this question can stand: {why}; let them in again, and answer what"
                " their next call asks"
            )
        return answer

    async def give(self, answer: StandingAnswer) -> None:
        """Have `answer` stand, durable on return, unless those are barred by now for whom it is.

        Raises:
            RateLimited: So many stand already that nobody could look through them.
            Denied: An earlier one to the same question has ended, and another gateway is recording that.

        """
        await self.settle()  # one to the same question that has ended is told before
        if any(one.id == answer.id for one, _ in await self._answers.ended()):
            raise Denied("the earlier answer to this question has just ended; say it again")
        await self._answers.give(answer)
        # What was revoked since it was looked at has ended only what stood by then.
        if why := await self._barred(answer, answer.given_at):
            await self._answers.end(answer.id, why)

    async def settle(self) -> int:
        """Put on record what has ended by itself; return how many of them were recorded here.

        Raises:
            AuditUnavailable: It could not be recorded; it is told the next time.

        """
        now = self._clock()
        for one in self._answers.all():
            if one.expires_at <= now:
                await self._answers.end(one.id, "its time was over")
            elif not self._approved(one):
                await self._answers.end(one.id, _REDEFINED)
            elif why := self._absent(one):
                await self._answers.end(one.id, why)
        told = [await self._told(*each) for each in await self._answers.ended()]
        return sum(told)

    async def _told(self, answer: StandingAnswer, because: str) -> bool:
        """Put an end on record, unless another gateway does."""
        async with self._claims.taken(_end_of(answer)) as ours:
            if ours:
                await self._journal.happened(_ended(answer, because, ""))
                await self._answers.forget([answer.id])
            return ours

    def _stands_for(self, person: Person, answer: StandingAnswer) -> bool:
        return self._stands(answer) and sees(person, answer, self._issuer)

    def _stands(self, answer: StandingAnswer) -> bool:
        """Whether it counts now; its end may be on record only later."""
        is_over = answer.expires_at <= self._clock() or self._absent(answer)
        return not is_over and self._approved(answer)

    def _covers(self, request: ApprovalRequest) -> bool:
        places = frozenset(request.places)
        return any(
            one.target == request.target and one.places == places
            for one in self._answers.of(request.principal)
        )


def _same(approval: Approval) -> tuple[Any, ...]:
    """Return what of a yes makes it the same as another, in words that can be sorted."""
    request = approval.request
    codes = sorted({reason.code for reason in request.reasons})
    return request.principal, str(request.target), str(request.pin_digest), request.places, codes


def _suggestion(yeses: Sequence[Approval]) -> Row:
    newest = yeses[-1]
    request = newest.request
    return {
        "id": request.id,
        "times": len(yeses),
        **_about(request),
        "destinations": destinations_of(request.places),
        "by": newest.by,
        "answered_at": rfc3339(newest.at),
    }


def destinations_of(places: Iterable[tuple[str, str]], *, values: bool = True) -> Rows:
    """Return where a call goes, argument by argument; without `values` only by which arguments."""
    return [{"path": path, "value": text if values else None} for path, text in sorted(places)]


def _about(asked: ApprovalRequest | StandingAnswer) -> Row:
    return {
        "server": asked.target.server,
        "name": asked.target.name,
        "subject": asked.subject,
        "client_id": asked.client_id,
        "client": asked.client_name,
    }


def row_of(answer: StandingAnswer, *, places: bool) -> Row:
    """Return the documented fields of an answer that stands; what its places are only with `places`."""
    return {
        "id": answer.id,
        **_about(answer),
        "destinations": destinations_of(answer.places, values=places),
        "confidentiality": answer.confidentiality.word,
        "by": answer.by,
        "given_at": rfc3339(answer.given_at),
        "expires_at": rfc3339(answer.expires_at),
        "note": answer.note,
    }


def _end_of(answer: StandingAnswer) -> str:
    # The answer to one question may come to stand again.
    return f"the end of the answer {answer.id} of {answer.given_at}"


def _ended(answer: StandingAnswer, because: str, note: str) -> Change:
    target = answer.target
    return Change(
        kind=RecordKind.APPROVAL,
        method="approvals.end",
        code="ended",
        subject=f"{target} for {answer.subject}",
        fields={
            "server": target.server,
            "target": target.name,
            "pin_digest": str(answer.pin_digest),
            "approval_id": answer.id,
        },
        note=note,
        evidence=(("because", because),),
    )
