from typing import Any

import pytest

from gateway.domain.document import Document
from gateway.domain.labels import BOTTOM, STRICTEST_DEFAULT, Effect, ServerRule, ToolRule
from gateway.domain.tools import Kind, Manifest, Profile, Target, UpstreamId
from gateway.flow.effects import effect_of


def manifest(**members: Any) -> Manifest:
    return Manifest(
        target=Target(server=UpstreamId("s"), kind=Kind.TOOL, name="t"),
        profile=Profile.MODERN,
        definition=Document.of({"name": "t", **members}),
    )


@pytest.mark.parametrize("effect", list(Effect))
def test_what_is_configured_holds_whatever_the_annotations_say(effect: Effect) -> None:
    assert (
        effect_of(ToolRule(effect=effect), manifest(annotations={"readOnlyHint": True})) is effect
    )


def test_unconfigured_a_tool_reads_if_its_approved_annotations_say_so() -> None:
    assert effect_of(ToolRule(), manifest(annotations={"readOnlyHint": True})) is Effect.READ


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"annotations": None},
        {"annotations": [True]},
        {"annotations": {"readOnlyHint": 1}},
        {"annotations": {"readOnlyHint": "true"}},
        {"annotations": {"readonlyhint": True}},
        {"annotations": {"destructiveHint": False}},
        {"readOnlyHint": True},
    ],
)
def test_unconfigured_anything_else_destroys(members: dict[str, Any]) -> None:
    assert effect_of(ToolRule(), manifest(**members)) is Effect.DESTROY


def test_results_have_the_tools_label_or_else_the_servers() -> None:
    labelled = ServerRule(tools={"t": ToolRule(result=BOTTOM), "u": ToolRule()})
    assert labelled.result_of("t") == BOTTOM
    assert labelled.result_of("u") == labelled.result_of("v") == STRICTEST_DEFAULT
    assert ServerRule(default=BOTTOM, tools={}).result_of("t") == BOTTOM
