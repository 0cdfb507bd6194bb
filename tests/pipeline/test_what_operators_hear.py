"""A changed definition is not silent: it is a line in the log."""

import logging

import pytest

from gateway.domain.tools import Profile
from tests.pipeline.house import TOOLS, House


async def test_a_changed_definition_is_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    house = House()
    await house.approve_all()
    first = [one.getMessage() for one in caplog.records]
    assert f"mail: {len(TOOLS)} definitions are new, and wait for approval" in first
    caplog.clear()
    name = next(iter(TOOLS))
    await house.show({**TOOLS[name], "description": "Something else."}, profile=Profile.MODERN)
    (told,) = caplog.records
    assert told.levelno == logging.WARNING
    assert told.getMessage() == (
        f"mail: the tool {name} has changed, and waits for a person: `douane pins review`"
    )
    caplog.clear()
    await house.show({**TOOLS[name], "description": "Something else."}, profile=Profile.MODERN)
    assert caplog.records == []


async def test_a_name_with_hidden_characters_is_shown_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    house = House()
    tool = {"name": "a\u200bb", "description": "x", "inputSchema": {"type": "object"}}
    await house.show(tool)
    caplog.clear()
    await house.show({**tool, "description": "y"})
    assert "\u200b" not in " ".join(one.getMessage() for one in caplog.records)
