"""What is called: the echo server directly, and each of the proxies in front of it."""

import os
import shutil
import string
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.latency import fastmcp_proxy
from benchmarks.latency.upstream import TOOL
from benchmarks.report import ROOT
from tests.running import Running, running_gateway
from tests.servers.process import free_port, running

SERVER = "echo"
STATELESS, SESSIONS = "2026-07-28", "2025-11-25"
"""The eras: each call by itself, or in a session that began with a handshake."""
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
"""Where it is, if it is: in Debian, where only root's PATH leads to."""

_NGINX_CONFIG = Path(__file__).with_name("nginx.conf")

_READS_ARGUMENTS = """\
# A rule that looks at what is different in every call, so that no earlier decision can stand in.
package douane

deny contains {"code": "unwanted", "message": "this text is unwanted"} if {
	input.phase == "call"
	input.arguments.text == "unwanted"
}
"""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A server that is ready to be called."""

    name: str
    url: str
    pid: int | None = None
    """Of the process whose CPU time counts, with its descendants."""
    token: Callable[[], str] = str
    """Gives a fresh access token; none where nobody asks for one."""
    gateway: Running | None = None
    era: str = STATELESS
    """The revision in which it is called."""

    def in_sessions(self) -> "Target":
        """Return the same, called by clients of the older era."""
        return replace(self, name=f"{self.name}-sessions", era=SESSIONS)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to set the gateway up. Everything is on in each."""

    name: str
    """Short, as it is part of the path of a socket."""
    means: str
    durability: str = "process"
    policy: Mapping[str, Any] | None = None
    reads_arguments: bool = False
    rule: Mapping[str, Any] | None = None


VARIANTS = (
    Variant(name="process", means="audit.durability: process, the shipped policies, a read"),
    Variant(name="power", means="as process, with audit.durability: power", durability="power"),
    Variant(
        name="uncached",
        means="as process, with a policy that reads the arguments, different in every call",
        reads_arguments=True,
    ),
    Variant(
        name="flow",
        means="as process, with a tool that sends: its destination and payload are reviewed",
        rule={"effect": "egress", "destination": ["to"], "payload": ["text"]},
    ),
    Variant(
        name="opa",
        means="as process, with an OPA server that the gateway runs",
        policy={"engine": "opa", "opa": {"managed": True}},
    ),
)


@contextmanager
def targets(folder: Path) -> Iterator[list[Target]]:
    """Start the echo server and all that stands in front of it, in `folder`, until the end."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        port = free_port()
        command = [sys.executable, "-m", "benchmarks.latency.upstream", str(port)]
        upstream = stack.enter_context(running(command, {}, port, folder / "upstream.log"))
        fastmcp = {
            form: stack.enter_context(_fastmcp(folder, form, upstream.url))
            for form in fastmcp_proxy.FORMS
        }
        gateways = [
            stack.enter_context(_gateway(folder / variant.name, upstream.url, variant))
            for variant in VARIANTS
        ]
        yield [
            Target(name="direct", url=upstream.url),
            stack.enter_context(_nginx(folder / "nginx", port)),
            stack.enter_context(_proxy(folder, "bare", upstream.url)),
            *fastmcp.values(),
            fastmcp["shared"].in_sessions(),
            *gateways,
            gateways[0].in_sessions(),
        ]


@contextmanager
def _nginx(folder: Path, upstream: int) -> Iterator[Target]:
    folder.mkdir()
    port = free_port()
    config = folder / "nginx.conf"
    template = string.Template(_NGINX_CONFIG.read_text())
    config.write_text(template.substitute(folder=folder, port=port, upstream=upstream))
    command = [NGINX or "nginx", "-c", str(config), "-p", str(folder), "-e", "stderr"]
    with running(command, {}, port, folder / "nginx.log") as server:
        yield Target(name="nginx", url=server.url, pid=server.pid)


@contextmanager
def _proxy(folder: Path, name: str, upstream: str) -> Iterator[Target]:
    port = free_port()
    command = [sys.executable, "-m", f"benchmarks.latency.{name}_proxy", upstream, str(port)]
    with running(command, {}, port, folder / f"{name}.log") as server:
        yield Target(name=name, url=server.url, pid=server.pid)


@contextmanager
def _fastmcp(folder: Path, form: str, upstream: str) -> Iterator[Target]:
    port, name = free_port(), f"fastmcp-{form}"
    command = [sys.executable, "-m", "benchmarks.latency.fastmcp_proxy", form, upstream, str(port)]
    with running(command, fastmcp_proxy.environment(form), port, folder / f"{name}.log") as server:
        yield Target(name=name, url=server.url, pid=server.pid)


@contextmanager
def _gateway(folder: Path, upstream: str, variant: Variant) -> Iterator[Target]:
    folder.mkdir()
    policies = ROOT / "policies"
    if variant.reads_arguments:
        policies = shutil.copytree(policies, folder / "policies")
        (policies / "benchmark.rego").write_text(_READS_ARGUMENTS)
    server = {
        "url": upstream,
        "defaults": {"integrity": "trusted", "confidentiality": "internal"},
        "tools": {TOOL: variant.rule or {"effect": "read"}},
    }
    with running_gateway(
        folder,
        {SERVER: server},
        policy={"path": str(policies), **(variant.policy or {})},
        audit={"durability": variant.durability},
        tenant={"self": ["emma@example.com"]},
        limits={"calls_per_minute": 1_000_000_000},
    ) as gateway:
        gateway.approve_all(SERVER)
        yield Target(
            name=variant.name,
            url=f"{gateway.url}/mcp/{SERVER}",
            pid=gateway.process.pid,
            token=lambda: gateway.token(SERVER),
            gateway=gateway,
        )
