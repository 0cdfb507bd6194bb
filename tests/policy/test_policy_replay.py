"""Recorded decisions, put to another policy or to the one that made them."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import gateway.policy.archive as archive_module
from gateway.audit.question import kept
from gateway.domain.decisions import Verdict
from gateway.errors import ConfigError
from gateway.policy.archive import PolicyArchive
from gateway.policy.opa import Opa
from gateway.policy.reload import load
from gateway.policy.replay import Answer, Trial, explained
from gateway.policy.settings import PolicySettings
from gateway.policy.sources import Sources, read_folder
from tests.policy.policy_questions import CONFIG, ONE_RULE, POLICIES, cases, question

SHIPPED = read_folder(Path(POLICIES))
BY_HOUR = """package douane

decision := {"verdict": "allow", "reasons": []} if time.clock(time.now_ns())[0] < 12
else := {"verdict": "deny", "reasons": [{"code": "late", "message": "late"}]}
"""


def sources(rego: str) -> Sources:
    return Sources(files={"decision.rego": rego.encode()})


def record(asked: Mapping[str, Any], answer: Answer, **changes: Any) -> dict[str, Any]:
    """A record of that decision, with its arguments in clear."""
    fields = {"arguments": asked["arguments"], "policy_digest": "sha256:of", "decision_id": "d_1"}
    told: dict[str, Any] = {
        "verdict": answer.verdict,
        "reasons": [{"code": code, "message": ""} for code in answer.codes],
    }
    if answer.obligations:
        told["obligations"] = list(answer.obligations)
    return {**fields, **told, "question": kept(asked, fields), **changes}


def the_case(name: str) -> dict[str, Any]:
    return next(asked for found, asked, _ in cases() if found == name)


@pytest.fixture(scope="module")
def shipped(opa: Opa) -> Trial:
    return Trial.of(SHIPPED, CONFIG, opa=opa)


@pytest.fixture
def small(opa: Opa) -> Trial:
    return Trial.of(sources(ONE_RULE), {}, opa=opa)


def test_every_case_is_decided_alike_after_it_went_through_a_record(
    shipped: Trial, opa: Opa
) -> None:
    from gateway.policy.building import wasm_engine
    from gateway.policy.bundle import prepare

    engine = wasm_engine(opa, prepare(opa, SHIPPED, CONFIG, tested=False), lambda: 0.0)
    compared = []
    for name, asked, _ in cases():
        if asked.get("phase") != "call" or not {"arguments", "flow"} <= asked.keys():
            continue
        if not all("form" in one for one in asked["flow"].get("destinations", ())):
            continue
        answer = Answer.of(engine.decide(asked))
        found = shipped.compare(record(asked, answer))
        assert found is not None
        assert found.finding in {"same", "inexact"}, name
        compared.append(found)
    assert len(compared) > 20
    assert {lacking for one in compared for lacking in one.lacking} <= {"task.tools"}


def test_another_answer_is_a_change(small: Trial) -> None:
    asked = question({"target.name": "good"})
    before = Answer(verdict="deny", codes=("closed",))
    found = small.compare(record(asked, before))
    assert found is not None
    assert found.members == {
        "finding": "changed",
        "before": {"verdict": "deny", "reasons": ["closed"]},
        "after": {"verdict": "allow", "reasons": []},
        "lacking": [],
    }


@pytest.mark.parametrize(
    "before",
    [
        Answer(verdict="ask"),
        Answer(verdict="allow", codes=("noted",)),
        Answer(verdict="allow", obligations=({"duty": "truncate", "bytes": 9},)),
    ],
    ids=["verdict", "codes", "obligations"],
)
def test_verdict_codes_and_obligations_all_count(small: Trial, before: Answer) -> None:
    found = small.compare(record(question({"target.name": "good"}), before))
    assert found is not None
    assert found.finding == "changed"


def test_what_policy_said_counts_and_not_what_the_caller_was_told(small: Trial) -> None:
    limited = record(question({"target.name": "good"}), Answer(verdict="deny", codes=("limited",)))
    limited["question"]["answer"] = {"verdict": "allow", "reasons": []}
    found = small.compare(limited)
    assert found is not None
    assert found.finding == "same"


def test_an_answer_that_may_depend_on_what_is_not_recorded_is_not_given(opa: Opa) -> None:
    rego = ONE_RULE.replace("input.target.name", "input.arguments.name")
    trial = Trial.of(sources(rego), {}, opa=opa)
    asked = question({"arguments": {"name": "good"}})
    before = Answer(verdict="allow")
    hidden = {**record(asked, before), "arguments": {"name": "h1:" + "0" * 64}}
    found = trial.compare(hidden)
    assert found is not None
    assert (found.finding, found.after, found.lacking) == ("inexact", None, ("arguments.name",))
    clear = trial.compare(record(asked, before))
    assert clear is not None
    assert clear.finding == "same"


@pytest.mark.parametrize(
    ("time", "verdict"), [("2026-01-31T08:00:00Z", "allow"), ("2026-01-31T18:00:00Z", "deny")]
)
def test_the_clock_stands_where_it_stood_then(opa: Opa, time: str, verdict: str) -> None:
    trial = Trial.of(sources(BY_HOUR), {}, opa=opa)
    found = trial.compare(record(question({"context.time": time}), Answer(verdict="ask")))
    assert found is not None
    assert found.after is not None
    assert found.after.verdict == verdict


def test_a_policy_without_a_usable_answer_says_error(opa: Opa) -> None:
    trial = Trial.of(sources('package douane\n\ndecision := {"verdict": "maybe"}\n'), {}, opa=opa)
    found = trial.compare(record(question(), Answer(verdict="allow")))
    assert found is not None
    assert found.after == Answer(verdict="error")


def test_a_policy_without_a_decision_refuses(opa: Opa) -> None:
    trial = Trial.of(sources("package other\n\nx := 1\n"), {}, opa=opa)
    found = trial.compare(record(question(), Answer(verdict="allow")))
    assert found is not None
    assert found.after == Answer(verdict="deny", codes=("no_policy",))


def test_the_tests_of_a_policy_that_somebody_sends_are_not_run(opa: Opa) -> None:
    failing = b"package douane_test\n\ntest_no if 1 == 2\n"
    files = {"decision.rego": ONE_RULE.encode(), "decision_test.rego": failing}
    assert Trial.of(Sources(files=files), {}, opa=opa).digest


def test_a_policy_that_cannot_be_used_is_refused(opa: Opa) -> None:
    with pytest.raises(ConfigError):
        Trial.of(sources("package douane\n\nnonsense"), {}, opa=opa)


async def test_every_policy_that_is_put_in_force_is_kept_by_its_digest(
    folder: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "policies"
    settings = PolicySettings(path=str(folder), keep=PolicyArchive(archive).keep)
    holder = await load(settings, {"servers": ["mail"]}, on_change=lambda _: None)
    digest = holder.digest
    await holder.close()
    found = PolicyArchive(archive).find(digest)
    assert found == (read_folder(folder), {"servers": ["mail"]})
    (path,) = archive.iterdir()
    assert (path.stat().st_mode & 0o777, archive.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_kept_policy_that_is_not_what_its_name_says_is_as_good_as_none(tmp_path: Path) -> None:
    archive = PolicyArchive(tmp_path)
    one, other = sources(ONE_RULE), sources(BY_HOUR)
    archive.keep(one, {})
    archive.keep(other, {})
    first, second = (tmp_path / f"{s.digest({})[7:]}.tar.gz" for s in (one, other))
    first.write_bytes(second.read_bytes())
    assert archive.find(one.digest({})) is None
    assert archive.find(other.digest({})) == (other, {})
    second.write_bytes(b"no archive")
    assert archive.find(other.digest({})) is None
    assert archive.find("sha256:../../etc/passwd") is None
    assert archive.find("") is None


def test_a_kept_policy_that_broke_off_is_as_good_as_none_and_is_kept_anew(tmp_path: Path) -> None:
    archive, one = PolicyArchive(tmp_path), sources(ONE_RULE)
    digest = one.digest({})
    archive.keep(one, {})
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for place in range(len(whole)):
        for broken in (whole[:place], whole[:place] + b"\xff\x00" + whole[place + 2 :]):
            path.write_bytes(broken)
            assert archive.find(digest) in (None, (one, {})), place
    path.write_bytes(whole[:40])
    archive.keep(one, {})
    assert archive.find(digest) == (one, {})


def test_the_policies_that_were_in_force_longest_ago_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "MOST_POLICIES", 2)
    archive = PolicyArchive(tmp_path)
    made = [sources(f"package douane\n\nx := {number}\n") for number in range(3)]
    for age, one in zip((30, 20, 10), made, strict=True):
        archive.keep(one, {})
        path = tmp_path / f"{one.digest({})[7:]}.tar.gz"
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
        if one is made[1]:
            archive.keep(made[0], {})  # in force once more
    assert [archive.find(one.digest({})) is not None for one in made] == [True, False, True]


def test_a_policy_that_cannot_be_kept_is_put_in_force_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with caplog.at_level(logging.WARNING):
        PolicyArchive(blocked / "policies").keep(sources(ONE_RULE), {})
    assert "is not kept" in caplog.text


def test_a_decision_is_explained_by_the_rules_that_held(tmp_path: Path) -> None:
    archive = PolicyArchive(tmp_path)
    archive.keep(sources(ONE_RULE), {})
    digest = sources(ONE_RULE).digest({})
    good = record(question({"target.name": "good"}), Answer(verdict="allow"), policy_digest=digest)
    assert explained(archive, good) == {
        "decision_id": "d_1",
        "policy_digest": digest,
        "finding": "same",
        "before": {"verdict": "allow", "reasons": []},
        "after": {"verdict": "allow", "reasons": []},
        "lacking": [],
        "places": [{"file": "decision.rego", "line": 5, "rule": "decision", "code": ""}],
        "rules": ["decision.rego:5: decision"],
    }
    assert explained(archive, {**good, "policy_digest": "sha256:00"})["finding"] == "gone"
    del good["question"]
    assert explained(archive, good)["finding"] == "no_question"


@pytest.mark.parametrize(
    ("time", "rule"),
    [("2027-01-15T08:00:00Z", "decision.rego:3"), ("2027-01-15T20:00:00Z", "decision.rego:4")],
)
def test_the_rules_that_held_are_those_of_the_time_of_the_call(
    tmp_path: Path, time: str, rule: str
) -> None:
    archive, one = PolicyArchive(tmp_path), sources(BY_HOUR)
    archive.keep(one, {})
    asked = question({"context.time": time})
    told = record(asked, Answer(verdict="allow"), policy_digest=one.digest({}))
    assert explained(archive, told)["rules"] == [f"{rule}: decision"]


def test_what_cannot_be_told_exactly_has_no_rules(tmp_path: Path) -> None:
    one = sources(ONE_RULE.replace("input.target.name", "input.arguments.name"))
    archive = PolicyArchive(tmp_path)
    archive.keep(one, {})
    asked = question({"arguments": {"name": "good"}})
    told = record(asked, Answer(verdict="allow"), policy_digest=one.digest({}))
    assert explained(archive, told)["rules"]
    again = explained(archive, {**told, "arguments": {"name": "h1:" + "0" * 64}})
    assert (again["finding"], again.get("rules")) == ("inexact", None)
    assert again["places"] == []


OWN = {
    "our_mail.rego": b"""package douane

