"""What happens at a gateway, and the record that it leaves: a table, so that a missing one shows."""

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from gateway.audit.record import FIELDS
from tests.backends import log_in
from tests.e2e.forms import must_arrive
from tests.e2e.own import edit, until
from tests.e2e.posting import Poster, body_of, mirrored
from tests.e2e.scripted import Raw, instead, raw_in_a_thread
from tests.e2e.site import OURS, RULES, SERVERS, Corridor
from tests.running import ALL, rules_in, running_gateway
from tests.servers.raw import answers

MORE = """\
package douane

duty contains {"duty": "truncate", "bytes": 100000} if {
	input.phase == "call"
	input.target.name == "allowed"
}
"""
TRACE = "0af7651916cd43dd8448eb211c80319c"
SENT: dict[str, Any] = {"text": "to bob", "to": ["bob@example.com"]}
IN_CLEAR = {"text": "said once it may be read"}

WHO = {"principal", "client", "token_id", "roles", "source_ip", "endpoint"}
CALL = {"server", "target", "method", "revision", "origin", "run", "decision_id", "label_before"}
RULED = {"verdict", "policy_digest"}
SAID = {"code", "reasons"}


def row(fields: set[str], **found: Any) -> tuple[Mapping[str, Any], set[str]]:
    """Return what a record is found by, and which fields it has besides."""
    return found, fields | found.keys()


