"""A call in front of all servers is the call at the server's own endpoint: decision, records and answer."""

import itertools
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.calls import Permit, RawAnswer
from gateway.domain.decisions import Duty, Obligation, Verdict
from gateway.domain.tools import Kind, Profile, Target
from gateway.errors import PolicyUnavailable, UpstreamFailed
from tests.builtin.front import Site, methods, sent, speaks, tool
from tests.pipeline.house import (
    ALICE,
    MAIL,
    Events,
    Says,
    Seen,
    decision,
    event,
    text,
    whole,
)

DIFFERING = {"endpoint", "decision_id", "time", "duration_us", "approval_id"}
"""What tells two calls apart that are the same."""
STRICT = tool("strict", inputSchema={"type": "object", "required": ["to"]})
STEP_UP = Obligation(duty=Duty.REQUIRE_STEP_UP, detail={"scopes": ["tools:call"]})
REDACTS = Obligation(duty=Duty.REDACT, detail={"patterns": ["hello"]})

OUTCOMES: dict[str, str | None] = {
    "allowed": None,
    "denied": "denied",
    "asked": "approval_required",
    "pending": "pin_pending",
    "drifted": "pin_drift",
    "revoked": "pin_revoked",
    "hidden": "unknown_tool",
    "unknown": "unknown_tool",
    "invalid": "denied",
    "unscoped": "insufficient_scope",
    "undecided": "policy_unavailable",
    "failing": "upstream_failed",
    "redacted": None,
    "refused result": "denied",
}


def only(phase: str, verdict: Verdict) -> Says:
    return lambda question: verdict if question["phase"] == phase else Verdict.ALLOW


def unavailable(question: Mapping[str, Any]) -> Verdict:
    if question["phase"] == "call":
        raise PolicyUnavailable("nobody answers")
    return Verdict.ALLOW


RULES: dict[str, Says] = {
    "denied": only("call", Verdict.DENY),
    "asked": only("call", Verdict.ASK),
    "hidden": lambda question: Verdict.DENY,
    "unscoped": lambda question: decision(Verdict.ALLOW, obligations=[STEP_UP]),
    "undecided": unavailable,
    "redacted": lambda question: decision(Verdict.ALLOW, obligations=[REDACTS]),
    "refused result": only("result", Verdict.DENY),
}
CALLED: dict[str, tuple[str, dict[str, Any]]] = {
    "pending": ("new", {}),
    "drifted": ("strict", {"to": "x"}),
    "unknown": ("nope", {}),
    "invalid": ("strict", {}),
}
"""The tool and its arguments, where they are not `search` and any."""


async def staged(case: str, profile: Profile) -> tuple[Site, str, dict[str, Any]]:
    """Return a site in which a call of the tool that is named ends as `case` says."""
    profiles = frozenset({profile})
    site = await Site(spoken=profiles).furnish(profiles)
    await site.show(MAIL, STRICT, profiles=profiles)
    site.servers[MAIL].answer = speaks(fails if case == "failing" else compact)
    site.house.rule.says = RULES.get(case, lambda question: Verdict.ALLOW)
    match case:
        case "pending":
            await site.show(MAIL, tool("new"), profiles=profiles, approve=False)
        case "drifted":
            changed = tool("strict", description="Changed.")
            await site.show(MAIL, changed, profiles=profiles, approve=False)
        case "revoked":
            target = Target(server=MAIL, kind=Kind.TOOL, name="search")
            await site.house.pins.revoke(target, profile, by="bob", note="")
        case "unscoped":
            site.house.gate.people["alice"] = replace(ALICE, scopes=frozenset({"prompts"}))
        case _:
            pass  # policy or the server makes the difference
    return (site, *CALLED.get(case, ("search", {"q": "x"})))


def compact(permit: Permit) -> RawAnswer:
    """Answer in the spelling that the gateway has: records hold the digest of what was answered."""
    content = {"jsonrpc": "2.0", "id": permit.call.message.id, "result": text("hello, stranger")}
    return whole(json.dumps(content, separators=(",", ":")).encode())


def fails(_: object) -> Any:
    raise UpstreamFailed("it is gone")


