"""`audit.redaction`, and that of servers and tools: whose level holds, and what is no level."""

from pathlib import Path
from typing import Any

import pytest

from gateway.audit.redaction import Redaction
from gateway.config import Config
from gateway.config.reading import parse
from gateway.domain.paths import parse_path
from gateway.errors import ConfigError
from gateway.wiring.redacting import held_by, levels_of

HEAD = "version: 1\npublic_url: http://127.0.0.1:8080\n"
CONTENT = """\
audit: {redaction: hashed}
servers:
  mail:
    url: https://mail.example/mcp
    credential: {kind: header, value: 'env:MAIL_KEY'}
    audit: {clear: ["$.folder"]}
    tools:
      send: {audit: {redaction: none}}
      read: {audit: {redaction: full}}
      move: {audit: {clear: ["$.to[*]", "$['a b']"]}}
      list: {effect: read}
  notes: {url: 'https://notes.example/mcp'}
"""


def config(text: str = CONTENT) -> Config:
    return parse(HEAD + text, file=Path("douane.yaml"))


@pytest.mark.parametrize(
    ("server", "tool", "redaction", "clear"),
    [
        ("mail", "send", "none", ()),
        ("mail", "read", "full", ()),
        ("mail", "move", "selected", ("$.to[*]", "$['a b']")),
        ("mail", "list", "selected", ("$.folder",)),
        ("mail", "other", "selected", ("$.folder",)),
        ("notes", "any", "hashed", ()),
        ("", "call_tool", "none", ()),
    ],
)
def test_the_nearest_level_holds(
    server: str, tool: str, redaction: str, clear: tuple[str, ...]
) -> None:
    level = levels_of(config()).of({"server": server}, tool)
    assert level.redaction == Redaction(redaction)
    assert level.clear == tuple(map(parse_path, clear))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("audit: {redaction: clear}", "3: audit.redaction: is not a level; write `full`"),
        (
            "servers: {a: {url: 'https://a.example/mcp', audit: {redaction: clear}}}",
            "3: servers.a.audit.redaction: is not a level; write `full`",
        ),
        (
            "servers: {a: {url: 'https://a.example/mcp', audit: {redaction: full, clear: [$.a]}}}",
            "3: servers.a.audit.clear: is for `redaction: selected` only",
        ),
        (
            "servers: {a: {url: 'https://a.example/mcp', tools: {t: {audit: {clear: [a]}}}}}",
            (
                "3: servers.a.tools.t.audit.clear[0]: a path starts with $: a; "
                "write a path such as `$.project`"
            ),
        ),
    ],
)
def test_what_is_no_level_is_told_with_its_line(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config(text)
    assert [
        problem.partition("douane.yaml:")[2] or problem for problem in refused.value.problems
    ] == [told]


def test_a_tool_of_which_only_this_is_said_has_no_labels() -> None:
    assert config().servers["mail"].labelled == {"list"}
    guided: Any = "servers: {a: {url: 'https://a.example/mcp', tools: {t: {guidance: {usage: x}, audit: {redaction: none}}, u: {}}}}"
    assert config(guided).servers["a"].labelled == {"u"}


def test_all_secrets_that_are_referred_to_are_held_and_a_missing_one_is_nobodys() -> None:
    assert held_by(config(), {"MAIL_KEY": "the-key"}) == ["the-key"]
    assert held_by(config(), {}) == []
