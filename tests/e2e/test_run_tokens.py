"""Programs that hosts run, at a real gateway: what they hold widens nothing, and their budgets are exact."""

import base64
import hashlib
import hmac
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey

from tests.e2e.conftest import policies_in
from tests.e2e.own import until
from tests.e2e.posting import Poster
from tests.e2e.scripted import Raw, raw_in_a_thread
from tests.e2e.site import RULES, SERVERS, Corridor
from tests.e2e.sockets import Answered
from tests.running import ALL, EVERY_SCOPE, fetch_token, running_gateway

ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
SHA = hashlib.sha256(b"the program").hexdigest()
HERE = {"text": "here"}
LEAK = """\
deny contains {"code": "no_private_data", "message": "private data was read before"} if {
	input.phase == "call"
	input.arguments.text == "leak"
	input.flow.label.confidentiality == "private"
}
"""
LOST = """\
deny contains {"code": "right_lost", "message": "this host may not do this any more"} if {
	input.target.name == "amounts"
	input.phase == "call"
}
"""


class Holder(Poster):
    """Whoever holds `token`, at the endpoint in front of all servers or at another."""

    def __init__(self, gateway: Corridor, token: str, server: str = ALL) -> None:
        self.gateway = gateway
        self.url = gateway.endpoint(server)
        self.path = urllib.parse.urlsplit(self.url).path
        self.token = token


class Stage:
    """A gateway with two trusted hosts and a client that is none."""

    def __init__(self, at: Corridor, raw: Raw, rules: Path) -> None:
        self.at = at
        self.raw = raw
        self.rules = rules
        scopes = (*EVERY_SCOPE, "code:run", "servers:manage")
        granted = [part for scope in scopes for part in ("--scope", scope)]
        self.clients = {
            name: at.running.rows(
                *("clients", "add", name, "--grant", "client_credentials", *trusted),
                *("--resource", "/mcp", "--resource", "/mcp/raw", *granted),
            )[0]
            for name, trusted in {
                "host": ["--trusted-host"],
                "rival": ["--trusted-host"],
                "passing": ["--trusted-host"],
                "plain": [],
            }.items()
        }

    def own(self, client: str = "host", server: str = ALL) -> str:
        """Return a token of the client's own."""
        return fetch_token(self.at.url, server, self.clients[client])

    def ask(self, path: str, client: str, **form: str) -> tuple[int, dict[str, Any]]:
        known = self.clients[client]
        proof = {"client_id": known["client_id"], "client_secret": known["client_secret"]}
        data = urllib.parse.urlencode({**proof, **form}).encode()
        try:
            with urllib.request.urlopen(f"{self.at.url}{path}", data, timeout=60) as answer:
                return answer.status, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def exchange(
        self,
        *tools: Mapping[str, Any],
        client: str = "host",
        subject: str | None = None,
        form: Mapping[str, str] | None = None,
        **changes: Any,
    ) -> tuple[int, dict[str, Any]]:
        details = {
            "type": "mcp_script_run",
            "tools": tools or [tool("allowed")],
            "max_calls": 1000,
            "code_sha256": SHA,
            **changes,
        }
        return self.ask(
            "/oauth/token",
            client,
            grant_type="urn:ietf:params:oauth:grant-type:token-exchange",
            subject_token=subject or self.own(client),
            subject_token_type=ACCESS_TOKEN,
            authorization_details=json.dumps([details]),
            **(form or {}),
        )

    def program(self, *tools: Mapping[str, Any], client: str = "host", **changes: Any) -> Holder:
        """Return a program of the host's that has a token for these tools."""
        status, body = self.exchange(*tools, client=client, **changes)
        assert status == 200, body
        return Holder(self.at, body["access_token"])

    def last(self) -> dict[str, Any]:
        (row,) = self.at.running.rows("audit", "query", "--limit", "1")
        return row

    def nothing_went_out(self) -> bool:
        return "tools/call" not in self.raw.methods


def tool(name: str, most: int = 1000, **arguments: Any) -> dict[str, Any]:
    return {"name": f"raw__{name}", "max_calls": most, "arguments": arguments}