def told(site: Site) -> list[tuple[str, dict[str, Any]]]:
    """Return the records since the pins were made, but for what tells the calls apart."""
    return [
        (record.kind.value, {k: v for k, v in record.fields.items() if k not in DIFFERING})
        for record in site.house.audit.records
        if record.kind.value != "pin" and record.fields.get("target") != "search_tools"
    ]


def questions(site: Site) -> list[Any]:
    """Return what policy was asked, but for where the call came in."""
    found: list[Any] = json.loads(json.dumps(site.house.rule.asked))
    for asked in found:
        assert asked["context"].pop("endpoint").startswith("/mcp")
    return found


@pytest.mark.parametrize(("case", "profile"), list(itertools.product(OUTCOMES, Profile)), ids=str)
async def test_a_call_ends_in_front_of_all_servers_as_at_its_own(
    case: str, profile: Profile
) -> None:
    session: dict[str, Any] = {"session": "e.1"} if profile is Profile.LEGACY else {}
    ends = []
    for name in ("relay", "front"):
        site, target, arguments = await staged(case, profile)
        if name == "relay":
            params = {"name": target, "arguments": arguments}
            call = site.house.request("tools/call", params, profile=profile, **session)
            seen = await Seen.of(await site.house.pipeline.handle(call))
        else:
            params = {"name": f"mail__{target}", "arguments": arguments}
            seen = await site.ask("tools/call", params, profile=profile, **session)
        assert seen.code == OUTCOMES[case] or case == "unscoped"
        assert seen.reply.code == OUTCOMES[case]
        body = json.loads(
            json.dumps(seen.json).replace(site.house.last.get("decision_id") or "-", "D")
        )
        ends.append((seen.reply.status, _plain(body), told(site), questions(site)))
        await site.aclose()
    relay, front = ends
    if OUTCOMES[case] == "unknown_tool":
        # What is asked after that is for the names of what could be meant instead.
        del front[-1][len(relay[-1]) :]
    assert front == relay


def _plain(body: Any) -> Any:
    """Return a body without the ids that are made for each call, and whose texts repeat them.

    What `/mcp` alone says stands in further texts.
    """
    if body.get("result", {}).get("isError"):
        del body["result"]["content"][1:]
    meta = body.get("result", {}).get("_meta", {}).get("douane/refusal", {})
    meta.pop("decision_id", None)
    if (id_ := meta.pop("approval_id", None)) is not None:
        return json.loads(json.dumps(body).replace(id_, "A"))
    return body


PRINCIPALS = ("alice", "bob")
NAMES = ("mail__search", "mail__send", "notes__read", "notes__search", "notes__nope", "nope")


@pytest.mark.parametrize(
    ("profile", "who", "hidden"),
    list(itertools.product(Profile, PRINCIPALS, ["nothing", "read", "search", "mail", "alice"])),
    ids=str,
)
async def test_what_is_not_listed_cannot_be_called_and_what_is_can(
    profile: Profile, who: str, hidden: str
) -> None:
    site = await Site().furnish()
    site.house.gate.people["bob"] = replace(ALICE, subject="bob", client_id="other")

    def says(question: Mapping[str, Any]) -> Verdict:
        words = {
            question["target"]["name"],
            question["target"]["server"],
            question["principal"]["sub"],
        }
        return Verdict.DENY if hidden in words else Verdict.ALLOW

    site.house.rule.says = says
    for server in site.servers.values():
        server.answer = speaks()
    listed = await site.names(profile=profile, who=who)
    for name in NAMES:
        seen = await site.ask("tools/call", {"name": name}, profile=profile, who=who)
        assert (seen.code is None) is (name in listed), name
        assert seen.code in {None, "unknown_tool"}
    await site.aclose()


async def test_the_hidden_and_the_unknown_are_told_alike() -> None:
    site = await Site().furnish()
    site.house.rule.says = lambda q: (
        Verdict.DENY if q["target"]["name"] == "read" else Verdict.ALLOW
    )
    bodies = set()
    for name in ("notes__read", "notes__nope", "nope", "other__x"):
        seen = await site.ask("tools/call", {"name": name})
        bodies.add(json.dumps(_plain(seen.json)))
    assert len(bodies) == 1


