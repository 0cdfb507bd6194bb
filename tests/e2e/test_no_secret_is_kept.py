"""Secrets of every kind, planted wherever something can be said: no file of the gateway keeps one."""

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from aiohttp import web

from tests.backends import FILES, only
from tests.e2e.posting import LEGACY, Poster, body_of, mirrored, modern_params
from tests.e2e.scripted import Raw, answer, instead, raw_in_a_thread, told
from tests.e2e.site import OURS, SERVERS, Corridor
from tests.e2e.sockets import exchange, head
from tests.running import running_gateway
from tests.servers.raw import Script, answers, streams

HELD = "an-operators-own-secret-7c1d"
"""Of no form that anybody knows: the gateway knows it word for word."""
PLANTED: dict[str, str] = {
    "a token": "ghp_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY1zA2",
    "a key": "AKIA" + "Q3EGRIMNT2XL7WPZ",
    "a JWT": ".".join(
        base64.urlsafe_b64encode(part).decode().rstrip("=")
        for part in (
            b'{"alg":"RS256"}',
            b'{"sub":"planted-subject"}',
            b"s" * 8 + b"i7g9n2a4t6u8r1e3",
        )
    ),
    "a password": "password=Tr0ub4dor-and-three",
    "a URL": "https://bob:Tr0ub4dor-and-four@db.internal/x",
    "a secret of our kind": "Zx9Wv8Ut7Sr6Qp5On4Ml3Kj2Ih1Gf0Ed9Cb8Ba7Ay6z",
    "a secret that is held": HELD,
}
PIECES = (
    *PLANTED.values(),
    "Tr0ub4dor-and-three",
    "Tr0ub4dor-and-four",
    "planted-subject",
    "a-bearer-5e1f9ab7c3",
    "a-cookie-5e1f9ab7c3",
    "a-code-5e1f9ab7c3",
    "hunter2",
    HELD,
)
"""What must be in no file, also where only a part of what was planted is the secret."""
ALL = " ; ".join(PLANTED.values())
ARGUMENTS: dict[str, Any] = {
    "text": ALL,
    "list": list(PLANTED.values()),
    "deep": {"inner": [{"x": text} for text in PLANTED.values()]},
    "password": "hunter2",
    "nested": {"client_secret": "hunter2", "api_key": ["hunter2"], "Authorization": "hunter2"},
    "header": "Authorization: Bearer a-bearer-5e1f9ab7c3",
    "cookie": "Cookie: session=a-cookie-5e1f9ab7c3",
    "callback": "https://client.example/cb?code=a-code-5e1f9ab7c3&state=1",
    **dict.fromkeys(PLANTED.values(), True),
}


@pytest.fixture(scope="module", params=["full", "hashed"])
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Corridor, Raw]]:
    folder = tmp_path_factory.mktemp("planted")
    level = request.param
    clear = ["$.text", "$.list", "$.deep", "$.password", "$.nested", "$.header", "$.callback"]
    tools = {
        **SERVERS["raw"]["tools"],
        "page": {"effect": "egress", "destination": ["list", "callback"], "payload": ["text"]},
    }
    with raw_in_a_thread() as raw:
        server = {
            "url": raw.url,
            "credential": {"kind": "header", "name": "x-api-key", "value": "env:PLANTED_HELD"},
            "defaults": OURS,
            "tools": tools,
            "audit": {"redaction": level, **({"clear": clear} if level == "selected" else {})},
        }
        with running_gateway(
            folder,
            {"raw": server},
            environment={"PLANTED_HELD": HELD},
            audit={"redaction": level},
            limits={"calls_per_minute": 100_000, "upstream_failures": 1000},
        ) as running:
            running.approve_all("raw")
            raw.forget()
            yield Corridor(running), raw


def everywhere(gateway: Corridor) -> Mapping[str, bytes]:
    """Every file that a gateway writes but its keys, and what it gives to auditors."""
    data = gateway.folder / "data"
    found = {
        path.name: path.read_bytes()
        for path in (gateway.folder / "gateway.log", *_files(data))
        if path.suffix != ".key"
    }
    for form in ("jsonl", "csv"):
        done = gateway.running.douane("audit", "export", "--format", form)
        assert done.returncode == 0, done.stderr
        found[f"export.{form}"] = done.stdout.encode()
    return found


def _files(data: Path) -> Iterator[Path]:
    return (path for path in data.rglob("*") if path.is_file())


def forms_of(secret: str) -> set[bytes]:
    """How a secret may be spelled in a file."""
    return {
        secret.encode(),
        json.dumps(secret)[1:-1].encode(),
        quote(secret).encode(),
        base64.b64encode(secret.encode()).rstrip(b"="),
    }


@only(FILES)
def test_no_file_holds_what_was_planted(site: tuple[Corridor, Raw]) -> None:
    gateway, raw = site
    _in_arguments(gateway)
    _in_names(gateway, raw)
    _in_headers(gateway)
    _in_what_servers_say(gateway, raw)
    _in_answers(gateway)
    _at_the_token_endpoint(gateway)
    _in_what_people_write(gateway)
    ours = [
        gateway.token("raw"),
        gateway.running.client("raw")["client_secret"],
    ]
    files = everywhere(gateway)
    assert {"douane.db", "douane.db-wal", "gateway.log", "identity.db"} <= files.keys()
    assert b'"kind":"outcome"' in files["export.jsonl"]
    kept = {
        (name, secret)
        for name, octets in files.items()
        for secret in (*PIECES, *ours)
        if any(form in octets for form in forms_of(secret))
    }
    assert kept == set()


