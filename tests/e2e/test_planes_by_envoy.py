"""A real Envoy carries calls and asks by `ext_proc`; whatever breaks, nothing passes unjudged."""

import json
import platform
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from mcp_types import TextContent

from tests.e2e.conftest import policies_in
from tests.e2e.own import edit, until
from tests.e2e.planes import key_of, registered
from tests.e2e.posting import Poster, body_of, mirrored, modern_params
from tests.e2e.scripted import Raw, answer, instead, opened, told
from tests.e2e.site import SERVERS, Corridor
from tests.e2e.sockets import exchange, head
from tests.e2e.test_hosts_that_declare import sdk
from tests.e2e.test_planes_that_ask import SECRET
from tests.running import EVERY_SCOPE, Running, running_gateway
from tests.servers.process import RunningServer, envoy, free_port
from tests.servers.raw import Script

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="Envoy is there for this processor only"
)
KINDS = ("ext_proc", "ext_authz")


@dataclass(frozen=True, kw_only=True)
class Site:
    """A gateway that two Envoys ask, each in its way."""

    gateway: Corridor
    by: Mapping[str, str]
    """A kind -> the URL of the Envoy that asks so."""
    printed: Mapping[str, str]
    """A kind -> what was printed for that Envoy."""

    @contextmanager
    def another(self, kind: str, folder: Path, change: Callable[[str], str]) -> Iterator[str]:
        """Run one more Envoy, whose configuration is changed; yield its URL."""
        port = free_port()
        listened = f"port_value: {self.by[kind].rpartition(':')[2]}"
        path = folder / f"{kind}.yaml"
        path.write_text(change(self.printed[kind].replace(listened, f"port_value: {port}")))
        with envoy(folder, path, port=port) as running:
            yield running.origin

    def poster(self, server: str = "raw", *, kind: str = "ext_proc", name: str = "") -> Poster:
        return Poster(self.gateway, server, name=name or kind, by=self.by[kind])


def printed(running: Running, kind: str, port: int) -> str:
    """Return what `douane plane config envoy` prints."""
    said = running.douane(
        *("plane", "config", "envoy", kind.replace("_", "-")),
        *("--listen", f"127.0.0.1:{port}", "--with-key"),
    )
    assert said.returncode == 0, said.stderr
    return said.stdout


@contextmanager
def site_in(folder: Path, urls: Mapping[str, str]) -> Iterator[Site]:
    plane = {"servers": {name: name for name in urls}, "scopes": list(EVERY_SCOPE)}
    planes: dict[str, Any] = {
        kind: registered(folder, **{kind.replace("_", "-"): {**plane, "deadline": "60s"}})
        for kind in KINDS
    }
    with ExitStack() as stack:
        running = stack.enter_context(
            running_gateway(
                folder,
                {name: {"url": url, **SERVERS[name]} for name, url in urls.items()},
                policies=policies_in(folder),
                pins={"recheck": "1h", "fresh": "1h"},
                limits={"calls_per_minute": 100_000},
                planes={**planes, "grpc": {"listen": f"127.0.0.1:{free_port()}"}},
            )
        )
        for name in urls:
            running.approve_all(name)
        by, texts = {}, {}
        for kind in KINDS:
            port, path = free_port(), folder / f"{kind}.yaml"
            texts[kind] = printed(running, kind, port)
            path.write_text(texts[kind])
            by[kind] = stack.enter_context(envoy(folder, path, port=port)).origin
        yield Site(gateway=Corridor(running), by=by, printed=texts)


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, session_raw: Raw, notes: RunningServer
) -> Iterator[Site]:
    urls = {"raw": session_raw.url, "notes": notes.url}
    with site_in(tmp_path_factory.mktemp("envoy"), urls) as found:
        yield found


EVERY = pytest.mark.parametrize("kind", KINDS)


async def test_a_real_client_reaches_a_real_server(site: Site) -> None:
    headers = {"Authorization": f"Bearer {site.gateway.token('notes', name='ext_proc')}"}
    url = f"{site.by['ext_proc']}/mcp/notes"
    for mode in ("auto", "legacy"):
        async with sdk(url, headers, mode) as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
            assert "read_note" in listed
            assert "always_fails" not in listed
            read = await client.call_tool("read_note", {"name": "welcome"})
            (block,) = read.content
            assert isinstance(block, TextContent)
            assert block.text == "This is your first note."
            refused = await client.call_tool("delete_note", {"name": "welcome"})
            assert refused.is_error
            assert refused.meta is not None
            assert refused.meta["douane/refusal"]["reasons"][0]["code"] == "closed"


@EVERY
def test_a_refused_call_is_answered_here_and_on_record(
    site: Site, session_raw: Raw, kind: str
) -> None:
    session_raw.forget()
    poster = site.poster(kind=kind)
    for answered in (poster.call("denied"), poster.legacy("tools/call", {"name": "denied"})):
        assert (answered.status, answered.refusal) == (200, "denied")
        decision = answered.json["result"]["_meta"]["douane/refusal"]["decision_id"]
        found = site.gateway.running.rows(
            "audit", "query", "--where", f"decision_id = '{decision}'"
        )
        (outcome,) = found
        assert (outcome["origin"], outcome["plane"]) == ("plane", kind.replace("_", "-"))
    assert poster.call("hidden").refusal == "unknown_tool"
    assert session_raw.seen == []


