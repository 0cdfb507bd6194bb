"""What a chat shows of a message: a sentence of ours, names as they are, and a link to the page."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import orjson

from gateway.pins.visible import visible


class Shape(StrEnum):
    """What a receiver understands."""

    JSON = "json"
    SLACK = "slack"
    TEAMS = "teams"


_SENTENCES: Final[Mapping[str, str]] = {
    "approval.asked": "A call waits for a person's word",
    "approval.allowed": "A call that waited was allowed",
    "approval.denied": "A call that waited was denied",
    "pin.changed": "A definition has changed, and its calls are refused until somebody looks",
    "policy.refused": "A new policy could not be put in force; the one before it stays",
    "audit.gap": "Evidence is in doubt: the log could not take records for a while",
    "audit.witness": "Evidence is in doubt: a witness has seen another history of the log",
    "ping": "A test: notices of Douane arrive here",
}
_ANOMALY = "Something departs from what is usual"
_OTHER = "Something was recorded"
_OPEN = "Open the page"
_SCHEMA = "http://adaptivecards.io/schemas/adaptive-card.json"
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def shaped(shape: Shape, body: bytes) -> bytes:
    """Return a message as a receiver of that shape takes it; `body` is the generic one."""
    if shape is Shape.JSON:
        return body
    told = orjson.loads(body)
    sentence, facts = _sentence(told["type"]), _facts(told["data"])
    url = told["data"].get("url")
    return orjson.dumps(_MAKERS[shape](sentence, facts, url))


def _sentence(type_: str) -> str:
    return _SENTENCES.get(type_, _ANOMALY if type_.startswith("anomaly.") else _OTHER)


def _facts(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what it is about; others chose these names, so whatever hides in them is spelled out."""
    about = "/".join(str(data[name]) for name in ("server", "target") if data.get(name))
    found = [
        ("About", about),
        ("For", str(data.get("principal") or "")),
        ("Code", str(data.get("code") or "")),
        ("At the command line", str(data.get("command") or "")),
    ]
    return [(name, visible(text)) for name, text in found if text]


def _slack(sentence: str, facts: list[tuple[str, str]], url: str | None) -> Mapping[str, Any]:
    """Return a message for an incoming webhook of Slack.

    What others chose stands in `plain_text` alone: there nothing is a link, a mention or a format.
    """
    lines = "\n".join([sentence, *(f"{name}: {text}" for name, text in facts)])
    blocks: list[Mapping[str, Any]] = [_section({"type": "plain_text", "text": lines[:3000]})]
    if url:
        blocks.append(_section({"type": "mrkdwn", "text": f"<{url.translate(_ESCAPED)}|{_OPEN}>"}))
    return {"text": sentence, "blocks": blocks}


def _section(text: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": "section", "text": text}


def _teams(sentence: str, facts: list[tuple[str, str]], url: str | None) -> Mapping[str, Any]:
    """Return a card for a workflow of Teams; a run of text has no markup, unlike a block or a fact."""
    runs = [{"type": "TextRun", "text": f"{name}: {text}"} for name, text in facts]
    body = [{"type": "TextBlock", "text": sentence, "wrap": True, "weight": "Bolder"}]
    card = {
        "$schema": _SCHEMA,
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [*body, *({"type": "RichTextBlock", "inlines": [run]} for run in runs)],
        "actions": [{"type": "Action.OpenUrl", "title": _OPEN, "url": url}] if url else [],
    }
    kind = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": kind, "content": card}]}


_MAKERS: Final = {Shape.SLACK: _slack, Shape.TEAMS: _teams}
