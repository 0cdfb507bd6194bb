"""Requests for access: a plane submits a refusal, so that a person is asked.

AuthZEN, Access Request and Approval Profile. The question is one like every other, and so is its answer.
"""

from typing import Final

from gateway.domain._value import value

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