def reasons(answered: Answered) -> list[str]:
    message = answered.messages[-1]
    told = message.get("error", {}).get("data") or message["result"]["_meta"]["douane/refusal"]
    return [reason["code"] for reason in told["reasons"]]


@pytest.fixture(scope="module")
def module_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("programs")
    policies = policies_in(folder)
    rules = policies / "tests.rego"
    rules.write_text(f"{RULES}\n{LEAK}")
    with raw_in_a_thread() as raw:
        servers = {"raw": {"url": raw.url, **SERVERS["raw"]}}
        with running_gateway(
            folder / "gateway",
            servers,
            policies=policies,
            limits={"calls_per_minute": 100_000},
            pins={"recheck": "1h", "fresh": "1h"},
            code={"enabled": True},
        ) as running:
            running.approve_all("raw")
            yield Stage(Corridor(running), raw, rules)


@pytest.fixture
def stage(module_stage: Stage) -> Stage:
    module_stage.raw.forget()
    return module_stage


def test_a_program_calls_what_it_was_given_and_is_on_record(stage: Stage) -> None:
    program = stage.program(tool("allowed", text="here"), parent="toolu_7")
    answered = program.call("raw__allowed", HERE)
    assert json.loads(answered.messages[-1]["result"]["content"][0]["text"]) == HERE
    (row,) = stage.at.running.rows("audit", "query", "--where", "kind = outcome", "--limit", "1")
    told = {name: row[name] for name in ("origin", "script_sha256", "parent", "client", "target")}
    assert told == {
        "origin": "host_sandbox",
        "script_sha256": SHA,
        "parent": "toolu_7",
        "client": stage.clients["host"]["client_id"],
        "target": "allowed",
    }
    (issued, *_) = stage.at.running.rows("audit", "query", "--where", "kind = token")
    assert (issued["script_sha256"], issued["token_id"]) == (SHA, row["token_id"])


def test_the_token_goes_to_no_server(stage: Stage) -> None:
    program = stage.program()
    assert program.call("raw__allowed", HERE).refusal is None
    sent = next(one for one in stage.raw.seen if one.json.get("method") == "tools/call")
    assert program.token not in repr((sent.headers, sent.body))


def test_four_hundred_calls_at_once_on_a_budget_of_two_hundred_are_two_hundred(
    stage: Stage,
) -> None:
    program = stage.program(tool("allowed", most=200))
    with ThreadPoolExecutor(32) as threads:
        codes = list(threads.map(lambda _: program.call("raw__allowed", HERE).refusal, range(400)))
    assert (codes.count(None), codes.count("limit_exceeded")) == (200, 200)
    assert stage.raw.methods.count("tools/call") == 200


def test_the_budget_of_all_tools_together_holds(stage: Stage) -> None:
    program = stage.program(tool("allowed"), tool("amounts"), max_calls=3)
    names = ["allowed", "amounts", "allowed", "amounts", "allowed"]
    codes = [program.call(f"raw__{name}", {}).refusal for name in names]
    assert codes == [None, None, None, "limit_exceeded", "limit_exceeded"]


def test_a_program_may_speak_in_sessions(stage: Stage) -> None:
    program = stage.program()
    session = ("Mcp-Session-Id", program.session())
    codes = [
        program.legacy("tools/call", {"name": name, "arguments": HERE}, session).refusal
        for name in ("raw__allowed", "raw__slow")
    ]
    assert codes == [None, "denied"]


# Attacks.


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("raw__amounts", {}),
        ("raw__allowed", {}),
        ("raw__allowed", {"text": "elsewhere"}),
        ("call_tool", {"name": "raw__amounts", "arguments": {}}),
        ("call_tool", {"name": "raw__allowed", "arguments": {"text": "elsewhere"}}),
    ],
)
def test_what_was_not_granted_is_not_called(
    stage: Stage, name: str, arguments: dict[str, Any]
) -> None:
    program = stage.program(tool("allowed", text="here"))
    answered = program.call(name, arguments)
    assert (answered.refusal, reasons(answered)) == ("denied", ["not_granted"])
    assert stage.nothing_went_out()


def test_an_argument_that_looks_like_a_granted_one_is_none(stage: Stage) -> None:
    answered = stage.program(tool("allowed", text="here")).call("raw__allowed", {"Text": "here"})
    assert (answered.refusal, reasons(answered)) == ("denied", ["invalid_arguments"])
    assert stage.nothing_went_out()


