"""Shipped tests judge the shipped rules; an operator's own judge whatever is in force."""

import hashlib
import shutil
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from gateway.errors import ConfigError
from gateway.policy.bundle import Policy, prepare
from gateway.policy.commands import check, evaluate, run_own_tests
from gateway.policy.opa import WALL_SECONDS, Opa, Ran
from gateway.policy.reload import load
from gateway.policy.settings import PolicyEvent, PolicySettings
from gateway.policy.shipped import is_shipped
from gateway.policy.sources import Sources, read_folder
from gateway.policy.testing import opa_test

POLICIES = Path(__file__).parents[2] / "policies"
SHIPPED = read_folder(POLICIES)

NOTHING_GOES_OUT = """package douane

deny contains {"code": "emergency", "message": "nothing is called today"} if closed

closed if input.phase == "call"
"""
ALL_IS_MASKED = """package douane

duty contains {"duty": "redact", "patterns": [".+"]} if input.phase == "result"
"""
CONFIG = {"roles": {"user": {"groups": ["users"]}}, "tenant": {}, "servers": {}}


def with_own(opa: Opa, own: Mapping[str, str]) -> Policy:
    files = {**SHIPPED.files, **{path: text.encode() for path, text in own.items()}}
    return prepare(opa, Sources(files=files), CONFIG)


@pytest.fixture
def own_folder(tmp_path: Path) -> Path:
    """What `douane init` puts there."""
    shutil.copytree(POLICIES, tmp_path / "policies")
    return tmp_path / "policies"


def test_every_shipped_file_is_known_by_its_digest() -> None:
    missing = [
        f"{hashlib.sha256(content).hexdigest()}  {path}"
        for path, content in sorted(SHIPPED.files.items())
        if path.endswith(".rego") and not is_shipped(content)
    ]
    assert not missing, f"add to gateway/policy/shipped.sha256: {missing}"


def test_the_shipped_policy_says_what_its_tests_say(opa: Opa) -> None:
    assert with_own(opa, {}).notices == ()


@pytest.mark.parametrize(
    ("rule", "name", "test"),
    [
        (NOTHING_GOES_OUT, "data.douane.deny", "_test.rego:"),
        pytest.param(
            *(ALL_IS_MASKED, "data.douane.duty", "results_test.rego:"), marks=pytest.mark.full
        ),
    ],
)
def test_an_emergency_rule_is_no_mistake_and_is_told(
    opa: Opa, rule: str, name: str, test: str
) -> None:
    (notice,) = with_own(opa, {"emergency.rego": rule}).notices
    assert notice.startswith(f"emergency.rego:3: {name} changes what a shipped test says")
    assert test in notice
    assert "policy/" not in notice


@pytest.mark.full
def test_a_shipped_rule_that_was_changed_is_told_with_its_file(opa: Opa) -> None:
    changed = SHIPPED.files["decision.rego"].decode().replace("count(deny) > 0", "count(deny) > 99")
    notices = with_own(opa, {"decision.rego": changed}).notices
    assert notices
    assert all(notice.startswith("decision.rego") for notice in notices)


@pytest.mark.full
def test_other_data_is_told_as_such(opa: Opa) -> None:
    data = SHIPPED.files["data.yaml"].decode().replace("profile: default", "profile: observe")
    assert data.encode() != SHIPPED.files["data.yaml"]
    for notice in with_own(opa, {"data.yaml": data}).notices:
        assert notice.startswith("other data, or a file that is missing, changes what")


@pytest.mark.full
def test_an_own_test_judges_the_whole(opa: Opa) -> None:
    own = (
        "package own_test\n\nimport data.douane\nimport data.fixtures_test as fix\n\n"
        "test_reading_is_allowed if {\n\tanswer := douane.decision with input as fix.read\n"
        '\t\twith data.douane.config as fix.config\n\tanswer.verdict == "allow"\n}\n'
    )
    assert with_own(opa, {"own_test.rego": own}).notices == ()
    with pytest.raises(ConfigError) as caught:
        with_own(opa, {"own_test.rego": own, "emergency.rego": NOTHING_GOES_OUT})
    assert caught.value.problems == (
        "own_test.rego:6: data.own_test.test_reading_is_allowed fails",
    )


@pytest.mark.full
def test_a_shipped_test_that_somebody_rewrote_is_their_own(opa: Opa) -> None:
    rewritten = SHIPPED.files["scopes_test.rego"].decode() + "\ntest_mine if false\n"
    with pytest.raises(ConfigError) as caught:
        with_own(opa, {"scopes_test.rego": rewritten})
    (problem,) = caught.value.problems
    assert problem.startswith("scopes_test.rego:")
    assert problem.endswith("data.scopes_test.test_mine fails")


@pytest.mark.full
def test_a_test_that_is_yet_to_be_written_fails_nothing(opa: Opa) -> None:
    planned = "package own_test\n\ntodo_test_later if false\n"
    assert with_own(opa, {"own_test.rego": planned}).notices == ()


def test_a_file_in_the_shipped_folder_is_not_shipped_for_that() -> None:
    assert not is_shipped(NOTHING_GOES_OUT.encode())
    assert is_shipped(SHIPPED.files["scopes_test.rego"])


async def test_deny_every_call_can_be_checked_tested_and_put_in_force(own_folder: Path) -> None:
    (own_folder / "emergency.rego").write_text(NOTHING_GOES_OUT)
    settings = PolicySettings(path=str(own_folder))
    checked = await check(settings, CONFIG)
    assert checked.problems == ()
    tests, notices = run_own_tests(settings)
    assert notices == checked.notices
    assert [test for test in tests if not test.passed and not test.shipped] == []
    events: list[PolicyEvent] = []
    holder = await load(settings, CONFIG, on_change=events.append)
    try:
        assert [event.notices for event in events] == [notices]
        (decision,) = await holder.evaluate_many([{"phase": "call"}])
        assert "emergency" in {reason.code for reason in decision.reasons}
    finally:
        await holder.close()


async def test_an_empty_policy_is_a_mistake_to_a_check_and_loud_when_it_runs(
    tmp_path: Path,
) -> None:
    (tmp_path / "other.rego").write_text("package other\n\nx := 1\n")
    settings = PolicySettings(path=str(tmp_path))
    (problem,) = (await check(settings, {})).problems
    assert "so every call is refused" in problem
    events: list[PolicyEvent] = []
    holder = await load(settings, {}, on_change=events.append)
    await holder.close()
    assert [(event.empty, len(event.notices)) for event in events] == [(True, 1)]
    assert (await evaluate(settings, {}, {})).verdict == "deny"


def test_each_test_has_all_the_time_that_opa_has(
    opa: Opa, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By default five seconds, and a policy that was saved on a slow machine is refused."""
    asked: list[tuple[str, ...]] = []

    def run(_: Opa, *arguments: str, **__: object) -> Ran:
        asked.append(arguments)
        return Ran(ok=True, out="{}", err="")

    monkeypatch.setattr(Opa, "run", run)
    assert opa_test(opa, tmp_path, "--coverage") == {}
    assert ("--timeout", f"{WALL_SECONDS:.0f}s") in pairwise(asked[0])
