"""docs/policy.md and the policy room name the same things, and its examples compile."""

from pathlib import Path

from gateway.domain.calls import OriginKind
from gateway.domain.decisions import Duty, Phase, Verdict
from gateway.domain.flow import Proof
from gateway.domain.tools import Disposition
from gateway.pins.tiers import Tier
from gateway.policy import instance, settings, toolchain
from gateway.policy.builtins import BUILTINS
from gateway.policy.schema import input_schema
from tests.docs.pages import ROOT, blocks, prose, rows, spans

PAGE = ROOT / "docs" / "policy.md"


def first_cells(header: str) -> list[str]:
    return [row[header].strip("`") for row in rows(PAGE, header)]


def test_every_duty_is_told_and_no_other() -> None:
    assert first_cells("duty") == [duty.value for duty in Duty]


def test_every_proof_is_told_strongest_first() -> None:
    assert first_cells("proof") == [proof.value for proof in Proof]


def test_every_tier_of_a_change_is_told() -> None:
    assert first_cells("tier") == [tier.value for tier in Tier]


def test_every_built_in_of_the_engine_is_told() -> None:
    assert sorted(first_cells("function")) == sorted(BUILTINS)


def test_every_member_of_the_question_is_told() -> None:
    decision = input_schema()["anyOf"][0]
    assert set(first_cells("member")) == set(decision["properties"]) - {"version"}


def test_every_origin_and_all_that_is_said_of_it_is_told() -> None:
    origin = input_schema()["anyOf"][0]["properties"]["origin"]["properties"]
    (told,) = (row["what it is"] for row in rows(PAGE, "member") if row["member"] == "`origin`")
    assert {*origin, *OriginKind} <= set(spans(told))


def test_every_phase_verdict_and_disposition_is_told() -> None:
    told = set(spans(prose(PAGE)))
    assert {*Phase, *Disposition} <= told
    assert all(f'"{verdict}"' in prose(PAGE) for verdict in Verdict)


def test_the_bounds_are_the_engines() -> None:
    millions, mebibytes = settings.FUEL // 10**6, instance.MEMORY_BYTES // 1024**2
    assert f"{millions} million instructions, {mebibytes} MiB" in prose(PAGE)
    assert ".".join(map(str, toolchain.VERSION)) in prose(PAGE)


def test_the_examples_pass_their_own_test(tmp_path: Path) -> None:
    for number, block in enumerate(blocks(PAGE, "rego")):
        kind = "_test" if "package douane_test" in block else ""
        (tmp_path / f"example_{number}{kind}.rego").write_text(block)
    (tmp_path / "ours_test.rego").write_text(TESTS_OF_EXAMPLES)
    ran = toolchain.find_opa().run("test", str(tmp_path))
    assert ran.ok, ran.lines
    assert "PASS: 4/4" in ran.out


TESTS_OF_EXAMPLES = """\
package ours_test

codes(name, arguments, groups) := found if {
	asked := {"phase": "call", "target": {"server": "s", "name": name}, "arguments": arguments}
	found := {one.code | some one in data.douane.deny} with input as object.union(
		asked, {"principal": {"groups": groups}},
	)
}

test_amounts if {
	codes("transfer", {"amount": 1000}, ["finance"]) == set()
	every arguments in [{}, {"amount": 1000.5}, {"amount": "7"}, {"amount": [7]}, {"amount": null}] {
		codes("transfer", arguments, ["finance"]) == {"too_much"}
	}
}

test_addresses if {
	codes("send_email", {"to": "a.b+c@example.com"}, []) == set()
	every to in ["a@example.com.elsewhere", "a@elsewhere,x@example.com", "a@example.com\\nb@elsewhere", ["a@example.com"]] {
		codes("send_email", {"to": to}, []) == {"outside_mail"}
	}
	codes("send_email", {}, []) == {"outside_mail"}
}

test_groups if codes("transfer", {"amount": 1}, ["users"]) == {"not_finance"}
"""
