import hashlib
from typing import Any

import pytest

from gateway.pins.ui import interface_item, is_ui, named_interfaces

URI = "ui://mail/inbox"


@pytest.mark.parametrize(
    "uri", [URI, "UI://mail/inbox", " ui://x", "u\ti://x", "ui:x", "\x01ui://x"]
)
def test_whatever_a_reader_of_urls_takes_for_an_interface_is_one(uri: str) -> None:
    assert is_ui(uri)


@pytest.mark.parametrize("uri", ["", "mail://ui://x", "gui://x", "ui", "ui/x"])
def test_other_resources_are_none(uri: str) -> None:
    assert not is_ui(uri)


def test_tools_name_interfaces_in_either_spelling_each_once() -> None:
    tools: list[Any] = [
        {"_meta": {"ui": {"resourceUri": URI, "visibility": ["app"]}}},
        {"_meta": {"ui/resourceUri": "ui://mail/other"}},
        {"_meta": {"ui": {"resourceUri": URI}, "ui/resourceUri": URI}},
        {"_meta": {"ui": {"resourceUri": "https://evil.example/"}}},
        {"_meta": {"ui": {"resourceUri": "ui://mail/\u00e9"}, "ui/resourceUri": "ui://a b"}},
        {"_meta": {"ui": URI}},
        {"_meta": {"ui": {"resourceUri": 5}}},
        {"_meta": []},
        {},
        "tool",
    ]
    assert named_interfaces(tools) == [URI, "ui://mail/other"]


def test_an_interface_is_pinned_by_the_digest_of_its_content_and_all_that_is_said_of_it() -> None:
    html = "<b>\u00e9</b>"
    csp = {"ui": {"csp": {"connectDomains": ["https://api.example"]}}}
    said = {"uri": URI, "mimeType": "text/html;profile=mcp-app", "_meta": csp}
    assert interface_item(URI, {"contents": [{**said, "text": html}], "ttlMs": 5}) == {
        "uri": URI,
        "contents": [
            {
                **said,
                "text": {"sha256": hashlib.sha256(html.encode()).hexdigest(), "bytes": 9},
            }
        ],
    }


@pytest.mark.parametrize(
    "other",
    [
        {"contents": [{"uri": URI, "text": "b"}]},
        {"contents": [{"uri": URI, "blob": "a"}]},
        {"contents": [{"uri": "ui://other", "text": "a"}]},
        {"contents": [{"uri": URI, "text": "a", "_meta": {"ui": {"csp": {}}}}]},
        {"contents": [{"uri": URI, "text": "a"}, {"uri": URI, "text": ""}]},
        {"contents": ["a"]},
        {"contents": None},
        {},
    ],
)
def test_any_other_content_is_another_interface(other: dict[str, Any]) -> None:
    content = {"contents": [{"uri": URI, "text": "a"}]}
    assert interface_item(URI, other) != interface_item(URI, content)
