"""A gateway process for one suite, between a host and recorded servers."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.flow.host import Host, RefusedStepError
from benchmarks.flow.outcome import Outcome
from benchmarks.flow.traces import Step, Suite, Trace
from benchmarks.flow.upstream import RecordedServers, listening
from benchmarks.report import ROOT
from gateway.cli.connection import connect
from gateway.config import load
from tests.e2e.planes import key_of, registered
from tests.running import Running, running_gateway
from tests.servers.plane import Edge, carrying
from tests.servers.process import free_port

SCOPES = ("tools:list", "tools:call", "tools:write")
"""All that calls need: what is refused is refused for its flow."""

AT_ONCE = 12
"""Conversations that go on at the same time."""

_SETTINGS: Mapping[str, Any] = {
    # A figure here is no figure of the disk's, nor of how busy the machine is, and a host does not call
    # faster than it may.
    "audit": {"durability": "process", "deadline": "60s"},
    "limits": {"calls_per_minute": 1_000_000_000},
}
_OURS = {"version", "public_url", "listen", "admin_listen", "data_dir", "policy", "servers"}
_PLANE: Mapping[str, Any] = {"scopes": list(SCOPES), "tasks": True, "duties": ["replace_result"]}
_PATIENCE = aiohttp.ClientTimeout(total=60)


class GatewayFailed(Exception):
    """A gateway did not start with what it was given, or did not take the tools; says why."""


class Stage:
    """A gateway that is ready, with the tools of a suite approved."""

    def __init__(
        self,
        gateway: Running,
        servers: RecordedServers,
        http: aiohttp.ClientSession,
        *,
        declared: bool,
        sessions: bool,
        by: str = "",
        plane: str = "",
    ) -> None:
        """`by` is the URL of whatever carries calls, if that is not the gateway; `plane` of one that could."""
        self.gateway = gateway
        self._by = by
        self._plane = plane
        self._servers = servers
        self._http = http
        self._declared = declared
        self._sessions = sessions
        self._ids = count()

    def without_sessions(self) -> "Stage":
        """Return the same gateway with clients that speak the stateless revision."""
        return self._otherwise(sessions=False)

    def by_plane(self) -> "Stage":
        """Return the same gateway behind a plane that asks it, and carries calls itself."""
        return self._otherwise(by=self._plane)

    def _otherwise(self, **different: Any) -> "Stage":
        same = {"declared": self._declared, "sessions": self._sessions, "by": self._by}
        return Stage(
            self.gateway, self._servers, self._http, **{**same, "plane": self._plane, **different}
        )

    async def play(self, conversations: Sequence[Sequence[Trace]]) -> list[list[list[Outcome]]]:
        """Play each conversation, one trace after the other, as one client that is new to us.

        Many go on at once; what is returned is in the order of `conversations`: by trace, by step.
        """
        clients = await asyncio.to_thread(self.registered, len(conversations))
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(client: Mapping[str, Any], traces: Sequence[Trace]) -> list[list[Outcome]]:
            async with turns:
                return await self._conversation(client, traces)

        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(one(client, traces))
                for client, traces in zip(clients, conversations, strict=True)
            ]
        return [task.result() for task in tasks]

    def registered(
        self, number: int, *, resources: Sequence[str] = (), scopes: Sequence[str] = SCOPES
    ) -> list[Mapping[str, Any]]:
        """Register so many clients as an administrator does, over the gateway's own socket.

        `resources` are endpoints; those of every server, unless given.
        """
        config = load(self.gateway.config)
        with connect(config) as gateway:
            return [
                gateway.call(
                    "clients.add",
                    name=f"host-{secrets.token_hex(8)}",
                    resources=list(resources) or [f"/mcp/{server}" for server in config.servers],
                    scopes=list(scopes),
                    trusted_host=self._declared,
                )
                for _ in range(number)
            ]

    def host(self, client: Mapping[str, Any]) -> Host:
        """Return a new conversation of a registered client."""
        return Host(self._http, self.gateway.url, client, sessions=self._sessions, by=self._by)

    async def call(
        self, host: Host, step: Step, trace: Trace, expected: Sequence[Step]
    ) -> tuple[Mapping[str, Any], list[bool]]:
        """Make a call for the task of `trace`, while the steps that it may lead to are expected.

        Returns what answered it, and which of these steps reached their server.
        """
        id_ = f"step-{next(self._ids)}"
        task = {"douane/task": {"prompt": trace.prompt}} if self._declared else {}
        async with self._servers.expecting(expected) as steps:
            try:
                answer = await host.call(step, id_, task)
            except (aiohttp.ClientError, TimeoutError, RefusedStepError) as error:
                answer = {"error": {"data": {"code": f"{type(error).__name__}: {error}"}}}
            return answer, [arrived for _, arrived in steps]

    async def _conversation(
        self, client: Mapping[str, Any], traces: Sequence[Trace]
    ) -> list[list[Outcome]]:
        host = self.host(client)
        played = [
            [await self._outcome(host, trace, step) for step in trace.steps] for trace in traces
        ]
        await host.end()
        return played

    async def _outcome(self, host: Host, trace: Trace, step: Step) -> Outcome:
        answer, (executed,) = await self.call(host, step, trace, [step])
        return Outcome.of(step, answer, executed=executed)


@asynccontextmanager
async def staged(
    folder: Path,
    suite: Suite,
    *,
    settings: Mapping[str, Any] | None = None,
    declared: bool = False,
    sessions: bool = True,
    plane: bool = False,
    policies: Path = ROOT / "policies",
) -> AsyncIterator[Stage]:
    """Run a gateway in `folder` before the tools of `suite`, all approved, until the context ends.

    `settings` are those of the suite, unless given. `declared`: its clients are hosts that are
    trusted to declare the user's task, and do. Without `sessions` they speak the stateless revision.
    With `plane` there is a reference plane beside it, for `Stage.by_plane`.

    Raises:
        GatewayFailed: It did not come up, or not with these tools.

    """
    given = suite.settings if settings is None else settings
    port = free_port()
    recorded = RecordedServers(suite.tools)
    servers = {
        name: {**(server or {}), "url": f"http://127.0.0.1:{port}/{name}/mcp"}
        for name, server in given["servers"].items()
    }
    others = {key: part for key, part in given.items() if key not in _OURS}
    if plane:
        about = {**_PLANE, "servers": {name: name for name in servers}}
        others["planes"] = {"authzen": registered(folder, edge=about)}
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(listening(recorded, port))
        running = running_gateway(folder, servers, policies=policies, **_merged(others, _SETTINGS))
        # The gateway asks the servers, which answer in this very loop, for their tools.
        try:
            gateway = await asyncio.to_thread(running.__enter__)
            stack.push_async_callback(asyncio.to_thread, running.__exit__, None, None, None)
            await asyncio.gather(
                *(asyncio.to_thread(gateway.approve_all, server) for server in suite.tools)
            )
        except RuntimeError as error:
            raise GatewayFailed(str(error)) from error
        connector = aiohttp.TCPConnector(limit=0)
        http = await stack.enter_async_context(
            aiohttp.ClientSession(connector=connector, timeout=_PATIENCE)
        )
        by = ""
        if plane:
            urls = {name: server["url"] for name, server in servers.items()}
            edge = Edge(douane=gateway.url, key=key_of("edge"), servers=urls)
            by = await stack.enter_async_context(carrying(edge, free_port()))
        yield Stage(gateway, recorded, http, declared=declared, sessions=sessions, plane=by)


def _merged(content: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `content` with `over` laid over it, section by section."""
    return {**content, **{key: {**(content.get(key) or {}), **part} for key, part in over.items()}}
