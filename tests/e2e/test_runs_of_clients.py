"""Runs at a real gateway: over servers, restarts, idle time, and for a host that begins its own."""

import os
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.posting import LEGACY, Poster
from tests.e2e.scripted import Raw, raw_in_a_thread
from tests.e2e.site import SERVERS, Corridor
from tests.running import EVERY_SCOPE, fetch_token, rules_in, running_gateway
from tests.servers.process import free_ports

RULE = """\
package douane

deny contains {"code": "no_private_data", "message": "private data was read before"} if {
	input.phase == "call"
	input.target.name == "allowed"
	input.flow.label.confidentiality == "private"
}
"""
SHIFTED = """\
import asyncio, os, pathlib, time

real = time.monotonic
asyncio.BaseEventLoop.time = lambda loop: real()  # what waits goes on waiting

def shifted(clock, name):
    folder = pathlib.Path(os.environ["CLOCKS"])
    return lambda: clock() + float((folder / name).read_text())

time.time = shifted(time.time, "wall")
time.monotonic = shifted(time.monotonic, "elapsed")
"""
"""Read by every Python program at its start: its clocks can be moved while it runs."""
READ: tuple[str, dict[str, Any]] = ("page", {})
SEND: tuple[str, dict[str, Any]] = ("allowed", {"text": "what was read"})


@pytest.fixture(scope="module")
def module_raw() -> Iterator[Raw]:
    with raw_in_a_thread() as raw:
        yield raw


class Home:
    """A gateway with two servers, and clients that use both."""

    def __init__(self, folder: Path, raw: Raw) -> None:
        self.folder = folder
        self.raw = raw
        self.ports = free_ports()
        self.clients: dict[str, Mapping[str, Any]] = {}
        self.policies = folder / "policies"
        rules_in(self.policies)
        (self.policies / "tests.rego").write_text(RULE)
        self.clocks = folder / "clocks"
        self.clocks.mkdir()
        (self.clocks / "sitecustomize.py").write_text(SHIFTED)
        for name in ("wall", "elapsed"):
            self.move(name, 0)

    def move(self, clock: str, seconds: int) -> None:
        new = self.clocks / "new"
        new.write_text(str(seconds))
        new.replace(self.clocks / clock)

    @contextmanager
    def open(self, *, by_our_clocks: bool = False) -> Iterator[Corridor]:
        """Run it until the context ends; `by_our_clocks` lets `move` have a say."""
        servers = {name: {"url": self.raw.url, **SERVERS["raw"]} for name in ("web", "mail")}
        began_before = (self.folder / "data").exists()
        path = f"{self.clocks}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        with running_gateway(
            self.folder,
            servers,
            policies=self.policies,
            ports=self.ports,
            environment={"PYTHONPATH": path, "CLOCKS": str(self.clocks)} if by_our_clocks else {},
            runs={"idle": "1m"},
        ) as running:
            for server in () if began_before else servers:
                running.approve_all(server)
            yield Corridor(running)

    def poster(self, at: Corridor, server: str, client: str = "host") -> Poster:
        if client not in self.clients:
            scopes = [part for scope in EVERY_SCOPE for part in ("--scope", scope)]
            (self.clients[client],) = at.running.rows(
                *("clients", "add", client, "--grant", "client_credentials", "--trusted-host"),
                *("--resource", "/mcp/web", "--resource", "/mcp/mail", *scopes),
            )
        token = fetch_token(at.url, server, self.clients[client])
        poster = object.__new__(Poster)
        poster.gateway, poster.url, poster.path = at, at.endpoint(server), f"/mcp/{server}"
        poster.token = token
        return poster


@pytest.fixture
def home(tmp_path: Path, module_raw: Raw) -> Home:
    return Home(tmp_path, module_raw)


class Talk:
    """One client's sessions with both servers, opened at once as hosts do."""

    def __init__(self, home: Home, at: Corridor, client: str = "host") -> None:
        self.web, self.mail = (home.poster(at, server, client) for server in ("web", "mail"))
        self.sessions = {poster: poster.session() for poster in (self.web, self.mail)}

    def use(self, poster: Poster, call: tuple[str, Any], run: str | None = None) -> str | None:
        params = {"name": call[0], "arguments": call[1]}
        meta = {} if run is None else {"_meta": {"douane/run": run}}
        session = ("Mcp-Session-Id", self.sessions[poster])
        return poster.legacy("tools/call", {**params, **meta}, session).refusal

    def renewed(self, home: Home, at: Corridor) -> None:
        for poster, server in ((self.web, "web"), (self.mail, "mail")):
            poster.token = fetch_token(at.url, server, home.clients["host"])


