"""Servers that the gateway starts itself: real ones and a hostile one, in their jails."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from gateway.upstream.jail_entry import PORT
from tests.demo.client import connected
from tests.e2e.own import edit, soon, until
from tests.e2e.posting import LEGACY, Poster, body_of
from tests.e2e.site import Corridor
from tests.running import Running, running_gateway
from tests.servers import local
from tests.servers.process import MODULES

SCRIPT = str(Path(local.__file__).resolve())
GIT = str(Path(sys.executable).parent / "mcp-server-git")
FILESYSTEM = str(MODULES / ".bin/mcp-server-filesystem")
SECONDS = f"63.{os.getpid()}"
READS: dict[str, Any] = {"tools": {name: {"effect": "read"} for name in local.LISTED}}


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=emma", "-c", "user.email=emma@example.com"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def servers_in(folder: Path) -> dict[str, dict[str, Any]]:
    repo, files = folder / "repo", folder / "files"
    repo.mkdir(parents=True)
    files.mkdir()
    git(repo, "init")
    (repo / "a.txt").write_text("hello\n")
    git(repo, "add", ".")
    git(repo, "commit", "-m", "the first commit")
    (files / "note.txt").write_text("a note")
    within = {"folder": str(folder)}
    return {
        "repo": {
            "command": [GIT, "--repository", "./repo"],
            "files": {"read": [str(repo)]},
            **within,
        },
        "files": {
            "command": [FILESYSTEM, "./files"],
            "files": {"write": [str(files)]},
            "tools": {"write_file": {"effect": "write", "destination": ["path"]}},
            **within,
        },
        "hostile": {
            "command": [sys.executable, SCRIPT],
            "files": {"read": [SCRIPT]},
            **within,
            **READS,
        },
        "missing": {"command": ["no-such-tool"]},
    }


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corridor]:
    folder = tmp_path_factory.mktemp("local")
    with running_gateway(
        folder / "gateway", servers_in(folder), limits={"calls_per_minute": 100_000}
    ) as running:
        # As clients of either family see it: pins are of a revision.
        shown = ("repo", "files", "hostile")
        assert until(lambda: seen(running) >= set(shown), patience_s=120)
        for name in shown:
            running.approve_all(name)
        yield Corridor(running)


def seen(running: Running) -> set[str]:
    """Return the servers that have been asked for everything once."""
    return {row["server"] for row in running.rows("servers", "list") if row["checked_at"]}


def place(house: Corridor) -> Path:
    return house.running.folder.parent


class Session:
    """A legacy session, by hand."""

    def __init__(self, gateway: Corridor, server: str, *, name: str = "agent") -> None:
        self.poster = Poster(gateway, server, name=name)
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c"}}
        answered = self.poster.legacy("initialize", {**params, "clientInfo": local_client()})
        self.id = answered.headers["mcp-session-id"]

    def call(self, name: str, *, session: str | None = None, **given: Any) -> Any:
        fields = [("MCP-Protocol-Version", LEGACY), ("Mcp-Session-Id", session or self.id)]
        body = body_of("tools/call", {"name": name, "arguments": given})
        return self.poster.post(body, *fields)


def local_client() -> dict[str, str]:
    return {"name": "c", "version": "1"}


def said(answered: Any) -> Any:
    text = answered.messages[-1]["result"]["content"][0]["text"]
    try:
        return json.loads(text)
    except ValueError:
        return text


def refusal(answered: Any) -> str:
    """Return the code of a refusal; empty if it is none."""
    found = answered.messages[-1]["result"].get("_meta", {})
    code: str = found.get("douane/refusal", {}).get("code", "")
    return code


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
async def test_the_git_server_tells_its_history_in_both_families(
    house: Corridor, mode: str
) -> None:
    async with connected(house.endpoint("repo"), house.token("repo"), mode) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert {"git_log", "git_status"} <= tools
        result = await client.call_tool("git_log", {"repo_path": str(place(house) / "repo")})
        assert not result.is_error
        assert "the first commit" in str(result.content)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_file_server_reads_what_it_was_given(house: Corridor, mode: str) -> None:
    files = place(house) / "files"
    async with connected(house.endpoint("files"), house.token("files"), mode) as client:
        assert client.protocol_version == LEGACY
        read = await client.call_tool("read_text_file", {"path": str(files / "note.txt")})
        assert (read.is_error, read.structured_content) == (False, {"content": "a note"})
        outside = await client.call_tool("read_text_file", {"path": "/etc/passwd"})
        assert outside.is_error


def test_a_hostile_one_finds_neither_our_data_nor_our_processes(house: Corridor) -> None:
    session = Session(house, "hostile")
    assert said(session.call("pid")) < 10
    for path in (house.running.folder / "data", house.running.folder):
        assert said(session.call("folder", path=str(path))).startswith("FileNotFoundError")


def test_a_process_that_dies_ends_its_session_and_the_client_begins_another(
    house: Corridor,
) -> None:
    session = Session(house, "hostile")
    assert refusal(session.call("exit")) == "upstream_failed"
    assert session.call("echo").status == 404
    assert said(Session(house, "hostile").call("echo", a=1)) == {"a": 1}


def test_nobody_else_gets_into_a_session(house: Corridor) -> None:
    session = Session(house, "hostile")
    stranger = Session(house, "hostile", name="stranger")
    assert stranger.call("echo", session=session.id).status == 404
    assert stranger.call("echo").status == 200


def test_operators_see_what_holds_each_server(house: Corridor) -> None:
    rows = {row["server"]: row for row in house.running.rows("servers", "list")}
    assert rows["repo"]["url"] == f"{GIT} (in a jail)"
    assert (rows["repo"]["status"], rows["files"]["status"]) == ("ok", "ok")
    assert rows["missing"]["status"] == "failing"
    assert "there is no program `no-such-tool`" in rows["missing"]["error"]


def test_nothing_of_them_is_left_when_the_gateway_is_killed(tmp_path: Path) -> None:
    given = {"hostile": servers_in(tmp_path)["hostile"]}
    with running_gateway(tmp_path / "gateway", given) as running:
        running.approve_all("hostile")
        session = Session(Corridor(running), "hostile")
        said(session.call("fork", away=True, seconds=SECONDS))
        assert until(lambda: sleeping(SECONDS))
        running.process.send_signal(signal.SIGKILL)
        running.process.wait()
        until(lambda: not sleeping(SECONDS))


def sleeping(seconds: str) -> bool:
    words = f"sleep\0{seconds}\0".encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == words:
                return True
        except OSError:
            continue
    return False


class Hello(BaseHTTPRequestHandler):
    """A site that says hello."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *about: object) -> None:
        pass


