"""Requests for access: a plane submits a refusal, so that a person is asked.

AuthZEN, Access Request and Approval Profile. The question is one like every other, and so is its answer.
"""

from typing import Final, Self

from gateway.domain._value import value
from gateway.errors import Refusal

CONTEXT: Final = ("agent", "arguments", "protocol_version", "task")
"""The members of a question's context that decide, and have to come back as they were."""


@value
class Binding:
    """What the refusal said of itself that is submitted: nothing else may be asked for by it."""

    plane: str
    """The one that was refused."""
    decision: str
    said: str
    """What was asked, as the profile's `binding_hash`."""
    question: str
    """The fingerprint of the question that a person would be asked: of whom, in which run, with which
    label, under which definition, for which reasons, with which arguments."""
    issued_at: float
    """Seconds since the epoch."""
    expires_at: float


class AccessRequestRefused(Refusal):
    """`problem` is the last part of the problem's URN, and `status` the HTTP status that goes with it
    (AuthZEN, Access Request and Approval Profile, error responses).
    """

    code = "access_request_refused"

    def __init__(self, public: str, *, problem: str, status: int) -> None:
        super().__init__(public, detail=f"{problem}: {public}", reasons=[(problem, public)])
        self.problem = problem
        self.status = status

    @classmethod
    def not_requestable(cls, why: str) -> Self:
        return cls(why, problem="not_requestable", status=400)

    @classmethod
    def invalid_denial_binding(cls, why: str) -> Self:
        return cls(why, problem="invalid_denial_binding", status=400)

    @classmethod
    def expired_denial(cls) -> Self:
        return cls("this refusal can be submitted no more", problem="expired_denial", status=410)

    @classmethod
    def duplicate_request(cls, why: str) -> Self:
        return cls(why, problem="duplicate_request", status=409)

    @classmethod
    def unknown_task(cls) -> Self:
        return cls("there is no such request of yours", problem="unknown_task", status=404)

    @classmethod
    def task_expired(cls) -> Self:
        return cls("its answer has run out", problem="task_expired", status=410)

    @classmethod
    def invalid_task_state(cls) -> Self:
        return cls("it waits no more", problem="invalid_task_state", status=409)
