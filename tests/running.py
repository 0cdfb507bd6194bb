"""A real gateway in a process of its own, for tests, reports and the demo."""

import io
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.cli import main
from gateway.processes import end_now
from tests import backends, forks
from tests.forks import Process
from tests.servers.process import ROOT, free_ports

DOUANE = str(Path(sys.executable).parent / "douane")
ALL = "all"
"""No server's name in any test."""
EVERY_SCOPE = ("tools:list", "tools:call", "tools:write", "prompts", "resources")

_PATIENCE_S = 60.0
_LOOK_AGAIN_S = 0.2
_PATIENT_LOG = {"deadline": "30s"}
"""A disk that others write to as well may take longer than a caller should wait."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """A gateway that is ready, and the command line that speaks to it."""

    folder: Path
    config: Path
    url: str
    admin_url: str
    process: Process

    @property
    def log(self) -> str:
        """What the process has logged."""
        return (self.folder / "gateway.log").read_text(errors="replace")

    @property
    def shown(self) -> str:
        """What the process has told whoever started it, apart from its log."""
        return (self.folder / "gateway.out").read_text(errors="replace")

    def douane(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run the command line against this gateway."""
        words = ["--config", str(self.config), *arguments]
        return forks.run("gateway.cli", words, timeout=120) or subprocess.run(
            [DOUANE, *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        """Run a command that must succeed, and return the objects of its `--json` lines.

        The command line is the real one. In the main thread it has no process of its own: an
        interpreter's start is most of what a command takes, and a test has many to prepare what it
        is about. Standard output is everybody's, so that other threads are not to exchange it.
        """
        if threading.current_thread() is threading.main_thread():
            with ThreadPoolExecutor(1) as thread:  # a test's own event loop may run in this one
                done = thread.submit(_run_here, self.config, *arguments, "--json").result()
        else:
            done = self.douane(*arguments, "--json")
        if done.returncode != 0:
            raise RuntimeError(f"douane {' '.join(arguments)}: {done.stderr or done.stdout}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def client(
        self, server: str, *, name: str = "agent", scopes: tuple[str, ...] = EVERY_SCOPE
    ) -> dict[str, Any]:
        """Return the client of that name for `server`, registering it if need be.

        Everywhere here the server `ALL` is the endpoint in front of all of them.
        """
        kept = self.folder / f"{name}-{server}.json"
        if not kept.exists():
            options = [option for scope in scopes for option in ("--scope", scope)]
            (made,) = self.rows(
                *("clients", "add", f"{name}-{server}", "--grant", "client_credentials"),
                *("--resource", endpoint_of(server), *options),
            )
            kept.touch(mode=0o600)
            kept.write_text(json.dumps(made))
        found: dict[str, Any] = json.loads(kept.read_text())
        return found

    def token(
        self, server: str, *, name: str = "agent", scopes: tuple[str, ...] = EVERY_SCOPE
    ) -> str:
        """Return a fresh access token of that client for `server`."""
        return fetch_token(self.url, server, self.client(server, name=name, scopes=scopes))

    def approve_all(self, server: str) -> None:
        """Approve everything that `server` shows, as a person does.

        On a busy machine a server may not have answered in time, for one family of revisions or for
        both: it is asked again in a while.
        """
        deadline = time.monotonic() + _PATIENCE_S
        while not self.is_whole(server) and time.monotonic() < deadline:
            time.sleep(_LOOK_AGAIN_S)
        self.rows("pins", "approve", server, "--all", "--accept-risks", "--note", "for a test")

    def is_whole(self, server: str) -> bool:
        """Say whether all that `server` lists to everybody was read, the last time too."""
        (row,) = [row for row in self.rows("servers", "list") if row["server"] == server]
        return row["status"] == "connect" or bool(row["checked_at"] and not row["error"])


def _run_here(config: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    kept = io.BytesIO(), io.BytesIO()
    output, errors = (io.TextIOWrapper(each, encoding="utf-8", write_through=True) for each in kept)
    status: object = 0
    with redirect_stdout(output), redirect_stderr(errors):
        try:
            main(["--config", str(config), *arguments], prog_name="douane")
        except SystemExit as end:
            status = end.code
    told = [each.getvalue().decode() for each in kept]
    return subprocess.CompletedProcess(arguments, 0 if status in {0, None} else 1, *told)


def rules_in(policies: Path) -> Path:
    """Copy the shipped policies there, without their tests: these take seconds for every other policy."""
    ignored = shutil.ignore_patterns("*_test.rego", "cases")
    shutil.copytree(ROOT / "policies", policies, ignore=ignored)
    return policies


def endpoint_of(server: str) -> str:
    """Return the path of a server's endpoint."""
    return "/mcp" if server == ALL else f"/mcp/{server}"


def fetch_token(url: str, server: str, client: Mapping[str, Any], *, at: str = "") -> str:
    """Ask the gateway at `url` for a token (RFC 6749 section 4.4, RFC 8707).

    Of gateways behind one address it is the one `at` its own, where that is given.
    """
    form = {
        "grant_type": "client_credentials",
        "client_id": client["client_id"],
        "client_secret": client["client_secret"],
        "resource": url + endpoint_of(server),
    }
    data = urllib.parse.urlencode(form).encode()
    with urllib.request.urlopen(f"{at or url}/oauth/token", data, timeout=60) as answer:
        token: str = json.load(answer)["access_token"]
    return token


@contextmanager
def running_gateway(
    folder: Path,
    servers: Mapping[str, Mapping[str, Any]],
    *,
    policies: Path = ROOT / "policies",
    ports: tuple[int, int] | None = None,
    environment: Mapping[str, str] | None = None,
    program: Sequence[str] = (),
    **settings: Any,
) -> Iterator[Running]:
    """Run a gateway in front of `servers` (the contract's section) until the context ends.

    `settings` are further top-level keys of the configuration; with `tls` among them clients speak
    https, with the admin listener http all the same. `folder` holds the configuration,
    the data and the log, so the next gateway in it goes on where this one ended; what it keeps is where
    the run of the tests has it (`tests.backends`). `program` is run in place of `douane`, where it is given.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings = dict(backends.chosen(folder, servers, settings))
    port, admin_port = ports or free_ports()
    url = f"{'https' if 'tls' in settings else 'http'}://127.0.0.1:{port}"
    content = {
        "version": 1,
        "public_url": url,
        "listen": f"127.0.0.1:{port}",
        "admin_listen": f"127.0.0.1:{admin_port}",
        "data_dir": str(folder / "data"),
        "policy": {"path": str(policies)},
        **settings,
        "audit": {**_PATIENT_LOG, **settings.get("audit", {})},
        "servers": {name: dict(server) for name, server in servers.items()},
    }
    config = folder / "douane.yaml"
    config.write_text(json.dumps(content, indent=2))  # which is YAML as well
    with _process(folder, config, environment or {}, program) as process:
        gateway = Running(
            folder=folder,
            config=config,
            url=url,
            admin_url=f"http://127.0.0.1:{admin_port}",
            process=process,
        )
        wait_until_ready(gateway.admin_url, gateway.process, folder / "gateway.log")
        yield gateway


@contextmanager
def _process(
    folder: Path, config: Path, environment: Mapping[str, str], program: Sequence[str]
) -> Iterator[Process]:
    with (folder / "gateway.log").open("ab") as log, (folder / "gateway.out").open("ab") as output:
        words = ["--config", str(config), "serve"]
        forked = None
        if not program:
            forked = forks.start(
                "gateway.cli", words, output=output, errors=log, environment=environment
            )
        process: Process = forked or subprocess.Popen(
            [*(program or [DOUANE]), *words],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=output,
            stderr=log,
            # Ctrl-C reaches the whole group of a terminal; here each part is ended in order.
            start_new_session=True,
        )
        try:
            yield process
        finally:
            end_now(process, grace_s=40)


def wait_until_ready(
    admin_url: str, process: Process, log: Path, patience_s: float = 240.0
) -> None:
    """Return once the gateway whose admin listener is at `admin_url` is ready.

    Raises:
        RuntimeError: It ended, or took too long; the end of its log is told.

    """
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"{admin_url}/readyz", timeout=10).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    end = log.read_text(errors="replace")[-4000:]
    raise RuntimeError(f"the gateway did not become ready; its log ends:\n{end}")