@contextmanager
def site() -> Iterator[str]:
    """Yield where, on this machine's loopback, there is a site."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Hello) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_one_with_a_list_reaches_what_is_on_it_and_an_attempt_at_more_is_recorded(
    tmp_path: Path,
) -> None:
    with site() as listed, site() as other:
        given = {"hostile": servers_in(tmp_path)["hostile"] | {"network": {"allow": [listed]}}}
        with running_gateway(tmp_path / "gateway", given) as running:
            running.approve_all("hostile")
            session = Session(Corridor(running), "hostile")

            def asks(place: str) -> str:
                request = f"GET http://{place}/ HTTP/1.1\r\n\r\n"
                return str(said(session.call("exchange", port=PORT, said=request)))

            assert asks(listed).endswith("\r\n\r\nhello")
            assert asks(other).startswith("HTTP/1.1 403 ")
            assert asks("169.254.169.254:80").startswith("HTTP/1.1 403 ")
            refused = session.call("connect", port=int(other.rpartition(":")[2]))
            assert said(refused) == "ConnectionRefusedError: Connection refused"

            def recorded() -> list[dict[str, Any]]:
                return running.rows("audit", "query", "--code", "egress_refused")

            assert until(lambda: len(recorded()) == 2)
            messages = {
                reason["message"]
                for row in recorded()
                for reason in running.rows("audit", "show", row["id"])[0]["reasons"]
            }
            assert messages == {
                f"{other}: it is not listed",
                "169.254.169.254:80: it is not listed",
            }
            (row,) = running.rows("servers", "list")
            assert row["url"] == f"{sys.executable} (in a jail, reaches {listed})"


async def test_another_command_is_another_server_that_nobody_has_approved(tmp_path: Path) -> None:
    given = {"hostile": servers_in(tmp_path)["hostile"]}
    with running_gateway(tmp_path / "gateway", given) as running:
        running.approve_all("hostile")
        gateway = Corridor(running)
        session = Session(gateway, "hostile")
        assert said(session.call("echo", a=1)) == {"a": 1}

        def more(content: dict[str, Any]) -> None:
            content["servers"]["hostile"]["command"].append("--more")

        edit(gateway, more)
        running.process.send_signal(signal.SIGHUP)
        assert await soon(lambda: refusal(session.call("echo"))) == "pin_drift"
        assert refusal(Session(gateway, "hostile").call("echo")) == "pin_drift"
        listed = session.poster.legacy("tools/list", {}, ("Mcp-Session-Id", session.id))
        assert listed.status == 404  # the process that was started otherwise has ended