TABLE: dict[str, tuple[Mapping[str, Any], set[str]]] = {
    "the start": row(
        {"config_digest", "policy_digest", "evidence", "reasons"}, kind="system", code="started"
    ),
    "the end": row({"config_digest", "policy_digest", "reasons"}, kind="system", code="stopped"),
    "a policy in force": row(
        {"policy_digest", "evidence", *SAID}, kind="policy", method="policy.reload", verdict="allow"
    ),
    "a policy refused": row(
        {"policy_digest", "evidence", *SAID}, kind="policy", method="policy.reload", verdict="deny"
    ),
    "another configuration": row(
        {"config_digest", "policy_digest", "evidence", "reasons"}, kind="config", code="reloaded"
    ),
    "a configuration refused": row(
        {"config_digest", "reasons"}, kind="config", code="reload_refused", verdict="deny"
    ),
    "a definition seen": row(
        {"server", "target", "pin_digest", "reasons", *RULED}, kind="pin", code="observed"
    ),
    "a definition approved": row(
        {"principal", "roles", "server", "pin_digest", "reasons"},
        kind="pin", method="pins.approve", verdict="allow",
    ),
    "a definition revoked": row(
        {"principal", "roles", "server", "reasons"}, kind="pin", method="pins.revoke"
    ),
    "a client registered": row(
        {"principal", "roles", "reasons"}, kind="admin", method="clients.add", verdict="allow"
    ),
    "a token issued": row(
        {"principal", "client", "token_id", "source_ip", "reasons"},
        kind="token", method="oauth/token", verdict="allow",
    ),
    "a client that cannot prove itself": row(
        {"source_ip", "reasons"},
        kind="auth", method="oauth/token", verdict="deny", code="invalid_client",
    ),
    "a token revoked": row(
        {"client", "source_ip", "reasons"}, kind="token", method="oauth/revoke", verdict="allow"
    ),
    "a call without a good token": row(
        {"endpoint", "server", "source_ip", "method", "reasons", "decision_id"},
        kind="auth", code="unauthenticated", verdict="deny",
    ),
    "requests refused unread": row(
        {"source_ip", "evidence", "reasons"},
        kind="auth", method="http", code="origin", verdict="deny",
    ),
    "a list": row(
        (WHO | CALL | RULED | {"result_hmac", "result_bytes", "reasons"}) - {"target"},
        kind="list", method="tools/list",
    ),
    "a call about to be sent": row(
        WHO | CALL | RULED
        | {"pin_digest", "arguments_hmac", "arguments", "effect", "obligations", "trace_id", "parent_span"},
        kind="intent", target="allowed", trace_id=TRACE,
    ),
    "what became of it": row(
        WHO | CALL | RULED
        | {"pin_digest", "arguments_hmac", "label_after", "obligations", "result_hmac"}
        | {"result_bytes", "upstream_status", "duration_us"},
        kind="outcome", target="allowed", trace_id=TRACE,
    ),
    "where it would go": row(
        WHO | CALL | {"destinations", "effect", "arguments"}, kind="outcome", target="page"
    ),
    "a call that policy forbids": row(
        WHO | CALL | RULED | SAID | {"pin_digest", "arguments_hmac", "effect", "duration_us"},
        kind="outcome", target="denied", code="denied", verdict="deny",
    ),
    "a call of what nobody may know of": row(
        WHO | CALL | SAID, kind="outcome", target="hidden", code="unknown_tool", verdict="deny"
    ),
    "a call of what was revoked": row(
        WHO | CALL | SAID | {"pin_digest"}, kind="outcome", target="amounts", code="pin_revoked"
    ),
    "a server that fails": row(
        WHO | CALL | SAID | {"arguments_hmac"},
        kind="outcome", target="slow", code="upstream_failed", verdict="error",
    ),
    "a message that is none": row(
        {"endpoint", "server", "source_ip", "reasons"},
        kind="outcome", code="protocol_error", verdict="deny",
    ),
    "a prompt": row(WHO | CALL | RULED, kind="outcome", method="prompts/get", target="greeting"),
    "a resource": row(
        WHO | CALL | RULED, kind="outcome", method="resources/read", target="raw://page"
    ),
    "a person asked": row(
        (WHO | CALL) | {"pin_digest", "policy_digest", "effect", "approval_id", "reasons"},
        kind="approval", code="asked", verdict="ask",
    ),
    "a call that waits for a person": row(
        WHO | CALL | RULED | SAID | {"approval_id"},
        kind="outcome", target="page", code="approval_required", verdict="ask",
    ),
    "a person who says yes": row(
        {"principal", "approval_id", "reasons"}, kind="approval", code="allowed", verdict="allow"
    ),
    "a call by a person's yes": row(
        WHO | CALL | RULED | {"approval_id"}, kind="intent", target="page", verdict="allow"
    ),
    "a search": row(
        (WHO | CALL | {"arguments_hmac", "result_hmac"}) - {"server"},
        kind="list", target="search_tools",
    ),
    "a run ended": row(
        {"principal", "roles", "run", "reasons"}, kind="run", method="runs.end", verdict="allow"
    ),
    "a person added": row(
        {"principal", "roles", "reasons"}, kind="admin", method="users.add", verdict="allow"
    ),
    "a server registered": row(
        {"principal", "roles", "server", "reasons"}, kind="config", method="servers.add"
    ),
    "a server removed": row(
        {"principal", "roles", "server", "reasons"}, kind="config", method="servers.remove"
    ),
    "a key replaced": row(
        {"principal", "roles", "reasons"}, kind="admin", method="keys.rotate", code="rotated"
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, Any]]]:
    """All that a gateway has recorded by its end, after everything in the table has happened."""
    folder = tmp_path_factory.mktemp("recorded")
    policies = folder / "policies"
    rules_in(policies)
    (policies / "tests.rego").write_text(RULES)
    (policies / "more.rego").write_text(MORE)
    outside = {"integrity": "untrusted", "confidentiality": "internal"}
    tools = {
        **SERVERS["raw"]["tools"],
        "allowed": {"effect": "read", "result": outside},
        "page": {"effect": "egress", "destination": ["to"], "payload": ["text"], "result": OURS},
    }
    with raw_in_a_thread() as raw:
        servers = {"raw": {"url": raw.url, "defaults": OURS, "tools": tools}}
        with running_gateway(
            folder,
            servers,
            policies=policies,
            limits={"calls_per_minute": 100_000},
            pins={"recheck": "1h", "fresh": "1h"},
            egress={"allow": ["127.0.0.0/8"]},
        ) as running:
            running.approve_all("raw")
            raw.forget()
            gateway = Corridor(running)
            _call(gateway, raw)
            _sign_in(gateway)
            _administer(gateway)
            _change(gateway)
        yield _records(folder)


