"""A folder of one gateway is moved into PostgreSQL: everything goes on there, for whoever knows it."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.storage.kek import new_key
from tests import forks
from tests.backends import FILES, only
from tests.e2e.own import GENEROUS
from tests.e2e.posting import Poster
from tests.e2e.scripted import Raw, raw_in_a_thread
from tests.e2e.site import SERVERS, Corridor
from tests.postgres import Postgres
from tests.running import DOUANE, Running, running_gateway
from tests.servers.process import ROOT, free_ports

RULES = """\
package douane

decision := {"verdict": "ask", "reasons": [{"code": "outside", "message": "it goes outside"}]} if {
	input.phase == "call"
	input.target.name == "located"
	not is_object(input.approval)
} else := {"verdict": "deny", "reasons": [{"code": "read", "message": "private data was read before"}]} if {
	input.phase == "call"
	input.target.name == "allowed"
	input.flow.label.confidentiality == "private"
} else := {"verdict": "allow", "reasons": []}
"""
HELLO = {"text": "hello"}
RECORDS = (
    ("audit", "query", "--limit", "1000"),
    ("audit", "query", "--verdict", "deny", "--limit", "1000"),
    ("audit", "query", "--where", "kind = intent and target = allowed", "--limit", "1000"),
)
KEPT = (
    ("pins", "list"),
    ("users", "list"),
    ("clients", "list"),
    ("approvals", "list"),
)
CALLS = 60


class Site:
    """One configuration, of SQLite at first, and what it is told about PostgreSQL."""

    def __init__(self, folder: Path, raw: Raw, address: str) -> None:
        self.folder, self.raw = folder, raw
        self.ports = free_ports()
        self.policies = folder / "policies"
        self.policies.mkdir(parents=True)
        (self.policies / "rules.rego").write_text(RULES)
        self.shared = {"url": folder / "url", "kek": folder / "kek"}
        for place, text in ((self.shared["url"], address), (self.shared["kek"], new_key())):
            place.touch(mode=0o600)
            place.write_text(text)

    @contextmanager
    def running(self, **settings: Any) -> Iterator[Corridor]:
        servers = {"raw": {"url": self.raw.url, **SERVERS["raw"]}}
        given = {"pins": {"recheck": "1h", "fresh": "1h"}, **GENEROUS, **settings}
        with running_gateway(
            self.folder, servers, policies=self.policies, ports=self.ports, **given
        ) as running:
            yield Corridor(running)

    @property
    def in_postgres(self) -> dict[str, Any]:
        return {
            "storage": {"kind": "postgres", "url": f"file:{self.shared['url']}"},
            "auth": {"key_encryption_key": f"file:{self.shared['kek']}"},
        }

    def says(self, **settings: Any) -> Path:
        """Write another configuration beside the gateway's."""
        content = json.loads((self.folder / "douane.yaml").read_text()) | settings
        path = self.folder / "moving.yaml"
        path.write_text(json.dumps(content))
        return path

    def douane(self, config: Path, *words: str) -> "subprocess.CompletedProcess[str]":
        given = ["--config", str(config), *words]
        return forks.run("gateway.cli", given, timeout=120) or subprocess.run(
            [DOUANE, *given], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
        )


@pytest.fixture(scope="module")
def module_raw() -> Iterator[Raw]:
    with raw_in_a_thread() as raw:
        yield raw


def kept(running: Running) -> list[list[dict[str, Any]]]:
    return [running.rows(*words) for words in KEPT]


def found(running: Running, known: set[str] | None = None) -> list[list[dict[str, Any]]]:
    """Return what questions find, of the records that are `known`."""
    answers = [running.rows(*words) for words in RECORDS]
    return [[row for row in rows if known is None or row["id"] in known] for rows in answers]


def require_good(running: Running, *more: str) -> None:
    done = running.douane("audit", "verify", *more, "--json")
    assert (done.returncode, json.loads(done.stdout)["finding"]) == (0, "ok"), done.stdout