def begin(poster: Poster) -> str:
    answered = poster.modern("douane/run/begin", {"task": {"prompt": "Write to Emma"}})
    assert answered.json["result"]["idle_s"] == 60
    handle: str = answered.json["result"]["run"]
    return handle


def test_what_is_read_from_one_server_does_not_go_out_at_another(home: Home) -> None:
    with home.open() as at:
        talk = Talk(home, at)
        assert talk.use(talk.mail, SEND) is None
        assert talk.use(talk.web, READ) is None
        assert talk.use(talk.mail, SEND) == "denied"
        # In a run that the host began for another conversation it does, at whichever server.
        mine = begin(talk.web)
        assert talk.use(talk.mail, SEND, mine) is None
        assert talk.use(talk.mail, READ, mine) is None
        assert talk.use(talk.web, SEND, mine) == "denied"
        # For another client that handle is none, and its calls are read strictly.
        other = Talk(home, at, "other")
        assert other.use(other.mail, SEND) is None
        assert other.use(other.mail, SEND, begin(talk.web)) == "denied"
        ended = talk.mail.legacy("douane/run/end", {"run": mine}).json["result"]
        assert ended == {"ended": True}

        # The whole story, to people.
        (last,) = at.running.rows("audit", "query", "--code", "denied", "--limit", "1")
        shown = at.running.douane("runs", "show", last["run"], "--svg", str(home.folder / "r.svg"))
        assert "no_private_data" in shown.stdout
        assert max(map(len, shown.stdout.splitlines())) < 100
        drawn = ET.parse(home.folder / "r.svg").getroot()
        assert any("no_private_data" in (text.text or "") for text in drawn.iter())
        live = at.running.rows("runs", "list", "--live")
        begun = [row for row in live if row["part_of"]]
        assert [(row["task"], row["confidentiality"]) for row in begun] == [(True, "public")]


@pytest.mark.full
def test_labels_and_begun_runs_outlive_the_process_and_idle_time_ends_them(home: Home) -> None:
    with home.open() as at:
        talk = Talk(home, at)
        talk.use(talk.web, READ)
        mine = begin(talk.mail)
    with home.open(by_our_clocks=True) as at:
        talk.renewed(home, at)
        assert talk.use(talk.mail, SEND) == "denied"
        assert talk.use(talk.mail, SEND, mine) is None
        home.move("wall", 5000)
        talk.renewed(home, at)
        assert talk.use(talk.mail, SEND) == "denied"  # the clock on the wall ends nothing
        home.move("elapsed", 59)
        assert talk.use(talk.mail, SEND) == "denied"
        home.move("elapsed", 120)
        assert talk.use(talk.mail, SEND) is None
        assert talk.use(talk.mail, SEND, mine) == "denied"
        assert [row["live"] for row in at.running.rows("runs", "list")] == [True, False, False]


def test_a_person_ends_a_run_and_vouches_for_another(home: Home) -> None:
    with home.open() as at:
        talk = Talk(home, at)
        talk.use(talk.web, READ)
        (row,) = at.running.rows("runs", "list", "--live")
        lowered = at.running.rows(
            *("runs", "relabel", row["run"], "--integrity", "trusted"),
            *("--confidentiality", "internal", "--note", "it is a public page"),
        )
        assert lowered == [
            {"run": row["run"], "integrity": "trusted", "confidentiality": "internal"}
        ]
        assert talk.use(talk.mail, SEND) is None
        talk.use(talk.web, READ)
        assert talk.use(talk.mail, SEND) == "denied"
        assert at.running.rows("runs", "end", row["run"])[0]["ended"] is True
        assert talk.use(talk.mail, SEND) is None
        acts = at.running.rows("audit", "query", "--where", "kind = run")
        assert [act["code"] for act in acts] == ["ended", "relabelled"]
        assert acts[1]["label_after"] == {"integrity": "trusted", "confidentiality": "internal"}


def test_who_is_no_trusted_host_begins_no_run(home: Home) -> None:
    with home.open() as at:
        home.poster(at, "web")
        plain = Poster(at, "web", name="plain")
        answered = plain.legacy("douane/run/begin", {})
        assert (answered.refusal, LEGACY) == ("denied", "2025-11-25")
        reasons = answered.json["error"]["data"]["reasons"]
        assert [reason["code"] for reason in reasons] == ["not_a_trusted_host"]
