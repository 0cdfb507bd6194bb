"""What becomes of questions to people, the same in every store; and the index of those in memory."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gateway.domain.approvals import (
    Approval,
    ApprovalId,
    ApprovalRequest,
    ApprovalRules,
    ApprovalState,
    Span,
)
from gateway.domain.document import Digest
from gateway.errors import Denied, NotFound, RateLimited

HOUR_S = 3600.0
MOST_KEPT = 500
"""Questions of one principal that are kept at once; the oldest that have ended go first."""
OCTETS: Final = 32 * 1024**2
"""Bytes of memory that all questions may take; one more is not filed. What has ended makes room."""
OCTETS_OF_ONE: Final = OCTETS // 8
"""Of those, for one principal."""

_FIXED_OCTETS: Final = 4096
"""Of one question, beside its texts."""

_MAY_END = frozenset({ApprovalState.WAITING, ApprovalState.ALLOWED, ApprovalState.DENIED})
"""What time ends; a yes that was used stays one."""
_YES = frozenset({ApprovalState.ALLOWED, ApprovalState.USED})


def at(approval: Approval, now: float) -> Approval:
    """Return `approval` as it is `now`: what has run out says so."""
    state = _state(approval, now)
    return approval if state is approval.state else replace(approval, state=state)


def _state(approval: Approval, now: float) -> ApprovalState:
    # Whether one for good still stands says what came of it.
    may_end = approval.state in _MAY_END and approval.span is not Span.STANDING
    has_run_out = may_end and approval.request.expires_at <= now
    return ApprovalState.EXPIRED if has_run_out else approval.state


def asked_again(approval: Approval) -> Approval:
    """Return a waiting question after the same call was made once more."""
    request = approval.request
    return replace(approval, request=replace(request, asked=request.asked + 1))


def waits(request: ApprovalRequest) -> Approval:
    """Return a question that nobody has answered yet."""
    return Approval(request=request, state=ApprovalState.WAITING)


def octets_of(request: ApprovalRequest) -> int:
    """Return about how many bytes of memory a question takes, at most."""
    texts = [
        *(request.target.name, request.client_name, request.subject, request.principal),
        *(text for reason in request.reasons for text in (reason.code, reason.message)),
        *request.evidence,
        *(request.follows, request.follows_because),
        *(text for place in request.places for text in place),
    ]
    # Four bytes are the most that a character takes.
    return _FIXED_OCTETS + len(request.carried) + len(request.question) + 4 * sum(map(len, texts))


def require_room(rules: ApprovalRules, *, waiting: int, this_hour: int) -> None:
    """Return if one more question of a person may be filed.

    Raises:
        RateLimited: Too many wait, or were asked this hour.

    """
    if waiting >= rules.most_waiting or this_hour >= rules.most_per_hour:
        raise RateLimited(
            "too many questions wait for a person",
            detail=f"{waiting} wait, {this_hour} were asked within an hour",
        )


def answered(
    approval: Approval | None,
    rules: ApprovalRules,
    *,
    allow: bool,
    span: Span,
    by: str,
    by_user_id: str,
    note: str,
    now: float,
) -> Approval:
    """Return a waiting question with its answer, which holds from `now` on.

    Raises:
        NotFound: There is no such question.
        Denied: It has been answered already, or has run out.

    """
    waiting = _waiting(approval, now)
    holds_s = rules.expire_s if allow else rules.denial_holds_s
    return Approval(
        request=replace(waiting.request, expires_at=now + holds_s),
        state=ApprovalState.ALLOWED if allow else ApprovalState.DENIED,
        span=span,
        by=by,
        by_user_id=by_user_id,
        at=now,
        note=note,
    )


def withdrawn(approval: Approval | None, now: float) -> Approval:
    """Return a waiting question that nobody is to answer any more.

    Raises:
        NotFound: There is no such question.
        Denied: It has been answered already, or has run out.

    """
    waiting = _waiting(approval, now)
    request = replace(waiting.request, expires_at=now)
    return replace(waiting, request=request, state=ApprovalState.WITHDRAWN)


def over(approval: Approval | None, now: float) -> Approval:
    """Return a question that waits, or a yes that counts, as one that does neither from `now` on.

    Raises:
        NotFound: There is no such question.
        Denied: It does neither as it is.

    """
    if approval is None or used(approval, now) is None:
        return withdrawn(approval, now)
    return replace(approval, request=replace(approval.request, expires_at=now))


def _waiting(approval: Approval | None, now: float) -> Approval:
    if approval is None:
        raise NotFound("there is no such question; `douane approvals list` lists them")
    state = at(approval, now).state
    if state is not ApprovalState.WAITING:
        raise Denied(f"this question waits no more: it is {state}")
    return approval


def used(approval: Approval | None, now: float) -> Approval | None:
    """Return what a yes is after one call has gone out by it; `None`: none may.

    A yes for the run stays what it is. By one that was given for good none does: what stands says
    so by itself, and where nothing stands any more this is no yes either.
    """
    if approval is None or at(approval, now).state is not ApprovalState.ALLOWED:
        return None
    if approval.span is Span.STANDING:
        return None
    if approval.span is Span.RUN:
        return approval
    return replace(approval, state=ApprovalState.USED)


def _has_ended(approval: Approval, now: float) -> bool:
    return approval.request.expires_at <= now or approval.state is ApprovalState.USED


def _digests(request: ApprovalRequest) -> Iterator[Digest]:
    yield request.fingerprint
    yield request.scope
    if request.submission is not None:
        yield request.submission


class Book:
    """Questions by what they are looked up by."""

    def __init__(self, approvals: Iterable[Approval] = ()) -> None:
        self._by_id: dict[ApprovalId, Approval] = {}
        self._alike: dict[Digest, set[ApprovalId]] = {}
        """By fingerprint, scope and submission: two digests are never equal by chance."""
        self._octets: Counter[str] = Counter()
        """By person."""
        for approval in approvals:
            self.keep(approval)

    def keep(self, approval: Approval) -> None:
        """Take in a question, or what has become of it."""
        request = approval.request
        if request.id not in self._by_id:
            self._octets[request.person] += octets_of(request)
        self._by_id[request.id] = approval
        for digest in _digests(request):
            self._alike.setdefault(digest, set()).add(request.id)

    def forget(self, ids: Iterable[ApprovalId]) -> None:
        """Leave out questions, as far as they are here."""
        for id_ in ids:
            approval = self._by_id.pop(id_, None)
            if approval is None:
                continue
            person = approval.request.person
            self._octets[person] -= octets_of(approval.request)
            if not self._octets[person]:
                del self._octets[person]
            for digest in _digests(approval.request):
                alike = self._alike.get(digest, set())
                alike.discard(id_)
                if not alike:
                    self._alike.pop(digest, None)

    def outlived(self, request: ApprovalRequest, keep_s: float) -> Sequence[ApprovalId]:
        """Return which questions are to be forgotten as `request` is filed, oldest first.

        Those that ended `keep_s` ago, and of its person those beyond the newest; and as many more
        as it takes to make room. What was asked within the hour still counts against the next question.

        Raises:
            RateLimited: There would be no room all the same.

        """
        now, person, octets = request.asked_at, request.person, octets_of(request)
        ended = [one for one in self._by_id.values() if _has_ended(one, now)]
        surplus = sum(one.request.person == person for one in ended) - MOST_KEPT
        lacking = self._octets[person] + octets - OCTETS_OF_ONE
        lacking_in_all = self._octets.total() + octets - OCTETS
        gone = []
        for one in ended:
            old, is_mine = one.request, one.request.person == person
            surplus -= is_mine
            if old.asked_at > now - HOUR_S:
                continue
            if (
                old.expires_at <= now - keep_s
                or lacking_in_all > 0
                or (is_mine and (surplus >= 0 or lacking > 0))
            ):
                gone.append(old.id)
                lacking_in_all -= octets_of(old)
                lacking -= octets_of(old) if is_mine else 0
        if lacking > 0 or lacking_in_all > 0:
            raise RateLimited(
                "too many questions wait for a person",
                detail=f"{self._octets[person]} bytes, {self._octets.total()} of all",
            )
        return gone

    def get(self, id_: ApprovalId) -> Approval | None:
        return self._by_id.get(id_)

    def all(self, now: float) -> Sequence[Approval]:
        """Return everything as it is `now`, oldest first; in a thread as well."""
        return sorted(
            (at(approval, now) for approval in list(self._by_id.values())),
            key=lambda approval: (approval.request.asked_at, approval.request.id),
        )

    def counts(self, now: float) -> Mapping[ApprovalState, int]:
        """Return how many there are in each state `now`."""
        return Counter(_state(approval, now) for approval in self._by_id.values())

    def of(self, person: str) -> Sequence[Approval]:
        """Return what `person` was the first to ask, with whatever client."""
        return [one for one in self._by_id.values() if one.request.person == person]

    def earlier(self, request: ApprovalRequest) -> Approval | None:
        """Return the newest answer to a question that says the same as `request`."""
        same = (
            one
            for one in self._by_id.values()
            if one.at is not None
            and one.request.principal == request.principal
            and one.request.target == request.target
            and one.request.carried == request.carried
            and one.request.id != request.id
        )
        return max(same, key=lambda one: (one.at or 0.0, one.request.id), default=None)

    def yeses(self, principal: str | None) -> Sequence[Approval]:
        """Return what a person said yes to of what `principal` or anybody asked, oldest answer first.

        In a thread as well.
        """
        said = (
            one
            for one in list(self._by_id.values())
            if one.state in _YES and (principal is None or one.request.principal == principal)
        )
        return sorted(said, key=lambda one: (one.at or 0.0, one.request.id))

    def under(self, digest: Digest, now: float) -> Sequence[Approval]:
        """Return the questions with this fingerprint or submission, oldest first, as they are `now`."""
        found = (self._by_id[id_] for id_ in self._alike.get(digest, ()))
        same = (one for one in found if digest in (one.request.fingerprint, one.request.submission))
        asked = sorted(same, key=lambda one: (one.request.asked_at, one.request.id))
        return [at(one, now) for one in asked]

    def waiting(self, fingerprint: Digest, now: float) -> Approval | None:
        """Return the question about this very call that nobody has answered."""
        for approval in self._of(fingerprint, now):
            if (
                approval.state is ApprovalState.WAITING
                and approval.request.fingerprint == fingerprint
            ):
                return approval
        return None

    def find(self, fingerprint: Digest, scope: Digest, now: float) -> Approval | None:
        """Return the answer that holds for a call, else the question that waits about it."""
        same = [one for one in self._of(fingerprint, now) if one.request.fingerprint == fingerprint]
        for_run = [
            one
            for one in self._of(scope, now)
            if one.request.scope == scope and one.span is Span.RUN
        ]
        for found in (same, for_run):
            for state in (ApprovalState.DENIED, ApprovalState.ALLOWED):
                for approval in found:
                    if approval.state is state:
                        return approval
        return self.waiting(fingerprint, now)

    def _of(self, digest: Digest, now: float) -> list[Approval]:
        found = (at(self._by_id[id_], now) for id_ in sorted(self._alike.get(digest, ())))
        return [one for one in found if one.span is not Span.STANDING]