deny contains {"code": "outside_mail", "message": "mail stays here"} if input.target.name == "bad"

deny contains {
	"code": "of_lines",
	"message": "a head of several lines",
} if input.target.name == "lines"

deny contains {"code": concat("_", ["put", "together"]), "message": "of parts"} if input.target.name == "parts"

ask contains {"code": "outside_mail", "message": "mail stays here"} if input.target.name == "asked"
""",
    "decision.rego": b"""package douane

helps := true

decision := {"verdict": "deny", "reasons": sort(deny), "obligations": []} if {
	helps
	count(deny) > 0
} else := {"verdict": "ask", "reasons": sort(ask), "obligations": []} if count(ask) > 0
""",
}


def explained_of_own(tmp_path: Path, name: str, verdict: str, *codes: str) -> dict[str, Any]:
    one, archive = Sources(files=OWN), PolicyArchive(tmp_path)
    archive.keep(one, {})
    asked = question({"target.name": name})
    messages = {"outside_mail": "mail stays here", "of_lines": "a head of several lines"}
    reasons = [{"code": code, "message": messages.get(code, "of parts")} for code in codes]
    answer = Answer(verdict=verdict, codes=codes)
    told = record(asked, answer, policy_digest=one.digest({}), reasons=reasons)
    return explained(archive, told)


@pytest.mark.parametrize(
    ("name", "verdict", "code", "at"),
    [
        ("bad", "deny", "outside_mail", (3, "deny")),
        ("asked", "ask", "outside_mail", (12, "ask")),
        ("lines", "deny", "of_lines", (6, "deny")),
        ("parts", "deny", "put_together", (10, "deny")),
    ],
)
def test_what_can_be_told_exactly_says_where_its_reasons_stand_as_well(
    tmp_path: Path, name: str, verdict: str, code: str, at: tuple[int, str]
) -> None:
    again = explained_of_own(tmp_path, name, verdict, code)
    place = {"file": "our_mail.rego", "line": at[0], "rule": at[1], "code": code}
    assert (again["finding"], again["places"]) == ("same", [place])
    assert len(again["rules"]) > 1


def test_where_a_policy_says_otherwise_now_the_reasons_of_then_are_told(tmp_path: Path) -> None:
    again = explained_of_own(tmp_path, "good", "deny", "outside_mail")
    assert again["finding"] == "changed"
    assert [(one["line"], one["code"]) for one in again["places"]] == [(3, "outside_mail")]


def test_of_what_the_gateway_refused_by_itself_no_rule_is_told(tmp_path: Path) -> None:
    one, archive = sources(ONE_RULE), PolicyArchive(tmp_path)
    archive.keep(one, {})
    asked = question({"target.name": "good"})
    told = record(asked, Answer(verdict="deny", codes=("limited",)), policy_digest=one.digest({}))
    told["question"]["answer"] = {"verdict": "allow", "reasons": []}
    assert explained(archive, told)["places"] == []


def test_where_no_question_is_kept_the_reasons_are_found_by_the_text(tmp_path: Path) -> None:
    one, archive = Sources(files=OWN), PolicyArchive(tmp_path)
    archive.keep(one, {})
    told = record(question(), Answer(verdict="deny"), policy_digest=one.digest({}))
    told["reasons"] = [{"code": "outside_mail", "message": "mail stays here"}]
    del told["question"]
    again = explained(archive, told)
    assert again["finding"] == "no_question"
    assert [one["line"] for one in again["places"]] == [3]


def test_what_cannot_be_told_exactly_says_where_its_reasons_stand(tmp_path: Path) -> None:
    closed = 'deny contains {"code": "closed", "message": "no"} if input.arguments.name == "bad"\n'
    rules = ONE_RULE.replace("input.target.name", "input.arguments.name") + closed
    one, archive = sources(rules), PolicyArchive(tmp_path)
    archive.keep(one, {})
    told = record(
        question({"arguments": {"name": "bad"}}),
        Answer(verdict="deny", codes=("closed",)),
        policy_digest=one.digest({}),
    )
    again = explained(archive, {**told, "arguments": {"name": "h1:" + "0" * 64}})
    place = {"file": "decision.rego", "line": rules.count("\n"), "rule": "deny", "code": "closed"}
    assert again["places"] == [place]


def test_a_verdict_of_a_record_is_read_as_it_stands() -> None:
    assert Answer.recorded(record(question(), Answer(verdict="allow"))).verdict == Verdict.ALLOW
