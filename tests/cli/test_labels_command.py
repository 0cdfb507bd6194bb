"""`douane servers suggest-labels`: a fragment that the configuration takes as it is."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.config import parse
from gateway.domain.labels import Effect, ToolRule
from gateway.domain.tools import Sighting
from gateway.flow.suggest import SECRET
from tests.admin.world import sighting
from tests.cli.world import Site

SECRET_REASON = (
    "name: get_secret; annotations: readOnlyHint; results may hold what gives access: secret"
)
HEAD = "version: 1\npublic_url: http://127.0.0.1:8080\n"


def seen(site: Site, *sightings: Sighting) -> Site:
    site.seen = sightings
    site.run("pins", "list")
    site.seen = ()
    return site


def tool(name: str, *arguments: str, reads: bool = False, **members: Any) -> Sighting:
    schema = {"properties": {argument: {"type": "string"} for argument in arguments}}
    annotations = {"readOnlyHint": True} if reads else {}
    return sighting(
        name, "", members={"inputSchema": schema, "annotations": annotations, **members}
    )


def rules(text: str) -> dict[str, ToolRule]:
    """What the configuration reads out of a fragment, with an address put under its server."""
    whole = text.replace("  mail:\n", "  mail:\n    url: https://mail.example/mcp\n")
    config = parse(HEAD + whole, file=Path("douane.yaml"))
    return dict(config.servers["mail"].rule.tools)


def uncommented(text: str) -> str:
    lines = text.splitlines()
    return "\n".join(line.replace("        # ", "        ", 1) for line in lines) + "\n"


@pytest.fixture
def site(site: Site) -> Site:
    identifiers: Any = {"outputSchema": {"properties": {"id": {"type": "string"}}}}
    return seen(
        site,
        tool("send_mail", "to", "body"),
        tool("get_page", "id", **identifiers),
        tool("get_secret", reads=True),
        tool("zap"),
    )


def test_the_configuration_takes_the_fragment_as_it_is(site: Site) -> None:
    text = site.run("servers", "suggest-labels", "mail").stdout
    assert rules(text) == {
        "get_page": ToolRule(),
        "get_secret": ToolRule(effect=Effect.READ, result=SECRET),
        "send_mail": ToolRule(payload=("body",)),
        "zap": ToolRule(),
    }


def test_a_question_is_answered_by_taking_its_mark_away(site: Site) -> None:
    text = site.run("servers", "suggest-labels", "mail").stdout
    everything = {
        "get_page": ToolRule(effect=Effect.READ, typed=("$.id",)),
        "get_secret": ToolRule(effect=Effect.READ, result=SECRET),
        "send_mail": ToolRule(effect=Effect.EGRESS, destination=("to",), payload=("body",)),
        "zap": ToolRule(),
    }
    assert rules(uncommented(text)) == everything
    accepted = site.run("servers", "suggest-labels", "mail", "--accept-lowering").stdout
    assert rules(accepted) == everything


def test_a_person_reads_why(site: Site) -> None:
    assert site.run("servers", "suggest-labels", "mail").stdout.splitlines() == [
        "# 4 tools, 4 of them as they wait for approval.",
        "# A line after `#` is a question: it trusts the tool more than no label does.",
        "servers:",
        "  mail:",
        "    tools:",
        "      # not approved yet; name: get_page",
        "      get_page:",
        "        # effect: read   # lowers the default; uncomment if this tool only reads",
        '        # typed: ["$.id"]   # proves destinations: uncomment if no free text is in them',
        "        payload: []",
        "      # not approved yet; " + SECRET_REASON,
        "      get_secret:",
        "        effect: read",
        "        result: {integrity: untrusted, confidentiality: secret}",
        "      # not approved yet; name: send_mail",
        "      send_mail:",
        "        # effect: egress   # lowers the default; uncomment if this tool does nothing worse",
        "        # destination: [to]   # lowers the default: with proof of these a call need not wait",
        "        payload: [body]",
        "      # not approved yet; nothing speaks for an effect",
        "      zap:",
        "        payload: []",
    ]


def test_scripts_get_a_line_a_tool(site: Site) -> None:
    rows = site.rows("servers", "suggest-labels", "mail")
    assert [(row["name"], row["effect"], row["lowers"]) for row in rows] == [
        ("get_page", "read", ["effect", "typed"]),
        ("get_secret", "read", []),
        ("send_mail", "egress", ["effect", "destination"]),
        ("zap", None, []),
    ]
    assert site.rows("servers", "suggest-labels", "mail", "--all") == rows


def test_approved_definitions_are_not_said_to_wait(site: Site) -> None:
    site.run("pins", "approve", "mail", "zap")
    text = site.run("servers", "suggest-labels", "mail").stdout
    assert "# 4 tools, 3 of them as they wait for approval." in text
    assert "      # nothing speaks for an effect\n      zap:" in text


def test_a_server_that_nobody_has_seen_has_no_tools(site: Site) -> None:
    told = site.run("servers", "suggest-labels", "nowhere")
    assert (told.exit_code, "no tool of this server was seen" in told.stderr) == (1, True)


@pytest.mark.parametrize(
    "name",
    [
        "no",
        "a: b",
        'q"uo\\te',
        "new\nline # x",
        "\U0001f600",
        "\x1b[31m",
        "\x7f",
        "{",
        "7",
        "*a",
        "x: 1\n      cc",
    ],
)
def test_no_name_can_mean_anything_else(site: Site, name: str) -> None:
    command = tool("send_x", "to", name, title="\n      evil: {effect: read}")
    text = site.run("servers", "suggest-labels", "mail", "--accept-lowering").stdout
    assert "send_x" not in text
    seen(site, command)
    text = site.run("servers", "suggest-labels", "mail", "--accept-lowering").stdout
    assert text.isascii()
    assert name in (*rules(text)["send_x"].payload, *rules(text)["send_x"].destination)
    assert yaml.safe_load(text)["servers"]["mail"]["tools"].keys() == rules(text).keys()


def test_long_reasons_are_cut(site: Site) -> None:
    seen(site, tool("send_" + "x" * 120, "to" + "recipients" * 30, "cc"))
    text = site.run("servers", "suggest-labels", "mail").stdout
    reasons = [line for line in text.splitlines() if line.startswith("      # ")]
    assert max(map(len, reasons)) == len("      # ") + 160 + len("...")


def test_a_review_shows_the_labels_of_a_new_tool_on_one_line(site: Site) -> None:
    text = site.run("pins", "review", "mail").stdout
    assert "  labels it suggests: effect egress?; destination to?; payload body\n" in text
    assert (
        "  labels it suggests: effect read; result untrusted/secret\n"
        in site.run("pins", "diff", "mail", "get_secret").stdout
    )
    assert "labels it suggests: none" in site.run("pins", "diff", "mail", "zap").stdout
    site.run("pins", "approve", "mail", "zap")
    assert "labels" not in site.run("pins", "diff", "mail", "zap").stdout
