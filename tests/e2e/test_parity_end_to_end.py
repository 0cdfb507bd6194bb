"""Through a real gateway: what is listed is found, described and callable, and all else is unknown."""

import json
from typing import Any

import pytest

from tests.e2e.posting import Poster
from tests.e2e.scripted import TOOLS, Raw
from tests.e2e.site import Corridor
from tests.running import ALL

NAMES = [*(f"raw__{tool['name']}" for tool in TOOLS), "notes__delete_note", "raw__never", "never"]
HIDDEN = {"raw__hidden", "raw__never", "never"}
DENIED = {"raw__denied", "notes__delete_note"}


@pytest.fixture
def front(gateway: Corridor) -> Poster:
    return Poster(gateway, ALL)


def said(front: Poster, name: str, **arguments: Any) -> Any:
    return json.loads(front.call(name, arguments).messages[-1]["result"]["content"][0]["text"])


def plain(message: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without the ids that are made for each call."""
    told = message["result"].get("_meta", {}).get("douane/refusal", {})
    for name in ("decision_id", "approval_id"):
        told.pop(name, None)
    return {name: part for name, part in message.items() if name != "id"}


def test_list_search_details_and_calls_agree(front: Poster, raw: Raw) -> None:
    listing = front.modern("tools/list", {}).messages[-1]["result"]["tools"]
    listed = {tool["name"] for tool in listing}
    assert not listed & HIDDEN  # the rest may be deferred
    expected = {name: name not in HIDDEN for name in NAMES}
    found = said(front, "search_tools", query=".", strategy="regex", limit=50, detail="name")
    everywhere = {name for names in found["servers"].values() for name in names}
    assert {name: name in everywhere for name in NAMES} == expected
    described = said(front, "get_tool_details", names=NAMES)
    assert {one["definition"]["name"] for one in described["tools"]} == set(NAMES) - HIDDEN
    assert set(described["unknown"]) == HIDDEN
    for name in NAMES:
        direct = front.call(name, {"name": "x"})
        through = front.call("call_tool", {"name": name, "arguments": {"name": "x"}})
        assert plain(through.messages[-1]) == plain(direct.messages[-1]), name
        if name in HIDDEN:
            assert direct.refusal == "unknown_tool", name
        elif name in DENIED:
            assert direct.refusal == "denied", name
        else:
            assert direct.refusal in {None, "approval_required"}, name


def test_the_hidden_and_the_unknown_are_told_alike(front: Poster, raw: Raw) -> None:
    answers = {
        json.dumps(plain(front.call(f"raw__{name}").messages[-1])) for name in ("hidden", "xyzzyx")
    }
    assert len(answers) == 1
    assert raw.methods == []