def test_a_list_shows_what_was_approved_and_may_be_known(site: Site, session_raw: Raw) -> None:
    poster = site.poster()
    for answered in (poster.modern("tools/list", {}), poster.legacy("tools/list")):
        names = {tool["name"] for tool in answered.json["result"]["tools"]}
        assert "allowed" in names
        assert "hidden" not in names
    # Of one that only asks, a list with something hidden in it is a no.
    refused = site.poster(kind="ext_authz").modern("tools/list", {})
    assert refused.json["error"]["data"]["reasons"][0]["code"] == "list_not_whole"


def test_a_result_is_masked_before_anybody_reads_it(site: Site, session_raw: Raw) -> None:
    secret = f"key {SECRET} and nothing else"
    for script in (whole(told(secret)), streamed(told(secret))):
        session_raw.play(instead("tools/call", script))
        answered = site.poster(name="masked").call("allowed")
        (message,) = answered.messages
        text = message["result"]["content"][0]["text"]
        assert SECRET not in text
        assert text.endswith("and nothing else")


def test_of_a_stream_only_the_answer_is_given_out(site: Site, session_raw: Raw) -> None:
    beside: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "psst"}},
        {"jsonrpc": "2.0", "id": 7, "method": "sampling/createMessage", "params": {}},
    ]
    session_raw.play(instead("tools/call", streamed(told("done"), *beside)))
    (message,) = site.poster().call("allowed").messages
    assert message["result"]["content"][0]["text"] == "done"


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"<html>not json</html>",
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":"another","result":{"content":[]}}',
        b'[{"jsonrpc":"2.0","id":1,"result":{"content":[]}}]',
    ],
)
def test_what_is_no_answer_is_given_to_nobody(site: Site, session_raw: Raw, said: bytes) -> None:
    async def script(request: web.Request) -> web.StreamResponse:
        return web.Response(body=said, content_type="application/json")

    session_raw.play(instead("tools/call", script))
    answered = site.poster().call("allowed")
    assert answered.refusal == "upstream_failed"
    assert said not in answered.body or not said


@EVERY
def test_what_a_client_says_beside_the_protocol_is_sent_to_no_server(
    site: Site, session_raw: Raw, kind: str
) -> None:
    session_raw.forget()
    params = {"name": "allowed", "arguments": {}, "_meta": {"douane/run": "mine"}}
    poster = site.poster(kind=kind)
    body = body_of("tools/call", modern_params(params))
    told = [("X-Note", "psst"), ("Cookie", "a=b"), ("X-Request-Id", "psst"), ("User-Agent", "psst")]
    sent = poster.post(body, *mirrored("tools/call", params), *told)
    assert sent.status == 200
    (seen,) = session_raw.seen
    gone = {"x-note", "cookie", "authorization", "accept-encoding", "x-request-id", "user-agent"}
    assert not gone & seen.headers.keys()
    assert "psst" not in str(seen.headers)
    # Only the one changes bodies.
    assert ("douane/run" in seen.json["params"]["_meta"]) is (kind == "ext_authz")
    assert seen.headers["content-length"] == str(len(seen.body))


@EVERY
def test_what_two_readers_would_read_as_two_is_refused(
    site: Site, session_raw: Raw, kind: str
) -> None:
    session_raw.forget()
    poster = site.poster(kind=kind)
    call = body_of("tools/call", modern_params({"name": "allowed"}))
    said = mirrored("tools/call", {"name": "allowed"})
    other = [*said[:-1], ("Mcp-Name", "denied")]
    for body, fields in (
        (b"[" + call + b"]", said),
        (call[:-1] + b',"method":"ping"}', said),
        (call, other),
        (b"{", said),
        (b"", said),
    ):
        assert poster.post(body, *fields).status == 400
    assert poster.post(call, *said, content_type="text/plain").status == 415
    assert poster.post(call, *said, ("Content-Encoding", "gzip")).status == 415
    poster.path += "?note=psst"
    assert poster.post(call, *said).status == 400
    poster.path = poster.path.partition("?")[0]
    assert poster.get().status == 405
    ended = exchange(poster.url, head("DELETE", poster.path, poster.fields))
    assert ended.status == 405
    assert session_raw.seen == []


@EVERY
def test_a_body_that_is_too_large_to_be_shown_whole_is_refused(
    site: Site, session_raw: Raw, kind: str
) -> None:
    session_raw.forget()
    params = {"name": "allowed", "arguments": {"text": "x" * (5 << 20)}}
    answered = site.poster(kind=kind).modern("tools/call", params)
    assert answered.status == 413
    assert session_raw.seen == []


