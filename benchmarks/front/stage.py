"""A real gateway in front of any number of servers, and a client of its one endpoint."""

import http.client
import itertools
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from gateway.cli.connection import connect
from gateway.config import load
from gateway.domain.tools import Profile
from tests.running import ALL, EVERY_SCOPE, Running, running_gateway
from tests.servers.process import free_port, running

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
_PROCESSES = 4
_PATIENCE_S = 60.0
_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
OURS = {"integrity": "trusted", "confidentiality": "internal"}

Tools = Mapping[str, Sequence[Mapping[str, Any]]]
"""Definitions by server."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A gateway whose servers' definitions are approved."""

    gateway: Running
    origins: Mapping[str, str]
    """Where the process of each server listens."""

    def front(self, *, legacy: bool = False, name: str = "agent") -> "Front":
        """Return a client, with a connection of its own, that is signed in at `/mcp`."""
        token = self.gateway.token(ALL, name=name, scopes=EVERY_SCOPE)
        return Front(self.gateway.url, token, legacy=legacy)

    def tell(self, server: str, word: str) -> None:
        """Have a server `hang`, or `answer` again."""
        place = urlsplit(self.origins[server])
        connection = http.client.HTTPConnection(place.netloc, timeout=10)
        connection.request("POST", f"/{server}/{word}")
        connection.getresponse().read()
        connection.close()


@contextmanager
def staged(folder: Path, tools: Tools, **settings: Any) -> Iterator[Stage]:
    """Run a gateway in front of servers with these tools; `settings` are keys of its configuration."""
    names = list(tools)
    shares = [names[first::_PROCESSES] for first in range(_PROCESSES)]
    with ExitStack() as stack:
        origins: dict[str, str] = {}
        for number, share in enumerate(filter(None, shares)):
            origin = stack.enter_context(_process(folder, number, {n: tools[n] for n in share}))
            origins |= dict.fromkeys(share, origin)
        servers = {name: {"url": f"{origins[name]}/{name}/mcp", "defaults": OURS} for name in names}
        gateway = stack.enter_context(
            running_gateway(
                folder / "gateway",
                servers,
                limits={"calls_per_minute": 1_000_000},
                pins={"recheck": "1h", "fresh": "1h"},
                **settings,
            )
        )
        approve(gateway, names)
        yield Stage(gateway=gateway, origins=origins)


@contextmanager
def _process(folder: Path, number: int, tools: Tools) -> Iterator[str]:
    folder.mkdir(parents=True, exist_ok=True)
    listed = folder / f"tools-{number}.json"
    listed.write_text(json.dumps(tools))
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.front.servers", str(port), str(listed)]
    with running(command, {}, port, folder / f"servers-{number}.log") as server:
        yield server.origin


def approve(gateway: Running, servers: Sequence[str]) -> None:
    """Approve all that the servers show, as a person does, once they have shown it in both families.

    Raises:
        RuntimeError: One of them has not within a minute.

    """
    deadline = time.monotonic() + _PATIENCE_S
    with connect(load(gateway.config, {})) as connection:
        for server in servers:
            while not _is_read(connection.call("servers.list"), server):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{server} was not read")
                time.sleep(0.2)
            rows = connection.call("pins.review", server=server)
            reviewed = [
                {
                    **{member: row[member] for member in ("kind", "name", "profile")},
                    "digest": row["observed_digest"],
                    "address": row["observed_address"],
                }
                for row in rows
            ]
            connection.call(
                "pins.approve", server=server, reviewed=reviewed, note="", expires_s=None
            )


def _is_read(rows: Sequence[Mapping[str, Any]], server: str) -> bool:
    """Whether all that a server shows is known; it need not show a tool that can be pinned."""
    (row,) = (row for row in rows if row["server"] == server)
    return row["status"] == "ok" and len(row["profiles"]) == len(Profile)


class Front:
    """A client of `/mcp` on one connection, in either family of revisions."""

    def __init__(self, url: str, token: str, *, legacy: bool = False) -> None:
        place = urlsplit(url)
        self._connection = http.client.HTTPConnection(place.netloc, timeout=60)
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": LEGACY if legacy else MODERN,
        }
        self._legacy = legacy
        self._numbers = itertools.count(1)
        if legacy:
            self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of one request.

        Raises:
            RuntimeError: It was answered with an error.

        """
        if not self._legacy:
            params["_meta"] = _META
        message = self._send(
            {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}
        )
        if "result" not in message:
            raise RuntimeError(f"{method}: {message}")
        result: dict[str, Any] = message["result"]
        return result

    def use(self, tool: str, **arguments: Any) -> str:
        """Return the text that a tool answers.

        Raises:
            RuntimeError: It failed, or was refused.

        """
        result = self.ask("tools/call", name=tool, arguments=arguments)
        text: str = result["content"][0]["text"]
        if result.get("isError"):
            raise RuntimeError(f"{tool}: {text}")
        return text

    def tools(self) -> list[dict[str, Any]]:
        """Return every tool that is listed, from every page."""
        return self._all("tools/list", "tools")

    def resources(self) -> list[dict[str, Any]]:
        """Return every resource that is listed, from every page."""
        return self._all("resources/list", "resources")

    def _all(self, method: str, member: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        page = self.ask(method)
        found += page[member]
        while "nextCursor" in page:
            page = self.ask(method, cursor=page["nextCursor"])
            found += page[member]
        return found

    def _begin(self) -> None:
        client = {"name": "benchmark", "version": "1"}
        asked = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client}
        self.ask("initialize", **asked)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _send(self, message: Mapping[str, Any]) -> dict[str, Any]:
        mirrored: dict[str, str] = {}
        if not self._legacy:
            mirrored["Mcp-Method"] = message["method"]
            named = message["params"].get("name") or message["params"].get("uri")
            if named:
                mirrored["Mcp-Name"] = named
        body = json.dumps(message).encode()
        self._connection.request("POST", "/mcp", body, {**self._headers, **mirrored})
        answer = self._connection.getresponse()
        octets = answer.read()
        session = answer.getheader("Mcp-Session-Id")
        if session:
            self._headers["Mcp-Session-Id"] = session
        if (answer.getheader("Content-Type") or "").startswith("text/event-stream"):
            lines = octets.decode().splitlines()
            data = [line.removeprefix("data:") for line in lines if line.startswith("data:")]
            octets = data[-1].encode()
        found: dict[str, Any] = json.loads(octets) if octets else {}
        return found
