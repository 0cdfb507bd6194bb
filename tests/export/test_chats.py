"""What chats are sent: a sentence of ours, names that mislead nobody, and a link to a page."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.export.chats import Shape, shaped
from gateway.export.messages import message_of, ping
from tests.export.test_webhooks import ASKED, NOW, Receiving, Rig, receiver, record, rig

__all__ = ["receiver", "rig"]

PAGE = "https://gateway.example/approve/a_1"
NASTY = "<!channel> [x](https://evil.example) *b*\u202e"


def body(**changes):
    told = {**ASKED, "reasons": [{"code": "page", "message": PAGE}], **changes}
    return body_of(told, "https://desk.example")


def body_of(members: dict[str, Any], desk: str = "") -> bytes:
    found = message_of(record(**members), approval_s=60, desk=desk)
    assert found is not None
    return found.body


def test_a_program_is_sent_what_it_was_sent_before():
    assert shaped(Shape.JSON, body()) == body()


def test_slack_is_sent_a_sentence_names_and_a_link():
    told = json.loads(shaped(Shape.SLACK, body()))
    assert told["text"] == "A call waits for a person's word"
    said, link = told["blocks"]
    assert said["text"]["type"] == "plain_text"
    assert "About: mail/send\nFor: emma" in said["text"]["text"]
    assert link["text"] == {"type": "mrkdwn", "text": f"<{PAGE}|Open the page>"}


def test_what_others_chose_is_no_link_no_mention_and_no_format_in_slack():
    told = json.loads(shaped(Shape.SLACK, body(target=NASTY)))
    marked = [one["text"]["text"] for one in told["blocks"] if one["text"]["type"] != "plain_text"]
    assert marked == [f"<{PAGE}|Open the page>"]
    assert "\\u{202e}" in told["blocks"][0]["text"]["text"]
    assert NASTY not in told["text"]


def test_teams_is_sent_a_card_with_a_link():
    told = json.loads(shaped(Shape.TEAMS, body()))
    (attached,) = told["attachments"]
    card = attached["content"]
    assert attached["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert card["actions"] == [{"type": "Action.OpenUrl", "title": "Open the page", "url": PAGE}]
    assert card["body"][0]["text"] == "A call waits for a person's word"


def test_what_others_chose_stands_only_where_teams_reads_no_markup():
    card = json.loads(shaped(Shape.TEAMS, body(target=NASTY)))["attachments"][0]["content"]
    for block in card["body"]:
        if block["type"] != "RichTextBlock":
            assert "evil" not in json.dumps(block)
    assert "evil" not in json.dumps(card["actions"])


@pytest.mark.parametrize("shape", [Shape.SLACK, Shape.TEAMS])
def test_no_content_and_no_answer_is_in_what_a_chat_is_sent(shape):
    sent = shaped(shape, body()).decode()
    assert "the content" not in sent
    assert "allow" not in sent
    assert sent.count("https://") == 1


@pytest.mark.parametrize(
    ("members", "url"),
    [
        (
            {"kind": "pin", "code": "changed", "server": "s", "target": "a b&c"},
            "https://desk.example/desk/pins/one?server=s&name=a+b%26c",
        ),
        ({"kind": "gap"}, "https://desk.example/desk/record/r0"),
        ({"kind": "system", "code": "unusual_rate"}, "https://desk.example/desk/record/r0"),
    ],
)
def test_a_message_leads_to_the_page_of_what_it_is_about(members, url):
    assert json.loads(body_of(members, "https://desk.example"))["data"]["url"] == url
    assert "url" not in json.loads(body_of(members))["data"]


async def test_a_chat_without_a_key_is_sent_no_signature(rig: Rig, receiver: Receiving):
    hook = rig.webhook()
    hook.receiver = replace(hook.receiver, key=None, shape=Shape.SLACK)
    await hook.deliver([record(3, **ASKED)])
    ((headers, sent),) = receiver.got
    assert "webhook-signature" not in headers
    assert json.loads(sent)["text"] == "A call waits for a person's word"


def test_a_test_says_that_it_is_one():
    told = json.loads(shaped(Shape.SLACK, ping("p1", str(NOW))))
    assert told["text"] == "A test: notices of Douane arrive here"