async def test_a_call_reaches_the_server_under_its_real_name_and_comes_back_under_its_id() -> None:
    site = await Site().furnish()
    params = {"name": "mail__search", "arguments": {"q": "x"}, "_meta": {"k": 1}}
    seen = await site.ask("tools/call", params, id_=7)
    (permit,) = site.servers[MAIL].saw
    assert sent(permit)["params"] == {"name": "search", "arguments": {"q": "x"}, "_meta": {"k": 1}}
    assert sent(permit)["id"] != 7
    headers = dict(permit.call.headers)
    assert (headers["mcp-method"], headers["mcp-name"]) == ("tools/call", "search")
    assert seen.json == {"jsonrpc": "2.0", "id": 7, "result": text("hello")}


async def test_parameters_that_a_client_mirrors_are_sent_on() -> None:
    site = await Site().furnish()
    schema = {"type": "object", "properties": {"to": {"type": "string", "x-mcp-header": "To"}}}
    await site.show(MAIL, tool("mirrored", inputSchema=schema))
    params = {"name": "mail__mirrored", "arguments": {"to": "emma"}}
    call = site.call("tools/call", params)
    for headers, code in (((("mcp-param-to", "emma"),), None), ((), "protocol_error")):
        reply = await site.aggregate.handle(replace(call, headers=headers))
        assert reply.code == code
    (permit,) = site.servers[MAIL].saw
    assert dict(permit.call.headers)["mcp-param-to"] == "emma"


async def test_what_a_client_of_a_session_mirrors_nowhere_is_mirrored_for_it() -> None:
    site = await Site(spoken=frozenset({Profile.MODERN})).furnish()
    schema = {"type": "object", "properties": {"to": {"type": "string", "x-mcp-header": "To"}}}
    await site.show(MAIL, tool("mirrored", inputSchema=schema))
    params = {"name": "mail__mirrored", "arguments": {"to": "émma"}}
    seen = await site.ask("tools/call", params, profile=Profile.LEGACY)
    assert seen.code is None
    (permit,) = site.servers[MAIL].saw
    assert dict(permit.call.headers)["mcp-param-to"] == "=?base64?w6ltbWE=?="


@pytest.mark.parametrize("client", list(Profile))
async def test_a_question_of_policy_is_asked_about_the_client_as_it_is(client: Profile) -> None:
    (other,) = set(Profile) - {client}
    site = await Site(spoken=frozenset({other})).furnish()
    for server in site.servers.values():
        server.answer = speaks()
    seen = await site.ask("tools/call", {"name": "mail__search"}, profile=client)
    assert seen.code is None
    revisions = {asked["context"]["revision"] for asked in site.house.rule.asked}
    assert revisions == {"2026-07-28" if client is Profile.MODERN else "2025-11-25"}
    await site.aclose()


async def test_the_run_of_a_session_is_joined_as_at_a_server() -> None:
    """A session says nothing of what its client read elsewhere, and neither does none."""
    labels = []
    for session in ("e.1", None):
        site = await Site().furnish()
        site.servers[MAIL].answer = speaks()
        await site.ask(
            "tools/call", {"name": "mail__search"}, profile=Profile.LEGACY, session=session
        )
        labels.append(site.house.last["label_before"]["integrity"])
        await site.aclose()
    assert labels == ["trusted", "trusted"]


async def test_a_stream_is_filtered_and_its_response_waits_for_its_record() -> None:
    site = await Site().furnish()
    log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x"}}

    def streams(permit: Any) -> Any:
        final = {"jsonrpc": "2.0", "id": permit.call.message.id, "result": text("hello")}
        changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        return Events([event(changed), event(log), event(final)]).answer()

    site.servers[MAIL].answer = streams
    level = {"_meta": {"io.modelcontextprotocol/logLevel": "info"}}
    seen = await site.ask("tools/call", {"name": "mail__search", **level})
    assert [m.get("method", m.get("id")) for m in seen.messages] == ["notifications/message", 1]
    assert site.house.server.announced == [Kind.TOOL]
    assert site.house.kinds() == ["intent", "outcome"]
    assert methods(site.servers[MAIL]) == ["tools/call"]
