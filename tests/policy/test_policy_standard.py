"""The standard that the shipped policies meet, and what it finds."""

from pathlib import Path

import pytest

from gateway.policy.opa import Opa
from gateway.policy.schema import ABSENT, input_schema
from gateway.policy.settings import PolicySettings
from gateway.policy.sources import read_sources
from gateway.policy.standard import main, run_tests, schema_text, shortcomings
from gateway.policy.testing import RuleTest
from tests.policy.policy_questions import POLICIES, cases, pin_cases

jsonschema = pytest.importorskip("jsonschema")


def test_the_shipped_policies_meet_it(opa: Opa) -> None:
    assert shortcomings(opa, POLICIES) == []


def test_the_shipped_schema_is_the_generated_one() -> None:
    assert (POLICIES / "input.schema.json").read_text() == schema_text()


def test_every_question_of_the_cases_is_one_of_the_schema() -> None:
    validator = jsonschema.Draft7Validator(input_schema())
    for name, asked, _ in cases():
        if "does not exist" not in name and "nobody knows" not in name:
            assert [error.message for error in validator.iter_errors(asked)] == [], name
    for name, asked, _ in pin_cases()[:2]:
        assert validator.is_valid(asked), name


def test_the_schema_is_closed() -> None:
    validator = jsonschema.Draft7Validator(input_schema())
    _, asked, _ = next(cases())
    assert not validator.is_valid({**asked, "more": 1})
    assert not validator.is_valid({**asked, "target": {**asked["target"], "more": 1}})
    assert not validator.is_valid({**asked, "phase": "later"})
    assert validator.is_valid({**asked, "arguments": {"anything": [1]}})


def test_no_phase_lacks_a_member_that_the_schema_does_not_know() -> None:
    known = input_schema()["anyOf"][0]["properties"].keys()
    assert all(absent <= known for absent in ABSENT.values())


def test_what_is_not_formatted_not_reached_or_failing_is_told(opa: Opa, folder: Path) -> None:
    assert shortcomings(opa, folder) == [
        "decision.rego:3: no test reaches this",
        "decision.rego:5: no test reaches this",
    ]
    test = folder / "decision_test.rego"
    test.write_text(
        'package d_test\n\ntest_it if data.douane.decision.verdict == "ask" with input as {}\n'
    )
    assert shortcomings(opa, folder) == ["decision_test.rego:3: data.d_test.test_it fails"]
    test.write_text(
        "package d_test\n\nimport data.douane\n\n"
        'test_good if douane.decision.verdict == "allow" with input as {"target": {"name": "good"}}\n\n'
        'test_bad if douane.decision.verdict == "deny" with input as {}\n'
    )
    assert shortcomings(opa, folder) == []
    (folder / "decision.rego").write_text(
        (folder / "decision.rego").read_text() + "\n\n\nx    := 1"
    )
    assert shortcomings(opa, folder)[0] == "decision.rego: not formatted (opa fmt)"


def test_a_schema_of_another_version_is_told(opa: Opa, folder: Path) -> None:
    (folder / "input.schema.json").write_text("{}")
    assert (
        shortcomings(opa, folder)[0] == "input.schema.json: not the one that the gateway generates"
    )


def test_the_command_fails_where_something_is_missing(
    opa: Opa, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(folder)]) == 1
    assert "no test reaches this" in capsys.readouterr().err
    assert main([str(POLICIES)]) == 0


def test_a_policys_own_tests_are_run_one_by_one(opa: Opa, folder: Path) -> None:
    (folder / "a_test.rego").write_text("package a_test\n\ntest_yes if true\n\ntest_no if false\n")
    sources = read_sources(PolicySettings(path=str(folder)), opa)
    assert set(run_tests(opa, sources)) == {
        RuleTest(name="data.a_test.test_yes", where="a_test.rego:3", passed=True),
        RuleTest(name="data.a_test.test_no", where="a_test.rego:5", passed=False),
    }
