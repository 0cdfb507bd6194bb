"""What hosts refuse, drop or cut of a server's tools, by the table of their rules."""

from typing import Any

import pytest

from gateway.pins.hosts import HOSTS
from gateway.pins.portability import Trouble, troubles

SAID: dict[str, Any] = {
    "title": "T",
    "annotations": {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False},
}


def found(host: str, tools: dict[str, Any], level: str = "error") -> list[Trouble]:
    told = troubles(HOSTS[host], "mail", tools)
    return [one for one in told if one.level == level]


def taking(**schema: Any) -> dict[str, Any]:
    return {"send": {**SAID, "inputSchema": {"type": "object", **schema}}}


@pytest.mark.parametrize("host", HOSTS)
def test_a_plain_tool_is_no_trouble_anywhere(host: str) -> None:
    tools = taking(properties={"const": {"type": "string"}, "$ref": {"type": "string"}})
    assert list(troubles(HOSTS[host], "mail", tools)) == []


@pytest.mark.parametrize(
    ("host", "schema", "keyword"),
    [
        *[("claude", {word: [{}]}, word) for word in ("oneOf", "anyOf", "allOf")],
        ("claude", {"if": {}}, "if"),
        ("gemini", {"properties": {"a": {"const": 1}}}, "const"),
        ("gemini", {"properties": {"a": {"exclusiveMinimum": 0}}}, "exclusiveMinimum"),
        ("gemini", {"$schema": "http://json-schema.org/draft-07/schema#"}, "$schema"),
        ("copilot-studio", {"properties": {"a": {"items": {"$ref": "#/$defs/b"}}}}, "$ref"),
        ("copilot-studio", {"anyOf": [{"$ref": "#/$defs/b"}]}, "$ref"),
        ("copilot-studio", {"properties": {"a": {"exclusiveMinimum": 0}}}, "exclusiveMinimum"),
    ],
)
def test_a_keyword_that_loses_the_tool_is_an_error(
    host: str, schema: dict[str, Any], keyword: str
) -> None:
    (one,) = found(host, taking(**schema))
    assert one.tool == "send"
    assert one.text.startswith(f"`{keyword}` in inputSchema")


def test_only_the_root_of_a_schema_has_to_be_one_object_for_claude() -> None:
    assert found("claude", taking(properties={"a": {"anyOf": [{}]}})) == []


def test_a_value_is_no_keyword() -> None:
    assert found("gemini", taking(default={"const": 1}, examples=[{"uniqueItems": True}])) == []


def test_draft_07_matters_in_what_claude_code_is_promised() -> None:
    def promising(draft: str) -> dict[str, Any]:
        return {"send": {**SAID, "outputSchema": {"$schema": draft}}}

    (one,) = found("claude", promising("http://json-schema.org/draft-07/schema#"))
    assert "outputSchema" in one.text
    assert found("claude", promising("https://json-schema.org/draft/2020-12/schema")) == []


def test_what_makes_a_tool_worse_is_a_warning() -> None:
    schema = taking(properties={"a": {"type": ["string", "null"]}, "b": {"enum": ["x"]}})
    words = {one.text.split()[0] for one in found("copilot-studio", schema, "warning")}
    assert words == {"`enum`", "`type`"}
    assert found("copilot-studio", schema) == []


@pytest.mark.parametrize(
    ("host", "length", "level"),
    [
        ("claude", 90, "error"),
        ("claude", 64 - len("mcp__mail__") + 1, "error"),
        ("openai", 65, "error"),
        ("gemini", 90, "warning"),
    ],
)
def test_a_name_is_measured_with_the_prefix_of_the_host(host: str, length: int, level: str) -> None:
    (one,) = found(host, {"a" * length: SAID}, level)
    assert "characters of" in one.text
    rule = HOSTS[host].names
    assert rule is not None
    longest = rule.longest - len(rule.prefix.format(server="mail"))
    assert list(troubles(HOSTS[host], "mail", {"a" * longest: SAID})) == []


def test_a_dot_is_no_letter_for_claude_and_one_for_gemini() -> None:
    (one,) = found("claude", {"mail.send": SAID})
    assert one.text.endswith("has characters that are none: .")
    assert found("gemini", {"mail.send": SAID}) == []


def test_a_tool_that_writes_may_hide_one_that_reads_where_names_are_cut() -> None:
    start, end = "entries_of_the_archive_", "_of_the_person_who_is_signed_in_now"
    writes = {**SAID, "annotations": {**SAID["annotations"], "readOnlyHint": False}}
    read, remove = f"{start}list{end}", f"{start}drop{end}"
    (one,) = found("gemini", {read: SAID, remove: writes})
    assert f"{read}, {remove} are one name there" in one.text
    assert "one that writes may hide one that reads" in one.text
    (alike,) = found("gemini", {read: SAID, remove: SAID})
    assert "may hide" not in alike.text
    assert found("gemini", {read: SAID, f"{start}drop_all": writes}) == []


@pytest.mark.parametrize(
    ("host", "most", "level"), [("vscode", 128, "error"), ("cursor", 40, "warning")]
)
def test_more_tools_than_a_host_takes(host: str, most: int, level: str) -> None:
    tools = {f"t{number}": SAID for number in range(most + 1)}
    (one,) = troubles(HOSTS[host], "mail", tools)
    assert (one.level, one.tool) == (level, "")
    tools.pop("t0")
    assert list(troubles(HOSTS[host], "mail", tools)) == []


def test_what_directories_want_to_be_told() -> None:
    bare = {"send": {"annotations": {"readOnlyHint": "yes"}, "description": "d" * 201}}
    assert [one.text for one in found("claude", bare, "warning")] == [
        "it does not say: readOnlyHint, destructiveHint, title"
    ]
    assert [one.text for one in found("openai", bare, "warning")] == [
        "it does not say: readOnlyHint, destructiveHint, openWorldHint",
        "its description has 201 characters of 200",
    ]


def test_every_rule_has_its_source_and_date() -> None:
    rules = [
        rule
        for host in HOSTS.values()
        for rule in (host.names, host.count, host.wanted, *host.keywords)
        if rule is not None
    ]
    assert rules
    assert all(rule.source.where and rule.source.date for rule in rules)
