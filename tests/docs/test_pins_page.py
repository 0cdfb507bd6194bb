"""docs/pins.md and the code name the same states, tiers, findings and commands."""

import re
from pathlib import Path

from gateway.admin import lock
from gateway.cli import changes
from gateway.domain.tools import Kind, PinStatus, Profile
from gateway.pins import findings, phrases
from gateway.pins.catalog import HASH
from gateway.pins.tiers import Tier
from gateway.policy import toolchain
from tests.docs.pages import ROOT, blocks, prose, rows, spans

PAGE = ROOT / "docs" / "pins.md"
SOURCE = ROOT / "gateway" / "pins" / "findings.py"


def first_cells(header: str) -> list[str]:
    return [row[header].strip("`") for row in rows(PAGE, header)]


def test_every_state_tier_and_profile_is_told() -> None:
    assert first_cells("status") == [status.value for status in PinStatus]
    assert first_cells("tier") == [tier.value for tier in Tier]
    assert {profile.value for profile in Profile} <= set(spans(prose(PAGE)))
    assert first_cells("kind") == [
        kind.value for kind in (Kind.TOOL, Kind.PROMPT, Kind.TEMPLATE, Kind.SERVER, Kind.RESOURCE)
    ]


def test_every_finding_is_told_and_those_that_hold_a_prompt_come_first() -> None:
    structural = set(re.findall(r'code="(\w+)"', SOURCE.read_text(encoding="utf-8")))
    told = first_cells("finding")
    assert set(told) == structural | set(phrases.HARD) | set(phrases.SOFT)
    assert len(told) == len(set(told))
    assert set(told[:5]) == findings.HARD_CODES


def test_the_hash_and_the_version_of_lock_files_are_the_codes() -> None:
    assert f"`{HASH}`" in prose(PAGE)
    assert "Files of versions 2 and 1," in prose(PAGE)
    assert lock.VERSION == 3


def test_the_examples_fit_the_screen_that_is_promised() -> None:
    reviews = [block for block in blocks(PAGE, "") if block.startswith("$ douane pins review")]
    assert [len(review.splitlines()) <= changes.SCREEN_LINES for review in reviews] == [True, True]


def test_the_example_rule_wants_two_people(tmp_path: Path) -> None:
    (rule,) = blocks(PAGE, "rego")
    (tmp_path / "p.rego").write_text(rule)
    asked = ("data.douane.pin_approvals", "--stdin-input")
    ran = toolchain.find_opa().run(
        "eval", "-f", "raw", "-d", str(tmp_path), *asked, stdin='{"change": {"tier": "T2"}}'
    )
    assert ran.out.strip() == "2"
