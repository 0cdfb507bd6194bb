"""docs/alerts.md tells the bounds, the codes, the events and the answers that the code has."""

import json
import typing

from gateway.behaviour import baselines, limits, profile, timeline
from gateway.behaviour.deviations import CODES, KINDS, Deviation, Kind, Subject, View
from gateway.config.alerts import Event
from gateway.export import deviations, messages, webhooks
from tests.docs.pages import ROOT, blocks, prose, rows, spans

PAGE = ROOT / "docs" / "alerts.md"
WORDS = " ".join(prose(PAGE).split())


def test_every_code_is_told_with_its_bound() -> None:
    told = {row["code"].strip("`"): row["never below"] for row in rows(PAGE, "code")}
    assert told.keys() == CODES
    for kind, floor in limits.FLOORS.items():
        assert told[Kind(kind).code].split(";")[0] == str(floor)
    assert told[Kind.HOUR.code] == str(profile._CALLS_OUT_OF_HOURS - 1)


def test_the_bounds_are_the_codes() -> None:
    assert limits._TIMES_MEDIAN == 3.0
    assert "three times the median" in WORDS
    assert limits._TIMES_SPREAD == 8.0
    assert "eight times their spread" in WORDS
    assert (limits._TIMES_MOST, limits._TIMES_MOST_OTHERWISE) == ({"rate": 3.5}, 1.5)
    assert "three and a half times the second highest" in WORDS
    assert f"The last {limits.WINDOW} days" in WORDS
    assert f"at least {limits.SETTLED_SENDS} times" in WORDS
    assert limits._NEAR_HOURS == 3
    assert "within three hours" in WORDS
    most = baselines.MOST
    assert f"at most {most[View.PRINCIPAL]:,} principals, {most[View.CLIENT]:,} clients" in WORDS
    assert f"{most[View.TOOL]:,} pairs" in WORDS
    assert f"fewer than {profile._FEWEST_CALLS} calls" in WORDS
    assert profile._FEWEST_DAYS == 5
    assert baselines.MOST_TOLD == 10
    assert timeline._LEAP_S == 4 * 86400
    assert deviations._STALE_S == 86400
    assert {kind for kinds in KINDS.values() for kind in kinds} == set(Kind)


def test_every_member_of_the_evidence_is_told() -> None:
    told = {
        name
        for row in rows(PAGE, "member of `evidence`")
        for name in spans(next(iter(row.values())))
    }
    made = Deviation(
        kind=Kind.TOOL,
        subject=Subject(view=View.PRINCIPAL, principal="emma"),
        time=0.0,
        leaf_index=0,
        record="r",
        message="",
        usual={},
        seen=7,
        cases=(1,),
        names=("a",),
    )
    assert told == made.evidence.keys()


def test_every_event_and_every_answer_is_told() -> None:
    told = [row["event"].strip("`") for row in rows(PAGE, "event")]
    assert told == list(typing.get_args(Event))
    refusals = sorted(webhooks._REFUSALS)
    named = f"{', '.join(map(str, refusals[:-1]))} and {refusals[-1]}"
    assert named in WORDS
    assert f"cut after {messages._LONGEST_NAME} characters" in WORDS


def test_the_message_on_the_page_has_the_members_of_one() -> None:
    (text,) = blocks(PAGE, "json")
    shown = json.loads(text)
    assert shown.keys() == {"type", "timestamp", "data"}
    assert shown["data"].keys() == {*messages._NAMED, "url", "leaf_index", "command"}
