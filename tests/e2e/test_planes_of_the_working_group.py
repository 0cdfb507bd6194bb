"""The scenario by which AuthZEN decision points are certified, and decisions of its interop events.

What it asks about is no MCP: an operator says which tools its actions are, and rules of a test decide.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from aiohttp import web

from tests.e2e.planes import ISSUER, ReferencePlane, registered
from tests.e2e.scripted import FRESH, answer, raw_in_a_thread, told
from tests.running import EVERY_SCOPE, Running, rules_in, running_gateway

RULES = """\
package douane

of_the_scenario if input.target.server == "records"

deny contains {"code": "archived", "message": "what is archived is not written"} if {
	of_the_scenario
	input.phase == "call"
	input.target.name == "record_write"
	archived
	not "admin" in input.principal.groups
}

deny contains {"code": "not_theirs", "message": "this is somebody else's"} if {
	of_the_scenario
	input.phase == "call"
	input.target.name == "record_write"
	input.arguments.id == "record-1"
	input.principal.sub == "bob"
	not input.arguments.status
}

deny contains {"code": "for_good", "message": "nothing is deleted for good"} if {
	of_the_scenario
	input.phase == "call"
	input.target.name == "record_delete"
	not input.arguments.soft == true
}

archived if input.arguments.status == "archived"

deny contains {"code": "viewers_read", "message": "viewers do not change anything"} if {
	of_the_scenario
	input.phase == "call"
	input.target.name in {"route_post", "route_put", "route_delete"}
	not "editor" in input.principal.groups
}
"""
ACTIONS = ("read", "write", "delete")
VERBS = ("GET", "POST", "PUT", "DELETE")
TOOLS = (
    *(f"record_{action}" for action in ACTIONS),
    *(f"route_{verb.lower()}" for verb in VERBS),
)
OURS = {"effect": "read", "result": {"integrity": "trusted", "confidentiality": "public"}}


async def records(request: web.Request) -> web.StreamResponse:
    """Behave as an MCP server whose tools are those actions."""
    if request.method != "POST":
        return web.Response(status=405)
    message = json.loads(await request.read())
    match message.get("method"):
        case "server/discover":
            versions = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
            return answer(message, {**versions, **FRESH})
        case "tools/list":
            tools = [
                {"name": name, "description": "Of a scenario.", "inputSchema": {"type": "object"}}
                for name in TOOLS
            ]
            return answer(message, {"tools": tools, **FRESH})
        case "tools/call":
            return answer(message, told("done"))
        case _:
            pass
    error = {"code": -32601, "message": "Method not found"}
    return web.json_response(
        {"jsonrpc": "2.0", "id": message.get("id"), "error": error}, status=404
    )


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("certified")
    (rules_in(folder / "policies") / "scenario.rego").write_text(RULES)
    plane = {
        "servers": {"records": "records"},
        "issuers": [ISSUER],
        "subjects": "vouched",
        "groups": "role",
        "client": "harness",
        "scopes": list(EVERY_SCOPE),
        "resources": {
            "record": {
                "server": "records",
                "actions": {action: f"record_{action}" for action in ACTIONS},
            },
            "route": {
                "server": "records",
                "actions": {verb: f"route_{verb.lower()}" for verb in VERBS},
            },
        },
    }
    with raw_in_a_thread() as raw:
        raw.play(records)
        with running_gateway(
            folder,
            {"records": {"url": raw.url, "tools": dict.fromkeys(TOOLS, OURS)}},
            policies=folder / "policies",
            pins={"recheck": "1h", "fresh": "1h"},
            roles={"user": {"groups": ["users", "admin", "editor", "viewer"]}},
            planes={"authzen": registered(folder, harness=plane)},
        ) as running:
            running.approve_all("records")
            yield running


@pytest.fixture
def harness(certified: Running) -> ReferencePlane:
    return ReferencePlane(url=certified.url, name="harness")


def asked(
    who: str,
    action: str,
    of: str,
    *,
    type_: str = "record",
    role: str = "users",
    how: Mapping[str, Any] | None = None,
    what: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "subject": {"type": "user", "id": who, "properties": {"role": role}},
        "action": {"name": action, "properties": how or {}},
        "resource": {"type": type_, "id": of, "properties": what or {}},
    }


CORE = (
    (asked("alice", "read", "record-1"), True),
    (asked("alice", "write", "record-1"), True),
    (asked("bob", "read", "record-1"), True),
    (asked("bob", "write", "record-1"), False),
)
PROPERTIES = (
    (asked("alice", "write", "record-2", what={"status": "archived"}), False),
    (asked("bob", "write", "record-2", role="admin", what={"status": "archived"}), True),
    (asked("alice", "delete", "record-1", how={"soft": True}), True),
    (asked("alice", "delete", "record-1", how={"soft": False}), False),
)


@pytest.mark.parametrize(("question", "expected"), [*CORE, *PROPERTIES])
def test_the_decisions_that_are_checked(
    harness: ReferencePlane, question: dict[str, Any], *, expected: bool
) -> None:
    assert harness.post(question).decision is expected
    assert harness.post(question).decision is expected


def test_a_batch_is_answered_in_its_order(harness: ReferencePlane) -> None:
    both = (*CORE, *PROPERTIES)
    body = json.dumps({"evaluations": [question for question, _ in both]}).encode()
    answered = harness.send(body, path="/access/v1/evaluations")
    assert [one["decision"] for one in answered.body["evaluations"]] == [e for _, e in both]


def test_what_stands_beside_the_array_is_for_every_item(harness: ReferencePlane) -> None:
    question, _ = CORE[0]
    items = [{}, {"action": {"name": "write"}}, {"subject": {"type": "user", "id": 7}}]
    body = json.dumps({**question, "evaluations": items}).encode()
    answered = harness.send(body, path="/access/v1/evaluations")
    assert [one["decision"] for one in answered.body["evaluations"]] == [True, True, False]
    assert answered.body["evaluations"][2]["context"]["error"]["status"] == 400


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("role", ["editor", "viewer"])
def test_gateways_ask_by_verb_and_route(harness: ReferencePlane, verb: str, role: str) -> None:
    answered = harness.post(asked("rick", verb, "/todos", type_="route", role=role))
    assert answered.decision is (verb == "GET" or role == "editor")


def test_an_unknown_action_or_type_is_no_and_no_error(harness: ReferencePlane) -> None:
    assert harness.post(asked("alice", "print", "record-1")).decision is False
    assert harness.post(asked("alice", "read", "record-1", type_="planet")).decision is False
