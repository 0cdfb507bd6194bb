"""By which rules a recorded answer can have come about: read in the policy's text, and nothing asked."""

from pathlib import Path
from typing import Any

import pytest

from gateway.policy.archive import PolicyArchive
from gateway.policy.opa import Opa
from gateway.policy.places import reasons_at, rules_of
from gateway.policy.replay import Trial, placed
from gateway.policy.sources import Sources, read_folder
from tests.policy.policy_questions import CONFIG, cases
from tests.servers.process import ROOT

SHIPPED = read_folder(ROOT / "policies")


def said(verdict: str, *reasons: tuple[str, str]) -> dict[str, Any]:
    told = [{"code": code, "message": message} for code, message in reasons]
    return {"decision_id": "d_1", "verdict": verdict, "reasons": told}


def rule(verdict: str, code: str, message: str, sources: Sources = SHIPPED) -> list[str]:
    """Return the rules as `file: the line that stands there`."""
    found = rules_of(sources, said(verdict, (code, message)))
    lines = [sources.files[one["file"]].decode().splitlines()[one["line"] - 1] for one in found]
    return [
        f"{one['file']}: {one['rule']}: {line.strip()}"
        for one, line in zip(found, lines, strict=True)
    ]


CARRIES = "the call carries something of class iban that may not go there"
DLP = 'contains {"code": "sensitive_data", "message": message} if {'


def test_a_rule_is_the_one_of_its_verdict_and_of_its_words() -> None:
    assert rule("deny", "sensitive_data", CARRIES) == [f"dlp.rego: deny: deny {DLP}"]
    assert rule("ask", "sensitive_data", CARRIES) == [f"dlp.rego: ask: ask {DLP}"]
    (answered,) = rules_of(
        SHIPPED,
        said("deny", ("sensitive_data", "the answer has something of class iban")),
    )
    (carried,) = rules_of(SHIPPED, said("deny", ("sensitive_data", CARRIES)))
    assert answered["line"] > carried["line"]


@pytest.mark.parametrize(
    ("code", "message", "ends"),
    [
        (
            "secret_leaves",
            "a secret of this run would go to a server that did not give it",
            "give it",
        ),
        ("secret_leaves", "this run has seen secrets, and data would go to $.to", "place"),
        ("context_leaves", "a server asks for what other servers have said", "have said"),
    ],
)
def test_of_many_with_one_code_it_is_the_one_that_says_so(
    code: str, message: str, ends: str
) -> None:
    (found,) = rule("deny", code, message)
    assert f"{ends}" in found


def test_a_reason_of_the_gateways_own_stands_in_no_policy() -> None:
    assert rules_of(SHIPPED, said("deny", ("pin_drift", "mail/tool/send"))) == []


def test_a_rule_of_several_lines_is_called_by_its_name() -> None:
    assert rule("deny", "no_rule", "no rule allows this") == [
        'decision.rego: decision: "reasons": [{"code": "no_rule", "message": "no rule allows this"}],'
    ]


@pytest.mark.parametrize(
    "text", ["", "\xff", '"code": "x"', 'deny contains {"code": "x", "message": "\\q"} if {']
)
def test_a_text_that_is_no_policy_is_read_without_harm(text: str) -> None:
    sources = Sources(files={"a.rego": text.encode("latin-1")})
    assert len(rules_of(sources, said("deny", ("x", "y")))) <= 1


def test_where_the_text_is_gone_no_rule_is_named(tmp_path: Path) -> None:
    archive = PolicyArchive(tmp_path)
    record = said("deny", ("sensitive_data", CARRIES))
    assert placed(archive, record) == {
        "decision_id": "d_1",
        "policy_digest": "",
        "finding": "gone",
        "rules": [],
    }
    archive.keep(SHIPPED, {})
    kept = placed(archive, {**record, "policy_digest": SHIPPED.digest({})})
    assert (kept["finding"], [one["file"] for one in kept["rules"]]) == ("not_asked", ["dlp.rego"])


def test_every_reason_of_the_shipped_rules_has_its_place(opa: Opa) -> None:
    trial = Trial.of(SHIPPED, CONFIG, opa=opa)
    assert trial._engine is not None
    untold = set()
    for _, asked, _ in cases():
        trial._clock.take(asked)
        answer = trial._engine.decide(asked)
        told = said(answer.verdict.value, *((one.code, one.message) for one in answer.reasons))
        at = {one["code"] for one in reasons_at(SHIPPED, told, None)}
        untold |= {one.code for one in answer.reasons} - at
    assert untold == set()


def test_a_reason_whose_words_are_covered_in_the_record_is_found_by_its_code() -> None:
    (found,) = reasons_at(SHIPPED, said("deny", ("no_rule", "***")), None)
    assert found["file"] == "decision.rego"


def test_of_two_rules_with_the_same_words_it_is_the_one_that_held() -> None:
    text = 'deny contains {"code": "x", "message": "y"} if '
    sources = Sources(files={"a.rego": f"{text}1 == 2\n{text}1 == 1\n".encode()})
    told = said("deny", ("x", "y"))
    assert len(rules_of(sources, told)) == 2
    assert [one["line"] for one in reasons_at(sources, told, [("a.rego", 2, "deny")])] == [2]


def test_beside_a_reason_that_stands_in_the_text_one_put_together_is_told_too() -> None:
    text = 'deny contains {"code": "x", "message": "y"} if true\ndeny contains made if true\n'
    sources = Sources(files={"a.rego": text.encode()})
    held = [("a.rego", 1, "deny"), ("a.rego", 2, "deny"), ("a.rego", 3, "helps")]
    found = reasons_at(sources, said("deny", ("x", "y"), ("z", "z")), held)
    assert [(one["line"], one["code"]) for one in found] == [(1, "x"), (2, "z")]


@pytest.mark.parametrize(
    "line",
    [
        'deny contains {"code": "x", "message": "no mail"} if input.target.name == "send"',
        'deny contains {"message": "no mail", "code": "x"} if input.target.name in {"send"}',
        'deny contains {"code": "x", "message": sprintf("no %s", ["mail"])} if input.phase == "call"',
    ],
)
def test_what_a_rule_asks_for_in_the_line_of_its_message_is_none_of_its_words(line: str) -> None:
    sources = Sources(files={"a.rego": f"{line}\n".encode()})
    assert [one["line"] for one in rules_of(sources, said("deny", ("x", "no mail")))] == [1]
    assert rules_of(sources, said("deny", ("x", "another reason"))) == []