def _in_arguments(gateway: Corridor) -> None:
    poster = Poster(gateway, "raw")
    for tool in ("allowed", "denied", "hidden", "page", "remove", "amounts"):
        poster.call(tool, ARGUMENTS)
    poster.legacy("tools/call", {"name": "allowed", "arguments": ARGUMENTS})
    poster.modern("prompts/get", {"name": "greeting", "arguments": {"who": ALL}})
    task = {"douane/task": {"prompt": ALL, "tools": [ALL]}}
    poster.modern("tools/call", {"name": "allowed", "arguments": {}, "_meta": task})


def _in_names(gateway: Corridor, raw: Raw) -> None:
    # What a run has read is kept beside the record, by name: here it reads none of these.
    raw.play(instead("resources/read", answers("no", status=500, media="text/plain")))
    poster = Poster(gateway, "raw")
    for text in PLANTED.values():
        if text.isascii():
            poster.post(
                body_of("tools/call", modern_params({"name": text})), *mirrored("tools/call", {})
            )
            poster.legacy(text, {})
            poster.legacy("resources/read", {"uri": text})
            poster.legacy("prompts/get", {"name": text})
            poster.legacy("completion/complete", {"ref": {"type": "ref/prompt", "name": text}})
        exchange(
            gateway.url + "/mcp/x",
            head("POST", f"/mcp/{quote(text, safe='')}", [*poster.fields, ("Content-Length", "0")]),
        )
    poster.post(ALL.encode(), ("MCP-Protocol-Version", LEGACY))


def _in_headers(gateway: Corridor) -> None:
    poster = Poster(gateway, "raw")
    good = poster.token
    for text in PLANTED.values():
        poster.token = text.replace(" ", "")
        poster.legacy("ping")
    poster.token = good
    for name in ("Cookie", "X-Api-Key", "Mcp-Session-Id", "traceparent", "Mcp-Name", "User-Agent"):
        poster.legacy("ping", None, (name, ALL))


def _in_what_servers_say(gateway: Corridor, raw: Raw) -> None:
    poster = Poster(gateway, "raw")
    error = {"code": -32000, "message": ALL, "data": {"password": "hunter2", "x": ALL}}

    async def failed(request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read())
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "error": error})

    async def said(request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read())
        return answer(message, {**told(ALL), "isError": True}, session=ALL.replace(" ", ""))

    scripts: tuple[Script, ...] = (
        failed,
        said,
        answers(ALL, status=500, media="text/plain"),
        answers(ALL, status=401, headers={"WWW-Authenticate": f'Bearer error="{HELD}"'}),
        answers(ALL, media=f"text/{HELD}"),
        answers(json.dumps({ALL: ALL})),
        answers(json.dumps({"jsonrpc": "2.0", "id": ALL, "result": {}})),
        answers("", status=302, headers={"Location": PLANTED["a URL"]}),
        streams(b"data: " + ALL.encode() + b"\n\n"),
    )
    for script in scripts:
        raw.play(instead("tools/call", script))
        poster.call("allowed", {"text": "x"})
    raw.forget()


def _in_answers(gateway: Corridor) -> None:
    """As a client answers a server that asks a person for something."""
    poster = Poster(gateway, "raw")
    session = poster.session()
    content = {"action": "accept", "content": {"password": "hunter2", "x": ALL}}
    for id_ in (1, ALL):
        body = json.dumps({"jsonrpc": "2.0", "id": id_, "result": content}).encode()
        poster.post(body, ("MCP-Protocol-Version", LEGACY), ("Mcp-Session-Id", session))
    back = {"inputResponses": {"douane-approval": content, ALL: content}, "requestState": ALL}
    poster.modern("tools/call", {"name": "remove", "arguments": {"text": "x"}, **back})


def _at_the_token_endpoint(gateway: Corridor) -> None:
    client = gateway.running.client("raw")
    for text in PLANTED.values():
        for form in (
            {"grant_type": "client_credentials", "client_id": text, "client_secret": text},
            {
                "grant_type": "client_credentials",
                "client_id": client["client_id"],
                "client_secret": text,
            },
            {"grant_type": "authorization_code", "code": text, "client_id": client["client_id"]},
            {"grant_type": "refresh_token", "refresh_token": text, "client_id": text},
            {"grant_type": text, "client_id": text, "scope": text, "resource": text},
        ):
            _post(f"{gateway.url}/oauth/token", form)
        _post(f"{gateway.url}/oauth/revoke", {"token": text, "client_id": text})
        _get(f"{gateway.url}/oauth/authorize?{urlencode({'client_id': text, 'state': text})}")
        _post(f"{gateway.url}/sign-in", {"username": text, "password": text})


def _in_what_people_write(gateway: Corridor) -> None:
    running = gateway.running
    running.douane("runs", "end", ALL)
    running.douane("servers", "remove", ALL)
    running.douane("audit", "query", "--where", f'target = "{ALL}"')
    running.douane("audit", "hash", ALL)
    running.douane("pins", "show", "raw", ALL)
    running.douane("users", "add", PLANTED["a token"])


def _post(url: str, form: Mapping[str, str]) -> None:
    _get(url, urlencode(form).encode())


def _get(url: str, data: bytes | None = None) -> None:
    try:
        urllib.request.urlopen(url, data, timeout=60).close()
    except urllib.error.HTTPError as refused:
        refused.close()
