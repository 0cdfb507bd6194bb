"""What a gateway keeps of people and their clients, forgotten at the end."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gateway.domain.approvals import (
    Approval,
    ApprovalId,
    ApprovalRequest,
    ApprovalRules,
    ApprovalState,
    Span,
)
from gateway.domain.document import Digest
from gateway.domain.identity import Client, ClientKind
from gateway.domain.selection import Choices, Selection
from gateway.domain.standing import StandingAnswer
from gateway.storage.choices import MOST_KEPT
from gateway.storage.disclosures import Change
from gateway.storage.identity.clients import already_taken
from gateway.storage.identity.standing import RENEWED, by_principal, superseded
from gateway.storage.questions import (
    HOUR_S,
    Book,
    answered,
    asked_again,
    at,
    over,
    require_room,
    used,
    waits,
    withdrawn,
)


class MemoryApprovalStore:
    """An `ApprovalStore`."""

    def __init__(self, rules: ApprovalRules | None = None) -> None:
        self._rules = rules or ApprovalRules()
        self._book = Book()

    def find(self, fingerprint: Digest, scope: Digest, *, now: float) -> Approval | None:
        return self._book.find(fingerprint, scope, now)

    def get(self, id_: ApprovalId, *, now: float) -> Approval | None:
        found = self._book.get(id_)
        return None if found is None else at(found, now)

    def all(self, *, now: float) -> Sequence[Approval]:
        return self._book.all(now)

    def counts(self, *, now: float) -> Mapping[ApprovalState, int]:
        return self._book.counts(now)

    def earlier(self, request: ApprovalRequest) -> Approval | None:
        return self._book.earlier(request)

    def yeses(self, principal: str | None = None) -> Sequence[Approval]:
        return self._book.yeses(principal)

    def under(self, digest: Digest, *, now: float) -> Sequence[Approval]:
        return self._book.under(digest, now)

    async def file(self, request: ApprovalRequest) -> Approval:
        """File a question, or count it; see `ApprovalStore`."""
        now = request.asked_at
        same = self._book.waiting(request.fingerprint, now)
        if same is not None:
            return self._kept(asked_again(same))
        self._book.forget(self._book.outlived(request, self._rules.keep_s))
        mine = self._book.of(request.person)
        require_room(
            self._rules,
            waiting=sum(at(one, now).state is ApprovalState.WAITING for one in mine),
            this_hour=sum(one.request.asked_at > now - HOUR_S for one in mine),
        )
        return self._kept(waits(request))

    async def answer(
        self,
        id_: ApprovalId,
        *,
        allow: bool,
        span: Span,
        by: str,
        by_user_id: str,
        note: str,
        now: float,
    ) -> Approval:
        """Answer a waiting question, once; see `ApprovalStore`."""
        return self._kept(
            answered(
                self._book.get(id_),
                self._rules,
                allow=allow,
                span=span,
                by=by,
                by_user_id=by_user_id,
                note=note,
                now=now,
            )
        )

    async def withdraw(self, id_: ApprovalId, *, now: float) -> Approval:
        """Have a waiting question answered by nobody; see `ApprovalStore`."""
        return self._kept(withdrawn(self._book.get(id_), now))

    async def end(self, id_: ApprovalId, *, now: float) -> Approval:
        """Have a question wait, or its yes count, no more; see `ApprovalStore`."""
        return self._kept(over(self._book.get(id_), now))

    async def use(self, id_: ApprovalId, *, now: float) -> bool:
        """Use up a yes for one call; see `ApprovalStore`."""
        await asyncio.sleep(0)  # a durable store never answers at once either
        after = used(self._book.get(id_), now)
        if after is not None:
            self._book.keep(after)
        return after is not None

    def _kept(self, approval: Approval) -> Approval:
        self._book.keep(approval)
        return approval


class MemoryStandingAnswers:
    """A `StandingAnswers` that forgets at the end, and of which nothing ends by itself."""

    def __init__(self) -> None:
        self._answers: dict[str, StandingAnswer] = {}
        self._ended: dict[str, tuple[StandingAnswer, str]] = {}

    def of(self, principal: str) -> Sequence[StandingAnswer]:
        return by_principal(self._answers.values()).get(principal, ())

    def all(self) -> Sequence[StandingAnswer]:
        """Return what stands, oldest first."""
        return sorted(self._answers.values(), key=lambda one: (one.given_at, one.id))

    def get(self, id_: ApprovalId) -> StandingAnswer | None:
        return self._answers.get(id_)

    async def give(self, answer: StandingAnswer) -> None:
        """Have `answer` stand; see `StandingAnswers`."""
        for id_ in superseded(self._answers.values(), answer):
            await self.end(id_, RENEWED)
        self._answers[answer.id] = answer

    async def end(self, id_: ApprovalId, because: str) -> bool:
        """Have it stand no more; see `StandingAnswers`."""
        answer = self._answers.pop(id_, None)
        if answer is not None:
            self._ended[id_] = answer, because
        return answer is not None

    async def ended(self) -> Sequence[tuple[StandingAnswer, str]]:
        """Return what ended; see `StandingAnswers`."""
        return list(self._ended.values())

    async def forget(self, ids: Sequence[ApprovalId]) -> None:
        """Forget what ended; see `StandingAnswers`."""
        for id_ in ids:
            self._ended.pop(id_, None)


class MemoryChoices:
    """A `ChoiceStore` that forgets at the end."""

    def __init__(self) -> None:
        self._made: dict[str, Choices] = {}

    def of(self, principal: str) -> Choices:
        return self._made.get(principal, Choices())

    async def choose(
        self,
        principal: str,
        change: Callable[[Choices], Selection],
        *,
        runs: frozenset[str],
        session: str = "",
    ) -> Selection:
        """Make the next choice; see `ChoiceStore`."""
        before = self.of(principal)
        after = before.followed_by(change(before), runs, session, most=MOST_KEPT)
        self._made[principal] = after
        return after.newest


class MemoryDisclosureLedger:
    """A `DisclosureLedger` that keeps nothing itself."""

    async def make(self, change: Change, committed: Callable[[Change], None]) -> None:
        """Let memory have the change; see `DisclosureLedger`."""
        committed(change)

    async def look(self, _owners: tuple[bytes, bytes], _key: bytes) -> float | None:
        """Return nothing: there is no more than memory."""
        return None


class MemoryClientStore:
    """A `ClientStore` that knows of no grants and no consents: every client is unused."""

    def __init__(self, clients: Sequence[Client] = ()) -> None:
        self._clients = {client.id: client for client in clients}

    def find(self, client_id: str) -> Client | None:
        return self._clients.get(client_id)

    def all(self) -> Sequence[Client]:
        """Return every client, by name."""
        return sorted(self._clients.values(), key=lambda client: (client.name, client.id))

    def add(self, client: Client) -> None:
        """Keep a new client; see `ClientStore`."""
        if client.id in self._clients or any(_same_name(client, one) for one in self.all()):
            raise already_taken(client)
        self._clients[client.id] = client

    def refresh(self, client: Client) -> None:
        """Keep what a `DOCUMENT` says now; see `ClientStore`."""
        before = self._clients.get(client.id, client)
        if not client.kind is before.kind is ClientKind.DOCUMENT:
            raise already_taken(client)
        self._clients[client.id] = client

    def remove(self, client_id: str) -> Client | None:
        """Forget a client; `None` if there is none of that id."""
        found = self._clients.pop(client_id, None)
        if found is not None:
            for one in self.all():
                if one.created_by == f"client:{client_id}":
                    self._clients[one.id] = replace(one, created_by=found.created_by)
        return found

    def remove_unused(self, before: float) -> int:
        """Forget the clients made before then that no administrator registered."""
        unused = [
            client.id
            for client in self.all()
            if client.kind is not ClientKind.REGISTERED and client.created_at < before
        ]
        for client_id in unused:
            del self._clients[client_id]
        return len(unused)


def _same_name(one: Client, other: Client) -> bool:
    return one.name == other.name and one.kind is other.kind is ClientKind.REGISTERED
