"""A server may say how planes ask about its calls: what was followed is what was approved, or it is a no."""

from typing import Any

import pytest

from gateway.domain.labels import ToolRule
from gateway.domain.planes import ForeignType, Plane
from gateway.domain.tools import Kind, Profile, Target
from gateway.errors import ProtocolError
from gateway.pipeline.plane_records import Asking
from gateway.wire.authzen import Answer, Entity, Evaluation
from tests.pipeline.house import ALICE, MAIL, TOOLS, TRUSTED, House

MAPPING = {"evaluation": {"resource": {"type": "letter", "id": "$params.arguments.id"}}}
MAPPED = {
    "name": "read_letter",
    "inputSchema": {"type": "object", "x-authzen-mapping": MAPPING},
    "annotations": {"readOnlyHint": True},
}
EDGE = Plane(
    name="edge",
    key_digest=b"",
    servers={"mail": MAIL},
    issuers=(ALICE.issuer,),
    scopes=ALICE.scopes,
    types={"letter": ForeignType(server=MAIL, actions={"read": "read_letter", "find": "search"})},
)


@pytest.fixture
async def house() -> House:
    house = House(
        tools={"read_letter": ToolRule(result=TRUSTED), "search": ToolRule(result=TRUSTED)}
    )
    await house.approve_all()
    await house.show(MAPPED, *TOOLS.values())
    await house.approve(Kind.TOOL, "read_letter")
    return house


def digest(house: House) -> str:
    target = Target(server=MAIL, kind=Kind.TOOL, name="read_letter")
    pin = house.pins.find(target, Profile.MODERN)
    assert pin is not None
    return str(pin.observed.digest)


async def ask(
    house: House,
    *,
    action: str = "read",
    resource: str = "letter",
    arguments: dict[str, Any] | None = None,
    **properties: Any,
) -> Answer:
    asked = Evaluation(
        subject=Entity(type="identity", id=ALICE.subject, properties={}),
        action=action,
        action_properties={},
        resource=Entity(
            type=resource, id="read_letter" if resource == "tool" else "7", properties=properties
        ),
        arguments=arguments,
        agent=ALICE.client_id,
    )
    return await house.decisions.answer(
        Asking(plane=EDGE, source_ip="192.0.2.1", request_id="q"), asked
    )


async def test_what_its_server_chose_to_be_asked_is_not_enough(house: House) -> None:
    refused = await ask(house, definition_digest=digest(house))
    assert (refused.decision, refused.context["reason"]) == (False, "arguments_missing")
    refused = await ask(house, arguments={"id": "7"})
    assert (refused.decision, refused.context["reason"]) == (False, "mapping_unknown")
    assert house.owed.kept == {}


async def test_the_approved_mapping_was_followed_and_the_whole_call_is_decided_on(
    house: House,
) -> None:
    arguments = {"id": "7", "cc": "all"}
    allowed = await ask(house, arguments=arguments, definition_digest=digest(house))
    assert allowed.decision is True
    assert house.rule.asked[-1]["arguments"] == arguments


async def test_a_mapping_that_nobody_approved_is_followed_by_nobody(house: House) -> None:
    followed = "sha256:" + "0" * 64
    refused = await ask(house, arguments={"id": "7"}, definition_digest=followed)
    assert "pin_drift" in {one["code"] for one in refused.context["reasons"]}
    approved = digest(house)
    changed = {"evaluation": {"resource": {"type": "letter", "id": "public"}}}
    await house.show(
        {**MAPPED, "inputSchema": {"type": "object", "x-authzen-mapping": changed}}, *TOOLS.values()
    )
    refused = await ask(house, arguments={"id": "7"}, definition_digest=approved)
    assert (refused.decision, refused.context["reasons"][0]["code"]) == (False, "pin_drift")


async def test_whoever_asks_in_the_words_of_mcp_says_all_of_the_call(house: House) -> None:
    told = {"action": "tools/call", "resource": "tool", "server": "mail"}
    assert (await ask(house, arguments={"id": "7"}, **told)).decision is True
    other = {"definition_digest": "sha256:00", **told}
    assert (await ask(house, arguments={"id": "7"}, **other)).decision is False


async def test_a_tool_without_a_mapping_is_asked_about_as_its_operator_says(house: House) -> None:
    assert (await ask(house, action="find", q="x")).decision is True
    assert house.rule.asked[-1]["arguments"] == {"q": "x", "id": "7"}


async def test_a_digest_is_a_text(house: House) -> None:
    with pytest.raises(ProtocolError):
        await ask(house, arguments={"id": "7"}, definition_digest=7)
