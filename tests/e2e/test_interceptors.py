"""A host has its messages looked at by our interceptors (SEP-2624, a draft), in a gateway with real rules.

The scenarios are those of the working group's conformance suite that are about a security validator
(modelcontextprotocol/experimental-ext-interceptors, conformance 0.1.0 at 4d5bad748d5e), told in our
words. Two have another outcome with the shipped rules, which is documented: see docs/planes.md.
"""

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from tests.backends import PLANES, only
from tests.e2e.own import until
from tests.e2e.planes import key_of, registered
from tests.e2e.scripted import FRESH, answer, raw_in_a_thread, told
from tests.running import EVERY_SCOPE, Running, rules_in, running_gateway

pytestmark = only(PLANES)
AWS = "AKIA" + "QYLPMN5HHHFPZAM2"
STRIPE = "sk_" + "live_" + "51H8xKq2eZvKYlo2CBbXWmQpR"
GITHUB = "ghp_" + "Q7bW2nLx9TzKfJ4sVgRmYp0HdC6aEuXo1iBt"
SECRETS = {"aws": AWS, "stripe": STRIPE, "github": GITHUB}
READS = {"effect": "read", "result": {"integrity": "untrusted", "confidentiality": "private"}}
OURS = {"integrity": "trusted", "confidentiality": "internal"}
TOOLS = {
    "filesystem": {
        "read_file": READS,
        "write_file": {
            "effect": "write",
            "destination": ["path"],
            "payload": ["content"],
            "result": OURS,
        },
        "unlock": {"effect": "write", "payload": ["key"], "result": OURS},
    },
    "sqlite": {"write_query": {"effect": "egress", "payload": ["query"], "result": OURS}},
}


def served(server: str) -> Any:
    async def serve(request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=405)
        message = json.loads(await request.read())
        match message.get("method"):
            case "server/discover":
                versions = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
                return answer(message, {**versions, **FRESH})
            case "tools/list":
                tools = [
                    {"name": name, "description": "Of a suite.", "inputSchema": {"type": "object"}}
                    for name in TOOLS[server]
                ]
                return answer(message, {"tools": tools, **FRESH})
            case _:
                pass
        error = {"code": -32601, "message": "Method not found"}
        content = {"jsonrpc": "2.0", "id": message.get("id"), "error": error}
        return web.json_response(content, status=404)

    return serve


