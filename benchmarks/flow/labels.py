"""The same servers with no labels, and with those that their definitions suggest."""

from collections.abc import Mapping
from typing import Any

from benchmarks.flow.traces import Suite
from gateway.domain.labels import ToolRule
from gateway.flow.suggest import suggest
from tests.flow.taken import accepted_rule, live_rule

ABSENT, SUGGESTED, ACCEPTED = "absent", "suggested", "accepted"
LABELS = (ABSENT, SUGGESTED, ACCEPTED)
"""`ABSENT`: what is ours is known, and nothing of any server. `SUGGESTED`: what holds without a
person's word, because it only makes decisions stricter. `ACCEPTED`: all that is suggested."""

_RULES = {SUGGESTED: live_rule, ACCEPTED: accepted_rule}


def labelled(suite: Suite, label: str) -> Mapping[str, Any]:
    """Return the settings of `suite` with these labels in place of the written ones."""
    make = _RULES.get(label)
    servers: dict[str, Any] = {}
    for server in suite.settings["servers"]:
        definitions = {tool["name"]: tool for tool in suite.tools.get(server, ())}
        suggested = {} if make is None else suggest(server, definitions)
        tools = {name: _words(make(one)) for name, one in suggested.items() if make is not None}
        servers[server] = {"tools": tools} if tools else {}
    return {**suite.settings, "servers": servers}


def _words(rule: ToolRule) -> dict[str, Any]:
    """Return `rule` as it is written in `douane.yaml`."""
    words: dict[str, Any] = {}
    if rule.result is not None:
        words["result"] = rule.result.words
    if rule.effect is not None:
        words["effect"] = rule.effect.value
    for name in ("destination", "payload", "typed"):
        if getattr(rule, name):
            words[name] = list(getattr(rule, name))
    return words
