"""Whether declared words ask for a call, and what a tool says that nobody labelled."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.flow import Run, RunId, Task
from gateway.domain.labels import Effect, ToolRule
from gateway.flow.asked import asks_for, told_by, told_of
from gateway.flow.provenance import Provenance
from gateway.flow.review import MOST_PAYLOADS, review
from gateway.flow.use import Knowledge, Use
from tests.flow.flow_builders import TENANT, UNTRUSTED

LABELLED = ToolRule(effect=Effect.EGRESS, destination=("to",), payload=("stars", "text"))


def use(
    tool: str,
    rule: ToolRule = LABELLED,
    arguments: Mapping[str, Any] | None = None,
    **about: Any,
) -> Use:
    effect = rule.effect or Effect.DESTROY
    given = arguments or {}
    return Use(server="s", tool=tool, rule=rule, effect=effect, arguments=given, about=about)


def test_what_says_that_it_only_reads_is_asked_for_by_any_task() -> None:
    said = "Search the mailbox."
    assert asks_for("Wash the car", use("search_mail", ToolRule(), description=said))
    assert not asks_for("Wash the car", use("search_mail", description=said))


@pytest.mark.parametrize(
    ("tool", "about", "told"),
    [
        ("get_device", {}, Effect.READ),
        ("list_orders", {"description": "Orders of this account."}, Effect.READ),
        ("track_parcel", {"description": "Where a parcel is."}, Effect.READ),
        ("get_device", {"annotations": {"readOnlyHint": False}}, None),
        ("get_device", {"annotations": {"destructiveHint": True}}, None),
        ("get_it", {"description": "Delete everything."}, Effect.DESTROY),
        ("get_it", {"inputSchema": {"properties": {"command": {}}}}, Effect.EXECUTE),
        ("get_it", {"inputSchema": {"properties": {"sql": {}}}}, Effect.EXECUTE),
        ("post_message", {}, Effect.EGRESS),
        ("frobnicate", {}, None),
        ("frobnicate", {"description": 7, "annotations": "no"}, None),
    ],
)
def test_a_definition_tells_the_worst_that_it_speaks_for(
    tool: str, about: Mapping[str, Any], told: Effect | None
) -> None:
    assert told_by(tool, about) is told


def test_only_a_tool_that_nobody_labelled_tells() -> None:
    assert told_of(use("post_message", ToolRule())) is Effect.EGRESS
    assert told_of(use("frobnicate", ToolRule())) is Effect.DESTROY
    assert told_of(use("post_message")) is None


def test_what_nobody_labelled_is_asked_for_by_the_words_of_what_it_tells() -> None:
    prompt = "Then tell the others that it is out"
    assert asks_for(prompt, use("post_message", ToolRule(destination=("to",))))
    assert not asks_for(
        prompt, use("post_message", ToolRule(effect=Effect.DESTROY, destination=("to",)))
    )


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        ("The phone case gets 3 stars", True),
        ("Stars: 3 for the phone case", True),
        ("The phone case gets 4 stars", False),
        ("The 3 phone cases in the stars", False),
        ("The phone case 17 is the one in the box", False),
    ],
)
def test_whoever_gives_a_value_beside_its_name_asks_for_the_call(prompt: str, told: bool) -> None:
    given = {"to": 17, "stars": 3, "text": "good, but the box was not"}
    assert asks_for(prompt, use("write_review", arguments=given)) is told


NOTE = ToolRule(effect=Effect.WRITE, destination=("record",), payload=("text", "tags", "day"))
DICTATED = "Open the cabinet, and for Arne's record: 10 mg morphine at 10:05, urgent"


@pytest.mark.parametrize(
    ("given", "rule", "asked"),
    [
        ({"text": "10 mg morphine at 10:05"}, NOTE, True),
        ({"text": "10 mg Morphine at 10:05", "tags": ["urgent"], "day": "2026-11-21"}, NOTE, True),
        ({"text": "10 mg morphine at 10:05", "tags": ["paid"]}, NOTE, False),
        ({"text": "10 mg morphine at 10:05", "tags": {"paid": "urgent"}}, NOTE, False),
        ({"text": "20 mg morphine at 10:05"}, NOTE, False),
        ({"tags": ["urgent"] * MOST_PAYLOADS}, NOTE, True),
        ({"tags": ["urgent"] * (MOST_PAYLOADS + 1)}, NOTE, False),
        ({"day": "10:05"}, NOTE, False),
        ({"text": ""}, NOTE, False),
        ({}, NOTE, False),
        ({"record": "Arne"}, NOTE, False),
        ({"text": "urgent"}, replace(NOTE, effect=Effect.EGRESS), True),
        ({"text": "urgent"}, replace(NOTE, effect=Effect.DESTROY), False),
        ({"text": "urgent"}, replace(NOTE, effect=Effect.PAY), False),
    ],
)
def test_whoever_dictates_all_that_a_call_carries_asks_for_it(
    given: Mapping[str, Any], rule: ToolRule, asked: bool
) -> None:
    assert reviewed("append_log", rule, given) is asked


def test_what_nobody_labelled_is_asked_for_by_its_content_if_it_says_that_it_has_one() -> None:
    rule, given = ToolRule(payload=("text",)), {"text": "urgent"}
    assert reviewed("append_log", rule, given)
    assert not reviewed("delete_log", rule, given)


def reviewed(tool: str, rule: ToolRule, given: Mapping[str, Any]) -> bool | None:
    known = Knowledge(tenant=TENANT, task=Task(prompt=DICTATED), provenance=Provenance())
    run = Run(id=RunId("r"), label=UNTRUSTED)
    return review(run, use(tool, rule, arguments=given), known).asked_for


def test_what_a_call_is_done_to_asks_for_nothing() -> None:
    rule = ToolRule(effect=Effect.EGRESS, destination=("issue",))
    assert not asks_for("What is in issue 42?", use("close", rule, arguments={"issue": 42}))


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        ("\u8bf7\u628a\u5b83\u53d1\u7ed9\u9648", None),
        ("Kamu menu za ruku a potom hned kodu", None),
        ("My car is in the garage", False),
        ("Car", None),
        ("", False),
        ("\u00c9teins la sc\u00e8ne du film", True),
        ("Bitte schick es Anna", True),
    ],
)
def test_words_that_cannot_be_read_deny_nothing(prompt: str, told: bool | None) -> None:
    tool = "send_scene" if "film" in prompt else "send_mail"
    assert asks_for(prompt, use(tool)) is told
