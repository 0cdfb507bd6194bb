"""`douane policy explain`: the reason and its place come first, and what else there is to say after."""

from typing import Any

import pytest

from gateway.cli.policy import _decided, _outvoted, _unseen
from gateway.cli.replay import reevaluation_lines

PLACE = {"file": "our.rego", "line": 3, "rule": "deny", "code": "closed_today"}
DENY = {"verdict": "deny", "reasons": ["closed_today"]}
HELD = ["calls.rego:9: permitted", "decision.rego:16: decision", "our.rego:3: deny"]


def lines(**found: Any) -> list[str]:
    return list(reevaluation_lines({"before": DENY, "lacking": [], "places": [PLACE], **found}))


@pytest.mark.parametrize("finding", ["same", "changed", "inexact", "no_question"])
def test_the_reasons_place_comes_first(finding: str) -> None:
    exact = {"after": DENY, "rules": HELD} if finding in {"same", "changed"} else {}
    shown = lines(finding=finding, **exact)
    assert shown[:2] == ["its reasons stand at:", "  our.rego:3: closed_today"]


def test_what_else_held_comes_last_and_without_the_rule_that_said_so() -> None:
    shown = lines(finding="same", after=DENY, rules=HELD)
    assert shown[2] == "asked again, the policy that decided says the same"
    assert shown[-3:] == ["what else held:", *(f"  {rule}" for rule in HELD[:2])]


def test_what_is_not_kept_is_no_doubt_about_the_verdict() -> None:
    shown = lines(finding="inexact", after=None, lacking=["arguments.to"])
    assert shown[2].startswith("the verdict stands as recorded; the record keeps hashes")
    assert shown[-1] == "not kept in clear: arguments.to"


def test_what_no_reason_was_given_for_is_told_by_its_rule() -> None:
    place = {**PLACE, "rule": "decision", "code": ""}
    shown = lines(finding="same", after=DENY, places=[place], rules=["our.rego:3: decision"])
    assert shown[:2] == ["the rules that said so:", "  our.rego:3: decision"]
    assert "what else held:" not in shown


def test_where_policys_word_did_not_count_it_is_said() -> None:
    allowed = {"before": {"verdict": "allow", "reasons": []}}
    told = ["policy's own word was allow; it was not what counted"]
    assert list(_outvoted({"verdict": "deny"}, allowed)) == told
    assert list(_outvoted({"verdict": "deny"}, {"before": DENY})) == []
    assert list(_outvoted({"verdict": "allow"}, allowed)) == []
    assert list(_outvoted({"verdict": "deny"}, {})) == []


def test_the_reason_is_the_calls_also_where_a_persons_answer_was_recorded_after_it() -> None:
    asked = {"kind": "outcome", "id": "1"}
    assert _decided([asked, {"kind": "approval", "id": "2"}]) == asked
    assert _decided([{"kind": "approval", "id": "2"}])["id"] == "2"


def test_what_is_hidden_is_told_from_what_is_not_there() -> None:
    hidden, absent = ({"code": "unknown_tool", "pin_digest": digest} for digest in ("sha256:0", ""))
    (told,) = _unseen(hidden)
    assert "hidden from its caller" in told
    assert "`tools:call`" in told
    for record in (absent, {"code": "unknown_tool"}):
        (told,) = _unseen(record)
        assert told.startswith("no definition of that name")
    assert list(_unseen({"code": "denied", "pin_digest": "sha256:0"})) == []
