"""Refusals that may be submitted, and what was: by the token of a refusal, its key, its plane."""

import hmac
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from gateway.domain.access_requests import Binding
from gateway.domain.approvals import Approval, ApprovalId, ApprovalRequest, ApprovalState
from gateway.domain.document import Digest
from gateway.domain.planes import Plane
from gateway.errors import AccessRequestRefused
from gateway.ports import ApprovalStore, Clock
from gateway.ports.bindings import BindingTokens
from gateway.wire.access_requests import Submission, bound, moment
from gateway.wire.authzen import Evaluation

DENIAL_S: Final = 600.0
"""For how long a refusal can be submitted."""
_UNANSWERED: Final = frozenset({ApprovalState.EXPIRED, ApprovalState.WITHDRAWN})


class Submissions:
    """It keeps nothing: what was submitted is a question in the store of all questions."""

    def __init__(
        self,
        *,
        store: ApprovalStore,
        tokens: BindingTokens,
        endpoint: str,
        seal_key: bytes,
        clock: Clock,
    ) -> None:
        """Take the URL where planes submit."""
        self._store = store
        self._tokens = tokens
        self._endpoint = endpoint
        self._seal_key = seal_key
        self._clock = clock
        self._under_way: set[Digest] = set()

    def requestable(
        self, plane: Plane, asked: Evaluation, question: ApprovalRequest, decision: str
    ) -> Mapping[str, Any]:
        """Return how a refusal is submitted."""
        now = self._clock()
        binding = Binding(
            plane=plane.name,
            decision=decision,
            said=bound(asked),
            question=str(question.fingerprint),
            issued_at=now,
            expires_at=now + DENIAL_S,
        )
        return {
            "evaluation_id": decision,
            "evaluated_at": moment(now),
            "access_request": {
                "endpoint": self._endpoint,
                "expires_at": moment(binding.expires_at),
                "binding_token": self._tokens.seal(binding),
            },
        }

    def known(self, plane: Plane, submitted: Submission, name: Digest | None) -> Binding | Approval:
        """Return what was submitted before, by this `name` or refusal; else which refusal it is.

        Raises:
            AccessRequestRefused: Something else was submitted by this name, or refused; or it is late.

        """
        if not plane.access_requests:
            raise AccessRequestRefused.not_requestable("refusals of this plane ask by themselves")
        now = self._clock()
        for one in self._store.under(name, now=now) if name is not None else ():
            if one.request.submitted != submitted.body:
                raise AccessRequestRefused.duplicate_request("this key was used for another one")
            return one
        binding = self._binding(plane, submitted)
        for one in reversed(self._store.under(Digest.read(binding.question), now=now)):
            if one.request.decision_id == binding.decision or _ended(one) > binding.issued_at:
                return one  # it was asked by this refusal, or by one beside it
        if min(binding.expires_at, submitted.expires_at) <= now:
            raise AccessRequestRefused.expired_denial()
        return binding

    def _binding(self, plane: Plane, submitted: Submission) -> Binding:
        binding = self._tokens.open(submitted.token)
        if binding is None or binding.plane != plane.name:
            raise AccessRequestRefused.invalid_denial_binding("no refusal of this plane's says so")
        if submitted.said != binding.said or submitted.evaluation not in ("", binding.decision):
            raise AccessRequestRefused.invalid_denial_binding("something else was refused")
        return binding

    def name(self, plane: Plane, key: str) -> Digest | None:
        """Return what is kept of an `Idempotency-Key` of this plane's; `None` if there is none."""
        if not key:
            return None
        return Digest(algorithm="hmac-sha256", octets=self._mac("idempotency-key", plane.name, key))

    @contextmanager
    def alone(self, name: Digest | None) -> Iterator[None]:
        """Let nothing else be submitted by this name meanwhile.

        Raises:
            AccessRequestRefused: Something is.

        """
        if name is None:
            yield
            return
        if name in self._under_way:
            raise AccessRequestRefused.duplicate_request("one under this key is under way")
        self._under_way.add(name)
        try:
            yield
        finally:
            self._under_way.discard(name)

    def handle(self, request: ApprovalRequest) -> str:
        """Return how its plane knows a question."""
        return self._handle(request.plane, request.id)

    def found(self, plane: Plane, handle: str) -> Approval | None:
        """Return the question that `plane` submitted and knows as `handle`; `None`: there is none."""
        id_ = ApprovalId(handle.partition(".")[0])
        if not hmac.compare_digest(self._handle(plane.name, id_).encode(), handle.encode()):
            return None
        found = self._store.get(id_, now=self._clock())
        return found if found is not None and found.request.plane == plane.name else None

    def _handle(self, plane: str, id_: ApprovalId) -> str:
        # Ids are unique and no secret; that nobody guesses a handle is by its second part.
        return f"{id_}.{self._mac('access-request', plane, id_).hex()[:32]}"

    def _mac(self, *said: str) -> bytes:
        return hmac.digest(self._seal_key, "\0".join(said).encode(), "sha256")


def _ended(one: Approval) -> float:
    """Return when a question was answered, or waited no more; 0 as long as it waits."""
    if one.at is not None:
        return one.at
    return one.request.expires_at if one.state in _UNANSWERED else 0.0