@EVERY
def test_nobody_calls_without_a_token_for_this_server(site: Site, kind: str) -> None:
    poster = site.poster("notes", kind=kind)
    poster.url, poster.path = f"{site.by[kind]}/mcp/raw", "/mcp/raw"
    assert poster.call("allowed").status in {401, 403}
    poster.token = "nobody"
    assert poster.call("allowed").status == 401


def test_what_is_read_through_one_counts_wherever_the_same_client_calls(
    site: Site, session_raw: Raw
) -> None:
    poster = site.poster(name="reader")
    assert poster.call("page").status == 200
    direct = Poster(site.gateway, "raw", name="reader")
    refused = direct.call("denied").json["result"]["_meta"]["douane/refusal"]["decision_id"]
    (outcome,) = site.gateway.running.rows(
        "audit", "query", "--where", f"decision_id = '{refused}'"
    )
    assert outcome["label_before"]["integrity"] == "untrusted"


def test_what_is_not_seen_counts_as_its_worst_at_once(site: Site) -> None:
    poster = site.poster(kind="ext_authz", name="unseen")
    assert poster.call("allowed").status == 200
    refused = poster.call("denied").json["result"]["_meta"]["douane/refusal"]["decision_id"]
    (outcome,) = site.gateway.running.rows(
        "audit", "query", "--where", f"decision_id = '{refused}'"
    )
    assert outcome["label_before"] == {"integrity": "untrusted", "confidentiality": "private"}


@pytest.mark.parametrize(
    "change",
    [
        {"processing_mode": {"request_body_mode": "BUFFERED", "response_body_mode": "STREAMED"}},
        {"request_attributes": []},
    ],
)
def test_one_that_shows_less_than_all_is_refused(
    site: Site, session_raw: Raw, tmp_path: Path, change: dict[str, Any]
) -> None:
    session_raw.forget()

    def less(text: str) -> str:
        content = yaml.safe_load(text)
        filters = content["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]
        filters["typed_config"]["http_filters"][1]["typed_config"].update(change)
        return yaml.safe_dump(content)

    with site.another("ext_proc", tmp_path, less) as url:
        answered = Poster(site.gateway, "raw", name="ext_proc", by=url).call("allowed")
    assert answered.status == 500 or answered.refusal == "denied"
    assert session_raw.seen == []


@EVERY
def test_one_with_another_key_gets_nothing_through(
    site: Site, session_raw: Raw, tmp_path: Path, kind: str
) -> None:
    session_raw.forget()
    key = key_of(kind.replace("_", "-"))
    with site.another(kind, tmp_path, lambda text: text.replace(key, "k" * 40)) as url:
        answered = Poster(site.gateway, "raw", name=kind, by=url).call("allowed")
    assert answered.status >= 500
    assert session_raw.seen == []


def test_what_changes_or_breaks_in_the_middle_lets_nothing_pass(
    session_raw: Raw, tmp_path: Path
) -> None:
    """A reload changes what a plane may do; then the gateway is killed while a server answers, and
    after that nothing goes out at all.
    """
    reached, gate = threading.Event(), threading.Event()

    async def script(request: web.Request) -> web.StreamResponse:
        reached.set()
        await opened(gate)
        return answer(json.loads(await request.read()), told(SECRET))

    with site_in(tmp_path, {"raw": session_raw.url}) as site, ThreadPoolExecutor() as threads:
        posters = [site.poster(kind=kind) for kind in KINDS]
        assert posters[1].call("denied").refusal == "denied"
        narrowed(site, ["tools:list"])
        refused = until(lambda: (said := posters[0].call("slow")).status == 403 and said)
        assert refused.headers["www-authenticate"].startswith('Bearer error="insufficient_scope"')
        narrowed(site, list(EVERY_SCOPE))
        until(lambda: posters[0].call("slow").status == 200)
        session_raw.play(instead("tools/call", script))
        called = threads.submit(posters[0].call, "allowed")
        assert reached.wait(60)
        site.gateway.running.process.kill()
        site.gateway.running.process.wait(60)
        gate.set()
        answered = called.result(60)
        assert answered.status >= 500
        assert SECRET.encode() not in answered.body
        session_raw.forget()
        after = [poster.call("allowed").status for poster in posters]
        assert all(status >= 500 for status in after), after
        assert session_raw.seen == []


def narrowed(site: Site, scopes: list[str]) -> None:
    """Let the plane carry no more than that, by a reload."""
    edit(
        site.gateway,
        lambda content: content["planes"]["ext_proc"]["ext-proc"].update(scopes=scopes),
    )
    site.gateway.running.process.send_signal(signal.SIGHUP)


def whole(result: dict[str, Any]) -> Script:
    async def script(request: web.Request) -> web.StreamResponse:
        return answer(json.loads(await request.read()), result)

    return script


def streamed(result: dict[str, Any], *before: dict[str, Any]) -> Script:
    """Answer in a stream, with other messages before the answer."""

    async def script(request: web.Request) -> web.StreamResponse:
        asked = json.loads(await request.read())
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for message in (*before, {"jsonrpc": "2.0", "id": asked["id"], "result": result}):
            await response.write(b"data: " + json.dumps(message).encode() + b"\n\n")
        return response

    return script
