"""Arguments are what the approved definition says, or nothing is asked and nothing is sent."""

import json
from typing import Any

import pytest

from gateway.domain.tools import Kind
from tests.pipeline.house import MAIL, TOOLS, House

MOVE = {
    "name": "move",
    "description": "Move a mail.",
    "inputSchema": {
        "type": "object",
        "properties": {"to": {"type": "string", "enum": ["inbox", "archive"]}},
        "required": ["to"],
        "additionalProperties": False,
    },
}


@pytest.fixture
async def house() -> House:
    built = House()
    await built.show(MOVE, *TOOLS.values())
    await built.approve(Kind.TOOL, "move")
    return built


async def test_arguments_that_fit_are_sent(house: House) -> None:
    seen = await house.handle(house.call("move", {"to": "inbox"}))
    assert seen.code is None
    assert len(house.server.saw) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "$: does not satisfy required (to)"),
        ({"to": "my-secret-folder"}, "$.to: does not satisfy enum"),
        ({"to": "inbox", "as": "root"}, "$: does not satisfy additionalProperties"),
    ],
)
async def test_arguments_that_do_not_fit_reach_neither_policy_nor_upstream(
    house: House, arguments: dict[str, Any], told: str
) -> None:
    seen = await house.handle(house.call("move", arguments))
    refusal = seen.json["result"]["_meta"]["douane/refusal"]
    assert refusal["code"] == "denied"
    assert refusal["reasons"] == [{"code": "invalid_arguments", "message": told}]
    assert [q for q in house.rule.asked if q["phase"] == "call"] == []
    assert house.server.saw == []
    assert "my-secret-folder" not in json.dumps(house.last["reasons"])


async def test_the_approved_schema_counts_and_not_the_one_that_came_later(house: House) -> None:
    house.rule.pin = "serve_approved"
    await house.show({**MOVE, "inputSchema": {"type": "object"}}, *TOOLS.values())
    seen = await house.handle(house.call("move", {"to": "outside"}))
    assert seen.code == "denied"
    assert house.server.saw == []


async def test_a_tool_with_a_schema_that_cannot_be_checked_is_not_known(house: House) -> None:
    bomb: dict[str, Any] = {"a0": {"type": "object"}}
    for level in range(1, 40):
        bomb[f"a{level}"] = {"allOf": [{"$ref": f"#/$defs/a{level - 1}"}] * 2}
    await house.show(
        {"name": "bomb", "inputSchema": {"$defs": bomb, "$ref": "#/$defs/a39"}}, *TOOLS.values()
    )
    assert [pin.target.name for pin in house.pins.all(MAIL)] == ["move", "search", "send"]
