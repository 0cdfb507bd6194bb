"""What is called: the echo server directly, and each of the proxies in front of it."""

import shutil
import string
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.latency import fastmcp_proxy
from benchmarks.latency.upstream import TOOL
from benchmarks.report import ROOT
from tests.running import ALL, Running, running_gateway
from tests.servers import process
from tests.servers.process import free_port, running

SERVER = "echo"
STATELESS, SESSIONS = "2026-07-28", "2025-11-25"
"""The eras: each call by itself, or in a session that began with a handshake."""
NO_LIMITS = {"calls_per_minute": 1_000_000_000}
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
    tokens: Callable[[], Sequence[str]] = tuple
    """Gives fresh access tokens, which callers take in turn; none where nobody asks for one."""
    gateway: Running | None = None
    era: str = STATELESS
    """The revision in which it is called."""
    tool: str = TOOL
    """What it calls the echo server's tool."""
    streamed: bool = False
    """Whether callers ask for news of each call."""
    upstream: int | None = None
    """The process of the server behind it."""

    def in_sessions(self) -> "Target":
        """Return the same, called by clients of the older era."""
        return replace(self, name=_named(self.name, "-sessions"), era=SESSIONS)

    def at(self, path: str, shape: str) -> "Target":
        """Return the same, called at another path, at which answers are of `shape`."""
        base, _, _ = self.url.rpartition("/mcp")
        return replace(self, name=f"{self.name}@{shape}", url=f"{base}/mcp{path}")


def _named(name: str, more: str) -> str:
    base, at, shape = name.partition("@")
    return f"{base}{more}{at}{shape}"


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


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What answers look like: where the echo server gives such, and how that is called here."""

    name: str
    path: str
    streamed: bool = False


ANSWERS = (
    Answers(name="1k", path="/b1024"),
    Answers(name="64k", path="/b65536"),
    Answers(name="streamed", path="/b1024/streamed", streamed=True),
)


@contextmanager
def targets(folder: Path, answers: Sequence[Answers] = ()) -> Iterator[list[Target]]:
    """Start the echo server and all that stands in front of it, in `folder`, until the end.

    Beside its small answers, those of `answers` come through what is fastest and through one gateway.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        port, upstream = stack.enter_context(echo_server(folder))
        url = f"http://127.0.0.1:{port}/mcp"
        fastmcp = {
            form: stack.enter_context(_fastmcp(folder, form, url)) for form in fastmcp_proxy.FORMS
        }
        gateways = [
            stack.enter_context(_gateway(folder / variant.name, url, variant))
            for variant in VARIANTS
        ]
        direct = Target(name="direct", url=url)
        nginx = stack.enter_context(_nginx(folder / "nginx", port))
        found = [
            direct,
            nginx,
            stack.enter_context(_proxy(folder, "bare", url)),
            *fastmcp.values(),
            fastmcp["shared"].in_sessions(),
            *gateways,
            gateways[0].in_sessions(),
            _in_front(gateways[0]),
        ]
        if answers:
            shapes = stack.enter_context(_shapes(folder, url, answers))
            for one in answers:
                proxy = stack.enter_context(
                    _fastmcp(folder, "shared", url + one.path, shape=one.name, streams=one.streamed)
                )
                shaped = [
                    direct.at(one.path, one.name),
                    nginx.at(one.path, one.name),
                    *(proxy, proxy.in_sessions()),
                    *(shapes[one.name], shapes[one.name].in_sessions()),
                ]
                found += [replace(target, streamed=one.streamed) for target in shaped]
        yield [replace(target, upstream=upstream) for target in found]


@contextmanager
def echo_server(folder: Path) -> Iterator[tuple[int, int]]:
    """Start the server that all of it is about; its port and its process."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.latency.upstream", str(port)]
    with running(command, {}, port, folder / "upstream.log") as server:
        yield port, server.pid


def _in_front(target: Target) -> Target:
    """Return the same gateway, called at `/mcp`, where names begin with the server's."""
    gateway = target.gateway
    if gateway is None:
        raise ValueError(f"{target.name} is no gateway")
    return replace(
        target,
        name=f"{target.name}-front",
        url=f"{gateway.url}/mcp",
        tokens=lambda: (gateway.token(ALL),),
        tool=f"{SERVER}__{TOOL}",
    )


@contextmanager
def _shapes(folder: Path, url: str, answers: Sequence[Answers]) -> Iterator[dict[str, Target]]:
    """Start one gateway in front of the server's answers of every shape; its targets by shape."""
    servers = {one.name: server_at(url + one.path) for one in answers}
    settings: dict[str, Any] = {"limits": NO_LIMITS, "audit": {"durability": "process"}}
    with running_gateway(folder / "shapes", servers, **settings) as gateway:
        for name in servers:
            gateway.approve_all(name)

        def tokens_of(name: str) -> Callable[[], Sequence[str]]:
            return lambda: (gateway.token(name),)

        yield {
            name: Target(
                name=f"process@{name}",
                url=f"{gateway.url}/mcp/{name}",
                pid=gateway.process.pid,
                tokens=tokens_of(name),
                gateway=gateway,
            )
            for name in servers
        }


def server_at(url: str, rule: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return how a gateway is told of the echo server."""
    return {
        "url": url,
        "defaults": {"integrity": "trusted", "confidentiality": "internal"},
        "tools": {TOOL: rule or {"effect": "read"}},
    }


@contextmanager
def _nginx(folder: Path, upstream: int) -> Iterator[Target]:
    folder.mkdir()
    port = free_port()
    template = string.Template(_NGINX_CONFIG.read_text())
    config = template.substitute(folder=folder, port=port, upstream=upstream)
    with process.nginx(folder, config, port=port) as server:
        yield Target(name="nginx", url=server.url, pid=server.pid)


@contextmanager
def _proxy(folder: Path, name: str, upstream: str) -> Iterator[Target]:
    port = free_port()
    command = [sys.executable, "-m", f"benchmarks.latency.{name}_proxy", upstream, str(port)]
    with running(command, {}, port, folder / f"{name}.log") as server:
        yield Target(name=name, url=server.url, pid=server.pid)


@contextmanager
def _fastmcp(
    folder: Path, form: str, upstream: str, *, shape: str = "", streams: bool = False
) -> Iterator[Target]:
    port, name = free_port(), f"fastmcp-{form}" + (f"@{shape}" if shape else "")
    command = [sys.executable, "-m", "benchmarks.latency.fastmcp_proxy", form, upstream, str(port)]
    command += ["streams"] * streams
    with running(command, fastmcp_proxy.environment(form), port, folder / f"{name}.log") as server:
        yield Target(name=name, url=server.url, pid=server.pid)


@contextmanager
def _gateway(folder: Path, upstream: str, variant: Variant) -> Iterator[Target]:
    folder.mkdir()
    policies = ROOT / "policies"
    if variant.reads_arguments:
        policies = shutil.copytree(policies, folder / "policies")
        (policies / "benchmark.rego").write_text(_READS_ARGUMENTS)
    with running_gateway(
        folder,
        {SERVER: server_at(upstream, variant.rule)},
        policy={"path": str(policies), **(variant.policy or {})},
        audit={"durability": variant.durability},
        tenant={"self": ["emma@example.com"]},
        limits=NO_LIMITS,
    ) as gateway:
        gateway.approve_all(SERVER)
        yield Target(
            name=variant.name,
            url=f"{gateway.url}/mcp/{SERVER}",
            pid=gateway.process.pid,
            tokens=lambda: (gateway.token(SERVER),),
            gateway=gateway,
        )