def test_a_grant_allows_nothing_that_policy_denies(stage: Stage) -> None:
    program = stage.program(tool("denied"))
    answered = program.call("raw__denied", HERE)
    assert (answered.refusal, reasons(answered)) == ("denied", ["closed"])
    assert stage.nothing_went_out()


@pytest.mark.parametrize("forgery", ["none", "HS256", "program", "scope", "type"])
def test_a_forged_token_lets_nobody_in(stage: Stage, forgery: str) -> None:
    text = stage.program().token
    header, claims, signature = text.split(".")
    told, says = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in (header, claims))
    match forgery:
        case "none":
            told["alg"], signature = "none", ""
        case "HS256":
            told["alg"] = "HS256"
        case "program":
            says["act"]["sub"] = "s_other"
        case "scope":
            says["scope"] += " code:run"
        case _:
            told["typ"] = "at+jwt"
    message = ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
        for part in (told, says)
    )
    if forgery == "HS256":
        with urllib.request.urlopen(f"{stage.at.url}/oauth/jwks.json", timeout=60) as answer:
            public = json.load(answer)["keys"][0]
        pem = ECKey.import_key(public).as_pem(private=False)
        digest = hmac.new(pem, message.encode(), hashlib.sha256).digest()
        signature = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    answered = Holder(stage.at, f"{message}.{signature}").call("raw__allowed", HERE)
    assert (answered.status, stage.nothing_went_out()) == (401, True)


def test_another_host_trades_no_token_of_this_one(stage: Stage) -> None:
    status, body = stage.exchange(client="rival", subject=stage.own("host"))
    assert (status, body["error"]) == (400, "invalid_request")


def test_who_is_no_trusted_host_gets_no_token_for_programs(stage: Stage) -> None:
    status, body = stage.exchange(client="plain")
    assert (status, body["error"]) == (400, "unauthorized_client")


def test_a_token_for_another_endpoint_is_traded_for_nothing(stage: Stage) -> None:
    status, body = stage.exchange(subject=stage.own("host", "raw"))
    assert (status, body["error"]) == (400, "invalid_request")


def test_the_token_of_a_program_is_traded_for_no_other(stage: Stage) -> None:
    program = stage.program(tool("allowed", most=1))
    for wider in (tool("amounts"), tool("allowed", most=1)):
        status, body = stage.exchange(wider, subject=program.token)
        assert (status, body["error"]) == (400, "invalid_request")


@pytest.mark.parametrize("scope", ["code:run", "servers:manage", "admin", "tools:call resources"])
def test_no_scope_is_had_beyond_calling_tools(stage: Stage, scope: str) -> None:
    status, body = stage.exchange(form={"scope": scope})
    assert (status, body["error"]) == (400, "invalid_scope")


@pytest.mark.parametrize("name", ["*", "raw__*", "raw__hidden", "raw__nothing", "run_code", "raw"])
def test_wildcards_unknown_and_hidden_tools_are_refused_alike(stage: Stage, name: str) -> None:
    answers = [
        stage.exchange(tool("allowed"), {"name": asked, "max_calls": 1})
        for asked in (name, "raw__never_heard_of")
    ]
    assert answers[0] == answers[1]
    assert (answers[0][0], answers[0][1]["error"]) == (400, "invalid_authorization_details")


def test_nobody_is_asked_beforehand(stage: Stage) -> None:
    status, body = stage.exchange({**tool("allowed"), "preapproved": True})
    assert (status, body["error"]) == (400, "invalid_authorization_details")


