"""docs/audit-queries.md tells every question, the language as it is, and what an answer looks like."""

import re

from gateway.admin import archive
from gateway.admin.names import Names
from gateway.audit.query import Filter, Order, compile_filter, place_of
from gateway.audit.questions import QUESTIONS
from gateway.cli.ask import _sendings, ask
from gateway.cli.output import PLAIN_COLUMNS
from gateway.storage import answers, index
from tests.docs.pages import ROOT, blocks, prose, rows, spans

PAGE = ROOT / "docs" / "audit-queries.md"
TEXT = " ".join(prose(PAGE).split())

_CLIENT = {
    "client_id": "0aefebbf425cf9970f966e16e5881d99",
    "name": "assistant",
    "kind": "registered",
    "grants": ["authorization_code"],
}
_CALL = {
    "time": "2026-11-22T06:25:16.000001Z",
    "principal": "emma",
    "client": "0aefebbf425cf9970f966e16e5881d99",
    "source_ip": "10.1.4.20",
    "server": "mail",
    "tool": "send_email",
    "effect": "egress",
    "went_out": True,
    "verdict": "allow",
    "code": None,
    "rules": [],
    "seen": [
        {"server": "crm", "tool": "get_customer", "record": "01a201ee19f025bbb1950adf00000025"}
    ],
    "label": {"integrity": "untrusted", "confidentiality": "private"},
    "destinations": [
        {
            "path": "$.to[0]",
            "proof": "none",
            "value_hmac": "h1:d5779f3a2f8262f7cdf0dd56483206770b4f",
        }
    ],
    "policy_digest": "sha256:81b8de33cec364a04f16b9d438f9a50ca9bd95a6e32b6821c15dae152a3f025b",
    "policy_since": "2026-11-22T06:25:09.000001Z",
    "approval": {
        "id": "01a201ee25a625bbb1950adf0000002a",
        "answer": "allowed",
        "by": "user:noah",
        "at": "2026-11-22T06:25:15.000001Z",
        "note": "agency has a contract",
    },
    "record": "01a201ee2e4d25bbb1950adf0000002f",
    "leaf_index": 42,
    "signed": True,
}
_ASKED = _CALL | {
    "time": "2026-11-22T06:25:14.000001Z",
    "went_out": False,
    "verdict": "ask",
    "code": "approval_required",
    "rules": ["private_data_leaves"],
    "record": "01a201ee25cd25bbb1950adf0000002c",
    "leaf_index": 40,
}


def test_the_answer_that_is_shown_is_how_one_looks() -> None:
    answer = {"since": "2026-11-15T06:25:20.000Z", "through": 47, "rows": [_CALL, _ASKED]}
    command, *shown = blocks(PAGE, "console")[0].splitlines()
    assert command == "$ douane audit ask sent-outside --from crm --since 7d"
    assert shown == list(_sendings(answer, Names([_CLIENT]), PLAIN_COLUMNS))


def test_every_question_is_told_as_its_command() -> None:
    told = {
        spans(row["question"])[0].split()[3]
        for row in rows(PAGE, "question")
        if "douane" in row["question"]
    }
    assert told == set(ask.commands)
    assert told - {"run"} == set(QUESTIONS) - {"denied-by-rule"}


def test_every_expression_on_the_page_can_be_read() -> None:
    text = PAGE.read_text("utf-8")
    found = re.findall(r"--where '([^']+)'", text)
    assert len(found) >= 5
    for where in found:
        compile_filter(Filter(where=where), now=0.0)
    (cursor,) = re.findall(r"--order oldest .* --after (\S+)", text)
    assert place_of(cursor, Order.OLDEST)


def test_the_numbers_are_the_codes() -> None:
    assert f"one transaction of at most {answers.LONGEST_READ_S:.0f} seconds" in TEXT
    assert archive._CATCH_UP_S == 1.0
    assert "it catches up for at most a second" in TEXT
    assert archive._REST == 3.0
    assert "a quarter of one core at most" in TEXT
    assert f"`{index.INDEX}`" in TEXT