def _call(gateway: Corridor, raw: Raw) -> None:
    poster = Poster(gateway, "raw")
    traced = ("traceparent", f"00-{TRACE}-b7ad6b7169203331-01")
    poster.modern("tools/list", {})
    poster.modern("tools/call", {"name": "allowed", "arguments": {"text": "x"}}, traced)
    for tool, arguments in {"denied": {}, "hidden": {}, "page": SENT}.items():
        poster.call(tool, arguments)
    gateway.running.rows("pins", "revoke", "raw", "amounts", "--note", "not today")
    poster.call("amounts", {"amount": 1})
    poster.modern("prompts/get", {"name": "greeting"})
    poster.modern("resources/list", {})
    poster.modern("resources/read", {"uri": "raw://page"})
    raw.play(instead("tools/call", answers("never mind", status=500, media="text/plain")))
    poster.call("slow", {"text": "x"})
    raw.forget()
    poster.post(b"{", *mirrored("tools/list", {}))
    (waiting,) = gateway.running.rows("approvals", "list")
    gateway.running.rows("approvals", "allow", waiting["id"])
    poster.call("page", SENT)
    Poster(gateway, ALL).call("search_tools", {"query": "anything"})


def _sign_in(gateway: Corridor) -> None:
    poster, client = Poster(gateway, "raw"), gateway.running.client("raw")
    wrong = {**client, "client_secret": "not-the-secret"}
    _form(f"{gateway.url}/oauth/token", _proof(wrong) | {"grant_type": "client_credentials"})
    token = gateway.running.token("raw")
    _form(f"{gateway.url}/oauth/revoke", _proof(client) | {"token": token})
    poster.token = "no.such.token"
    poster.call("allowed")
    for _ in range(3):
        poster.post(body_of("ping"), ("Origin", "https://evil.example"))


def _proof(client: Mapping[str, Any]) -> dict[str, str]:
    return {"client_id": client["client_id"], "client_secret": client["client_secret"]}


def _form(url: str, form: Mapping[str, str]) -> None:
    try:
        urllib.request.urlopen(url, urlencode(form).encode(), timeout=60).close()
    except urllib.error.HTTPError as refused:
        refused.close()


def _administer(gateway: Corridor) -> None:
    running = gateway.running
    run = running.rows("runs", "list")[0]["run"]
    running.rows("runs", "end", run)
    running.rows("users", "add", "emma", "--group", "users")
    running.rows("servers", "add", "later", "--url", "http://127.0.0.1:9/mcp")
    running.rows("servers", "remove", "later")
    running.rows("keys", "rotate", "record-hash")
    Poster(gateway, "raw").call("allowed", {"text": "after"})


def _change(gateway: Corridor) -> None:
    def recorded(**members: str) -> int:
        return sum(members.items() <= one.items() for one in _records(gateway.folder))

    reloads = recorded(code="reloaded")
    edit(gateway, lambda content: content["servers"]["raw"].update(audit={"redaction": "full"}))
    gateway.running.process.send_signal(signal.SIGHUP)
    until(lambda: recorded(code="reloaded") > reloads)
    Poster(gateway, "raw").call("allowed", IN_CLEAR)
    edit(gateway, lambda content: content.update(nothing="like it"))
    gateway.running.process.send_signal(signal.SIGHUP)
    until(lambda: recorded(code="reload_refused"))
    edit(gateway, lambda content: content.pop("nothing"))
    (gateway.folder / "policies" / "more.rego").write_text("package douane\n\nx := \n")
    until(lambda: recorded(kind="policy", verdict="deny"))


def _records(folder: Path) -> list[dict[str, Any]]:
    with log_in(folder) as reader:
        return [json.loads(one.body) for one in reader.stored_after(-1, 10_000)]


@pytest.mark.parametrize("what", list(TABLE))
def test_everything_that_happens_is_on_record(records: list[dict[str, Any]], what: str) -> None:
    found_by, fields = TABLE[what]
    found = [one for one in records if found_by.items() <= one.items()]
    assert found, f"no record of {what}"
    lacking = [sorted(fields - one.keys()) for one in found]
    assert [] in lacking, (lacking, found[-1])