def killed_at(site: Site, config: Path, line: str) -> None:
    """Begin the move, and kill it as soon as it says that."""
    with subprocess.Popen(
        [DOUANE, "--config", str(config), "storage", "migrate"],
        cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for told in process.stderr:
            if told.startswith(line):
                os.kill(process.pid, signal.SIGKILL)
                return
        raise AssertionError(f"it ended before it said {line}")


class Before:
    """What was so before the move."""

    def __init__(self, site: Site, corridor: Corridor, folder: Path) -> None:
        corridor.running.approve_all("raw")
        poster = Poster(corridor, "raw")
        for _ in range(CALLS):
            assert poster.call("allowed", HELLO).refusal is None
        self.session = poster.session()
        asks = Poster(corridor, "raw", name="asks").call("located", HELLO)
        self.waits = asks.json["result"]["_meta"]["douane/refusal"]["approval_id"]
        assert poster.call("page").refusal is None
        assert poster.call("allowed", HELLO).refusal == "denied"
        self.token = poster.token
        self.export = folder / "export"
        words = ("audit", "export", "--format", "bundle", "--output", str(self.export))
        done = corridor.running.douane(*words)
        assert done.returncode == 0, done.stderr
        self.key = next(
            row["public"] for row in corridor.running.rows("keys", "list") if row["use"] == "audit"
        )
        self.kept = kept(corridor.running)
        self.found = found(corridor.running)

    def require_same(self, after: Corridor) -> Poster:
        """Find everything as it was: a run has read what it has, a token opens what it did."""
        known = {row["id"] for row in self.found[0]}
        assert found(after.running, known) == self.found
        require_good(after.running)
        done = after.running.douane(
            "audit", "verify", "--export", str(self.export), "--key", self.key
        )
        assert done.returncode == 0, done.stdout
        poster = Poster(after, "raw")
        poster.token = self.token
        assert poster.call("allowed", HELLO).refusal == "denied"
        return poster


@only(FILES)
def test_everything_goes_on_in_postgresql_and_comes_back(
    tmp_path: Path, postgres: Postgres, module_raw: Raw
) -> None:
    site = Site(tmp_path / "site", module_raw, postgres.fresh())
    with site.running() as corridor:
        before = Before(site, corridor, tmp_path)
        config = site.says(**site.in_postgres)
        assert "is in use by process" in site.douane(config, "storage", "migrate").stderr
    for line in ("records: ", "everything beside the log"):
        killed_at(site, config, line)
    moved = site.douane(config, "storage", "migrate", "--json")
    assert moved.returncode == 0, moved.stderr
    serves = site.douane(site.folder / "douane.yaml", "serve")
    assert (serves.returncode, "nothing is served from here" in serves.stderr) == (2, True)
    with site.running(**site.in_postgres) as after:
        assert kept(after.running) == before.kept
        poster = before.require_same(after)
        require_good(after.running, "--checkpoint", str(site.folder / "data" / "checkpoint"))
        assert poster.legacy("tools/list", {}, ("Mcp-Session-Id", before.session)).status == 200
        after.running.rows("approvals", "allow", before.waits, "--note", "fine")
        assert Poster(after, "raw", name="asks").call("located", HELLO).refusal is None
    assert (site.folder / "data" / "kek.key").exists()
    back = tmp_path / "back"
    returned = site.douane(config, "storage", "migrate", "--back", str(back), "--json")
    assert returned.returncode == 0, returned.stderr
    assert json.loads(returned.stdout)["records"] > json.loads(moved.stdout)["records"]
    auth = {"auth": site.in_postgres["auth"]}
    with site.running(data_dir=str(back), storage={"kind": "sqlite"}, **auth) as last:
        before.require_same(last)
        moves = last.running.rows("audit", "query", "--where", "method = storage.migrate")
        ends = [json.loads(done.stdout) for done in (moved, returned)]
        told = [f"from {end['from']} to {end['to']}" for end in ends]
        assert sorted(one["reasons"][0]["message"] for one in moves) == sorted(told)