@dataclass(frozen=True, kw_only=True)
class Host:
    """Invokes interceptors, as a host's chain does, for one person."""

    url: str
    name: str
    person: str
    sent: list[Mapping[str, Any]] = field(default_factory=list)

    def post(self, content: object, **headers: str) -> tuple[int, Any]:
        fields = {
            "authorization": f"Bearer {key_of(self.name)}",
            "content-type": "application/json",
            **headers,
        }
        request = urllib.request.Request(
            f"{self.url}/interceptors", json.dumps(content).encode(), fields, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as told:
                return told.status, json.loads(told.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def ask(self, method: str, **params: Any) -> Any:
        content = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        status, body = self.post(content)
        assert status == 200, body
        return body

    def invoke(
        self,
        phase: str,
        payload: Any,
        *,
        session: str = "s",
        name: str = "douane/decide",
        **more: Any,
    ) -> Any:
        principal = {"type": "user", "id": self.person, "claims": {"roles": ["users"]}}
        context = {"principal": principal, "sessionId": session, "timestamp": "now"}
        return self.ask(
            "interceptor/invoke",
            **{
                "name": name,
                "event": "tools/call",
                "phase": phase,
                "payload": payload,
                "context": context,
                **more,
            },
        )

    def request(self, server: str, tool: str, *, session: str = "s", **arguments: str) -> bool:
        payload = {"name": tool, "arguments": arguments}
        found = self.invoke("request", payload, session=session, config={"server": server})[
            "result"
        ]
        assert (found["interceptor"], found["type"]) == ("douane/decide", "validation")
        valid: bool = found["valid"]
        assert valid or found["severity"] == "error"
        return valid

    def response(self, text: str, *, session: str = "s") -> bool:
        valid: bool = self.invoke("response", told(text), session=session)["result"]["valid"]
        return valid

    def read_file(self, text: str, *, session: str = "s") -> None:
        assert self.request("filesystem", "read_file", session=session, path="/workspace/.env")
        assert self.response(text, session=session)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Where credentials may go anywhere: what is known of a value is only where the run has read."""
    folder = tmp_path_factory.mktemp("interceptors")
    data = rules_in(folder / "policies") / "data.yaml"
    shipped = "credential: {to: [home, task], otherwise: deny}"
    assert shipped in data.read_text()
    data.write_text(
        data.read_text().replace(shipped, "credential: {to: [anywhere], otherwise: deny}")
    )
    with raw_in_a_thread() as files, raw_in_a_thread() as database:
        files.play(served("filesystem"))
        database.play(served("sqlite"))
        urls = {"filesystem": files.url, "sqlite": database.url}
        with running_gateway(
            folder,
            {name: {"url": url, "tools": TOOLS[name]} for name, url in urls.items()},
            policies=folder / "policies",
            pins={"recheck": "1h", "fresh": "1h"},
        ) as running:
            for server in urls:
                running.approve_all(server)
            _register(running)
            yield running


def _register(running: Running) -> None:
    """Register hosts: their client is known here before they are."""
    (client,) = running.rows(
        *("clients", "add", "harness", "--grant", "client_credentials", "--trusted-host"),
        *("--resource", "/mcp", "--scope", "tools:call", "--scope", "tools:write"),
    )
    each = {
        "servers": {"filesystem": "filesystem", "sqlite": "sqlite"},
        "client": client["client_id"],
        "asserts": True,
        "issuers": ["https://idp.example"],
        "subjects": "vouched",
        "groups": "roles",
        "scopes": list(EVERY_SCOPE),
        "duties": ["replace_result"],
        "report_within": "1h",
    }
    itself = {"servers": {"files": "filesystem"}, "client": client["client_id"]}
    hosts = registered(
        running.folder,
        default=each,
        trusted={**each, "runs": "host"},
        unknown={**each, "runs": "host", "client": "assistant"},
        careless={**each, "duties": []},
        itself={**itself, "report_within": "1h"},
    )
    content = json.loads(running.config.read_text())
    content["planes"] = {"experimental_interceptors": hosts}
    running.config.write_text(json.dumps(content))
    running.process.send_signal(signal.SIGHUP)
    asked = Host(url=running.url, name="default", person="nobody")
    until(lambda: asked.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})[0] == 200)


@pytest.fixture
def host(suite: Running, request: pytest.FixtureRequest) -> Host:
    return Host(url=suite.url, name="default", person=request.node.name)


@pytest.fixture
def trusted(suite: Running, request: pytest.FixtureRequest) -> Host:
    return Host(url=suite.url, name="trusted", person=request.node.name)


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize("profile", ["default", "trusted"])
def test_a_secret_that_was_read_in_one_server_goes_to_no_other(
    suite: Running, request: pytest.FixtureRequest, profile: str, secret: str
) -> None:
    host = Host(url=suite.url, name=profile, person=request.node.name)
    host.read_file(f"KEY={secret}")
    assert not host.request("sqlite", "write_query", query=f"INSERT INTO notes VALUES ('{secret}')")


def test_a_secret_goes_back_to_where_it_was_read(trusted: Host) -> None:
    trusted.read_file(f"KEY={STRIPE}")
    assert trusted.request("filesystem", "unlock", key=STRIPE)
    assert not trusted.request("filesystem", "write_file", path="/shared/env", content=STRIPE)


def test_what_nobody_has_read_before_may_be_sent(host: Host) -> None:
    assert host.request("sqlite", "write_query", query=f"INSERT INTO notes VALUES ('{GITHUB}')")


def test_a_session_of_a_trusted_host_is_a_run_of_its_own(trusted: Host) -> None:
    trusted.read_file(AWS, session="session-a")
    assert trusted.request("sqlite", "write_query", session="session-b", query=AWS)
    assert not trusted.request("sqlite", "write_query", session="session-a", query=AWS)


def test_a_session_of_any_other_host_sheds_nothing(host: Host) -> None:
    host.read_file(AWS, session="session-a")
    assert not host.request("sqlite", "write_query", session="session-b", query=AWS)


def test_a_session_of_a_host_that_is_not_trusted_here_is_no_run(
    suite: Running, request: pytest.FixtureRequest
) -> None:
    unknown = Host(url=suite.url, name="unknown", person=request.node.name)
    assert unknown.request("sqlite", "write_query", session="session-0", query="SELECT 1")
    assert unknown.response("done", session="session-0")
    unknown.read_file(AWS, session="session-a")
    assert not unknown.request("sqlite", "write_query", session="session-b", query=AWS)


def test_the_interceptors_are_listed_with_what_they_look_at(host: Host) -> None:
    both = [{"events": [*EVENTS], "phase": "request"}, {"events": [*EVENTS], "phase": "response"}]
    found = host.ask("interceptors/list")["result"]["interceptors"]
    for one in found:
        del one["description"]
    assert found == [
        {"name": "douane/decide", "type": "validation", "hooks": both},
        {"name": "douane/redact", "type": "mutation", "hooks": both[1:]},
    ]
    assert host.ask("interceptors/list", event="llm/completion")["result"]["interceptors"] == []
    greeted = host.ask("initialize", protocolVersion="2025-11-25")["result"]
    told = greeted["capabilities"]["extensions"]["io.modelcontextprotocol/interceptors"]
    assert told == {"supportedEvents": [*EVENTS]}


EVENTS = ("tools/call", "prompts/get", "resources/read")


@pytest.mark.parametrize(
    "change",
    [
        {"name": "conf/does-not-exist"},
        {"event": "llm/completion"},
        {"event": "tools/list"},
        {"name": "douane/redact"},
        {"phase": "both"},
        {"payload": "read_file"},
        {"payload": {"name": "read_file", "arguments": []}},
        {"payload": {"method": "prompts/get", "params": {"name": "read_file"}}},
        {"context": []},
        {"config": {"server": 7}},
    ],
)
def test_what_cannot_be_looked_at_is_an_error(host: Host, change: dict[str, Any]) -> None:
    payload = {"name": "read_file", "arguments": {}}
    more = {"config": {"server": "filesystem"}, **change}
    body = host.ask(
        "interceptor/invoke",
        **{
            "name": "douane/decide",
            "event": "tools/call",
            "phase": "request",
            "payload": payload,
            **more,
        },
    )
    assert body["error"]["code"] == -32602


def test_a_result_is_judged_for_both_and_given_out_without_what_may_not_be_shown(
    suite: Running, host: Host
) -> None:
    secret = told(f"KEY={AWS}")
    assert host.request("filesystem", "read_file", path="/a")
    assert host.invoke("response", secret)["result"]["valid"] is True
    given = host.invoke("response", secret, name="douane/redact")["result"]
    assert given["modified"] is True
    assert AWS not in json.dumps(given["payload"])
    assert host.invoke("response", given["payload"])["result"]["valid"] is False  # said once
    careless = Host(url=suite.url, name="careless", person=host.person)
    assert careless.request("filesystem", "read_file", path="/a")
    assert careless.invoke("response", secret)["result"]["valid"] is False


def test_a_result_has_the_integers_that_its_server_wrote(host: Host) -> None:
    assert host.request("filesystem", "read_file", path="/a")
    came = {**told("fine"), "structuredContent": {"id": 2**53 + 1}}
    assert host.invoke("response", came)["result"]["valid"] is True
    given = host.invoke("response", came, name="douane/redact")["result"]
    assert (given["modified"], given["payload"]) == (False, came)
    asked = {"jsonrpc": "2.0", "id": 1, "method": "interceptor/invoke", "params": {"a": 2**53 + 1}}
    assert host.post(asked)[0] == 400


def test_whichever_is_asked_first_judges(host: Host) -> None:
    assert host.request("filesystem", "read_file", path="/a")
    given = host.invoke("response", told(f"KEY={AWS}"), name="douane/redact")["result"]
    assert host.invoke("response", given["payload"])["result"]["valid"] is True
    assert host.request("filesystem", "read_file", path="/a")
    plain = host.invoke("response", told("fine"), name="douane/redact")["result"]
    assert (plain["modified"], plain["payload"]) == (False, told("fine"))


def test_a_result_of_no_one_call_is_not_given_out(host: Host) -> None:
    assert not host.response("out of nowhere")
    failed = host.invoke("response", told("out of nowhere"), name="douane/redact")
    assert failed["error"]["code"] == -32603
    assert host.request("filesystem", "read_file", path="/a")
    assert host.request("filesystem", "read_file", path="/b")
    assert not host.response("of one of them")
    person = {"type": "user", "id": host.person, "claims": {"roles": ["users"]}}
    context = {"principal": person, "sessionId": "spans", "traceId": "t"}
    for span in ("1", "2"):
        context = {**context, "spanId": span}
        payload = {"name": "read_file", "arguments": {"path": span}}
        asked = host.invoke("request", payload, context=context, config={"server": "filesystem"})
        assert asked["result"]["valid"] is True
    found = host.invoke("response", told("one"), context=context)
    assert found["result"]["valid"] is True


def test_a_result_of_another_kind_or_server_is_not_that_of_a_call(host: Host) -> None:
    assert host.request("filesystem", "read_file", session="kinds", path="/a")
    context = {
        "principal": {"type": "user", "id": host.person, "claims": {"roles": ["users"]}},
        "sessionId": "kinds",
    }
    for other in ({"event": "prompts/get"}, {"config": {"server": "sqlite"}}):
        found = host.invoke("response", told("another's"), context=context, **other)
        assert found["result"]["valid"] is False
    found = host.invoke("response", told("its own"), context=context)
    assert found["result"]["valid"] is True


def test_who_calls_is_the_hosts_word_only_if_it_may_say_so(suite: Running, host: Host) -> None:
    itself = Host(url=suite.url, name="itself", person="alice")
    assert itself.request("files", "read_file", path="/a")
    (intent,) = suite.rows("audit", "query", "--where", "plane = 'itself' AND kind = 'intent'")
    assert "alice" not in intent["principal"]
    assert intent["origin"] == "plane"
    nobody = host.invoke(
        "request",
        {"name": "read_file", "arguments": {}},
        context={"principal": {"type": "service", "id": "x"}},
        config={"server": "filesystem"},
    )["result"]
    assert nobody["messages"][-1]["message"].startswith("unknown_subject")


def test_a_server_that_is_not_told_is_not_guessed(host: Host) -> None:
    payload = {"name": "read_file", "arguments": {}}
    found = host.invoke("request", payload)["result"]
    assert found["messages"][-1]["message"].startswith("unknown_server")
    whole = {"method": "tools/call", "params": payload}
    found = host.invoke("request", whole, config={"server": "filesystem"})["result"]
    assert found["valid"] is True


def test_a_stranger_has_nothing_looked_at(suite: Running, host: Host) -> None:
    status, _ = host.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, authorization="Bearer x")
    assert status == 401
    assert host.post({"jsonrpc": "2.0", "method": "notifications/initialized"})[0] == 202
    assert host.post([])[0] == 400
    content = {"jsonrpc": "2.0", "id": 1, "method": "interceptor/executeChain"}
    assert host.post(content)[1]["error"]["code"] == -32601
    assert host.post(content, **{"content-type": "text/plain"})[0] == 400
    request = urllib.request.Request(
        f"{suite.url}/access/v1/evaluation",
        b"{}",
        {"authorization": f"Bearer {key_of('default')}", "content-type": "application/json"},
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    with refused.value:
        assert refused.value.code == 404  # no plane is registered