def test_no_kind_of_record_is_left_out_of_the_table(records: list[dict[str, Any]]) -> None:
    kinds = {found_by["kind"] for found_by, _ in TABLE.values()}
    assert {one["kind"] for one in records} <= kinds


def test_every_record_arrives_elsewhere_in_every_form(records: list[dict[str, Any]]) -> None:
    must_arrive(records)


def test_an_intent_and_its_outcome_are_joined_by_what_decided(
    records: list[dict[str, Any]],
) -> None:
    calls = [one for one in records if one.get("trace_id") == TRACE]
    intent, outcome = calls
    for name in ("decision_id", "policy_digest", "pin_digest", "run", "roles", "obligations"):
        assert intent[name] == outcome[name], name
    assert intent["obligations"] == [{"duty": "truncate", "bytes": 100000}]
    assert outcome["arguments_hmac"] == intent["arguments_hmac"]
    in_force = [one["policy_digest"] for one in records if one["kind"] == "policy"]
    assert intent["policy_digest"] in in_force
    pins = [one.get("pin_digest") for one in records if one["kind"] == "pin"]
    assert intent["pin_digest"] in pins
    issued = [one.get("token_id") for one in records if one.get("method") == "oauth/token"]
    assert intent["token_id"] in issued


def test_where_data_went_is_found_by_the_hash_of_the_address(
    records: list[dict[str, Any]],
) -> None:
    asked, intent, outcome = [one for one in records if "destinations" in one]
    (place,) = outcome["destinations"]
    assert asked["destinations"] == intent["destinations"] == [place]
    assert place["value_hmac"] == intent["arguments"]["to"][0]
    (answer,) = [one for one in records if one.get("method") == "approvals.allow"]
    assert asked["approval_id"] == answer["approval_id"] == outcome["approval_id"]
    assert place.keys() >= {"path", "proof", "integrity"}
    assert "value" not in place
    assert "bob@example.com" not in json.dumps(records)


def test_digests_tell_which_configuration_follows_which(records: list[dict[str, Any]]) -> None:
    by_code = {one["code"]: one for one in records if "config_digest" in one}
    started, digest = by_code["started"], by_code["started"]["config_digest"]
    for reloaded in (one for one in records if one.get("code") == "reloaded"):
        assert reloaded["evidence"]["before"] == digest != reloaded["config_digest"]
        digest = reloaded["config_digest"]
    assert by_code["reload_refused"]["config_digest"] == digest
    assert by_code["stopped"]["config_digest"] == digest != started["config_digest"]
    assert by_code["stopped"]["policy_digest"] == started["policy_digest"]
    first, *_, refused = [one for one in records if one["kind"] == "policy"]
    assert first["policy_digest"] == started["policy_digest"]
    assert refused["evidence"]["before"] == refused["policy_digest"] == first["policy_digest"]


def test_another_level_holds_from_the_configuration_on_that_brings_it(
    records: list[dict[str, Any]],
) -> None:
    clear = [one for one in records if one.get("arguments") == IN_CLEAR]
    assert [one["kind"] for one in clear] == ["intent", "outcome"]
    reloaded = [one for one in records if one.get("code") == "reloaded"][-1]
    assert records.index(clear[0]) > records.index(reloaded)


def test_refusals_that_cost_nobody_a_record_each_are_counted(
    records: list[dict[str, Any]],
) -> None:
    counted = [one["evidence"] for one in records if one.get("method") == "http"]
    assert sum(one["count"] for one in counted) == 3
    assert all(one["first"] <= one["last"] for one in counted)


def test_a_new_key_holds_from_the_record_on_that_tells_of_it(
    records: list[dict[str, Any]],
) -> None:
    hashed = [one for one in records if "arguments_hmac" in one]
    (rotation,) = [one for one in records if one.get("method") == "keys.rotate"]
    for one in hashed:
        later = records.index(one) > records.index(rotation)
        assert one["arguments_hmac"].startswith("h2:" if later else "h1:")


def test_records_have_the_contracts_fields_only(records: list[dict[str, Any]]) -> None:
    assert set().union(*(one.keys() for one in records)) <= set(FIELDS)
    assert len({one["id"] for one in records}) == len(records)
