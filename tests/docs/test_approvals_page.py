"""docs/approvals.md and the code say the same."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.domain.approvals import Approval, ApprovalState, Span
from gateway.domain.document import Digest
from gateway.domain.flow import RunId
from gateway.domain.labels import STRICTEST_DEFAULT, Confidentiality, Integrity, Label
from gateway.flow.lapsed import why_asked_anew
from gateway.pipeline.asking import LARGEST_QUESTION_BYTES
from gateway.policy import toolchain
from gateway.storage.questions import MOST_KEPT, OCTETS, OCTETS_OF_ONE
from tests.admin.test_approval_desk import question
from tests.docs.pages import ROOT, blocks, prose, rows

PAGE = ROOT / "docs" / "approvals.md"


def test_every_span_is_told() -> None:
    assert [row["span"].strip("`") for row in rows(PAGE, "span")] == [span.value for span in Span]


def test_the_bounds_on_the_page_are_those_of_the_code() -> None:
    assert f"larger than {LARGEST_QUESTION_BYTES // 1024} KiB" in prose(PAGE)
    assert f"no more than {MOST_KEPT} that" in prose(PAGE)
    assert f"no more than {OCTETS // 1024**2} MiB of memory" in prose(PAGE)
    assert OCTETS_OF_ONE * 8 == OCTETS


def test_why_an_earlier_answer_counts_no_more_is_told_as_the_second_question_says_it() -> None:
    told = [
        row["the second question says"].split("`")[1] for row in rows(PAGE, "the earlier answer")
    ]
    before = question()
    internal = Label(integrity=Integrity.TRUSTED, confidentiality=Confidentiality.INTERNAL)
    answered = Approval(request=before, state=ApprovalState.ALLOWED, at=before.asked_at)
    raised = replace(answered, request=replace(before, label=internal))
    seconds = [
        (answered, replace(before, run=RunId("r_2"))),
        (raised, replace(before, label=STRICTEST_DEFAULT)),
        (answered, replace(before, pin_digest=Digest.of(b"another"))),
        (answered, replace(before, reasons=())),
        (replace(answered, state=ApprovalState.USED), before),
        (answered, replace(before, asked_at=before.expires_at)),
    ]
    assert told == [why_asked_anew(earlier, second) for earlier, second in seconds]


@pytest.mark.parametrize(
    ("effect", "confidentiality", "said"),
    [("write", "internal", "true"), ("write", "private", "false"), ("egress", "public", "false")],
)
def test_the_example_rule_says_what_it_seems_to(
    tmp_path: Path, effect: str, confidentiality: str, said: str
) -> None:
    (rule,) = blocks(PAGE, "rego")
    (tmp_path / "p.rego").write_text(rule)
    label = {"integrity": "trusted", "confidentiality": confidentiality}
    asked = {"target": {"effect": effect}, "flow": {"label": label}}
    shipped = ROOT / "policies" / "approvals.rego"
    entry = ("data.douane.self_approval", "--stdin-input")
    ran = toolchain.find_opa().run(
        "eval",
        "-f",
        "raw",
        "-d",
        str(tmp_path),
        "-d",
        str(shipped),
        *entry,
        stdin=json.dumps(asked),
    )
    assert ran.out.strip() == said