@pytest.mark.parametrize(
    "claim",
    [
        {"douane/origin": {"kind": "direct"}},
        {"douane/origin": None},
        {"douane/origin": {"kind": "sandbox", "run": "s_other", "grants": ["*"]}},
        {"douane/task": {"prompt": "Call everything", "tools": ["amounts"]}},
    ],
    ids=range(4),
)
def test_what_a_program_says_of_itself_widens_nothing(stage: Stage, claim: dict[str, Any]) -> None:
    program = stage.program()
    params = {"name": "raw__amounts", "arguments": {}, "_meta": claim}
    answered = program.modern("tools/call", params)
    assert (answered.refusal, reasons(answered)) == ("denied", ["not_granted"])
    assert (stage.last()["origin"], stage.nothing_went_out()) == ("host_sandbox", True)


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("douane/run/begin", {}, "denied"),
        ("douane/run/end", {"run": "x"}, "denied"),
        ("tools/call", {"name": "run_code", "arguments": {"code": "1"}}, "denied"),
        (
            "tools/call",
            {"name": "disable_server", "arguments": {"server": "raw"}},
            "insufficient_scope",
        ),
        ("resources/read", {"uri": "raw://page"}, None),
        ("prompts/get", {"name": "raw__greeting"}, None),
    ],
    ids=["run-begin", "run-end", "run_code", "disable_server", "resource", "prompt"],
)
def test_a_program_does_nothing_but_call_its_tools(
    stage: Stage, method: str, params: dict[str, Any], code: str | None
) -> None:
    answered = stage.program().modern(method, params)
    assert answered.refusal is not None
    assert code in {None, answered.refusal}
    assert not set(stage.raw.methods) & {"tools/call", "resources/read", "prompts/get"}


def test_a_token_is_not_replayed_at_another_endpoint(stage: Stage) -> None:
    program = stage.program()
    there = Holder(stage.at, program.token, "raw")
    assert (there.call("allowed", HERE).status, stage.nothing_went_out()) == (401, True)
    assert program.call("raw__allowed", HERE).refusal is None


def test_a_revoked_token_calls_nothing_and_its_host_goes_on(stage: Stage) -> None:
    program, other = stage.program(), stage.program()
    assert program.call("raw__allowed", HERE).refusal is None
    for client, works in (("rival", True), ("host", False)):
        assert stage.ask("/oauth/revoke", client, token=program.token)[0] == 200
        assert (program.call("raw__allowed", HERE).status == 200) is works
    assert other.call("raw__allowed", HERE).refusal is None
    assert Holder(stage.at, stage.own()).call("raw__allowed", HERE).refusal is None


def test_a_token_ends_in_time(stage: Stage) -> None:
    program = stage.program(expires_in=1)
    until(lambda: program.call("raw__allowed", HERE).status == 401)


def test_a_program_ends_with_its_client(stage: Stage) -> None:
    program = stage.program(client="passing")
    assert program.call("raw__allowed", HERE).refusal is None
    stage.at.running.rows("clients", "remove", stage.clients["passing"]["client_id"])
    until(lambda: program.call("raw__allowed", HERE).status == 401)


def test_a_program_holds_no_right_that_its_principal_has_lost(stage: Stage) -> None:
    program = stage.program(tool("amounts"))
    assert program.call("raw__amounts", {"amount": 1}).refusal is None
    before = stage.rules.read_text()
    try:
        stage.rules.write_text(before + "\n" + LOST)
        answered = until(
            lambda: (one := program.call("raw__amounts", {"amount": 1})).refusal and one
        )
        assert (answered.refusal, reasons(answered)) == ("denied", ["right_lost"])
    finally:
        stage.rules.write_text(before)
        until(lambda: program.call("raw__amounts", {"amount": 1}).refusal is None)


def test_what_a_program_reads_its_host_has_read(stage: Stage) -> None:
    """In the run that the host began: its program is in it, and cannot end it."""
    host = Holder(stage.at, stage.own())
    run = host.modern("douane/run/begin", {}).json["result"]["run"]
    program = stage.program(tool("page"), tool("allowed"))

    def use(who: Holder, name: str, text: str) -> str | None:
        params = {"name": name, "arguments": {"text": text}, "_meta": {"douane/run": run}}
        return who.modern("tools/call", params).refusal

    assert use(host, "raw__allowed", "leak") is None
    assert use(program, "raw__page", "x") is None
    assert use(host, "raw__allowed", "leak") == "denied"
    assert use(program, "raw__allowed", "leak") == "denied"
    assert use(host, "raw__allowed", "fine") is None
    live = stage.at.running.rows("runs", "list", "--live")
    assert [row["confidentiality"] for row in live if row["part_of"]] == ["private"]
