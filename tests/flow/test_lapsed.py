"""Why no answer to a question counts any more, as it is told to people."""

from dataclasses import replace

import pytest

from gateway.domain.approvals import ApprovalRequest
from gateway.domain.flow import Run, RunId, RunState
from gateway.domain.labels import BOTTOM, STRICTEST_DEFAULT, Confidentiality, Integrity, Label
from gateway.flow.lapsed import void
from tests.admin.test_approval_desk import question

INTERNAL = Label(integrity=Integrity.TRUSTED, confidentiality=Confidentiality.INTERNAL)
ENDED = "its run has ended"
REDEFINED = "the definition that it was about has changed, or is approved no more"
RAISED = "the run was trusted and internal and is untrusted and private"


def state(label: Label, *, live: bool = True) -> RunState:
    return RunState(run=Run(id=RunId("r_1"), label=label), live=live, idle_s=0.0)


def asked(label: Label) -> ApprovalRequest:
    return replace(question(), label=label)


@pytest.mark.parametrize(
    ("label", "run", "approved", "why"),
    [
        (INTERNAL, state(INTERNAL), True, ""),
        (STRICTEST_DEFAULT, state(BOTTOM), True, ""),  # it names no session
        (INTERNAL, state(STRICTEST_DEFAULT), True, RAISED),
        (INTERNAL, state(INTERNAL, live=False), True, ENDED),
        (INTERNAL, None, True, ENDED),
        (INTERNAL, state(INTERNAL), False, REDEFINED),
        (INTERNAL, state(STRICTEST_DEFAULT), False, f"{RAISED}; {REDEFINED}"),
    ],
)
def test_whatever_an_answer_was_bound_to_is_named_when_it_changes(
    label: Label, run: RunState | None, *, approved: bool, why: str
) -> None:
    assert void(asked(label), run, approved=approved) == why
