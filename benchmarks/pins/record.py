"""Start real releases of public servers and store what each shows: `benchmarks/pins/releases`."""

import asyncio
import gzip
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from benchmarks.pins.releases import FOLDER, SOURCES

REVISION = "2025-11-25"
"""What the recorder offers in `initialize`; an older server answers with its own."""

LISTS = {
    "tools": ("tools/list", "tools", "tool"),
    "prompts": ("prompts/list", "prompts", "prompt"),
    "resources": ("resources/templates/list", "resourceTemplates", "template"),
}
"""By capability: the request, the result's member, and the kind of pin."""

INSTALL_S = 300
ANSWER_S = 30
MOST_PAGES = 50


@dataclass(frozen=True)
class Release:
    """One version of one package, and how it is started."""

    package: str
    registry: str
    command: Sequence[str]
    version: str
    beside: Sequence[str]
    """What is installed with it, as the registry's client spells it."""


class NotRecorded(Exception):
    """A release could not be installed, or does not answer."""


def main(names: Sequence[str]) -> int:
    """Record the servers called `names`, or all; return 1 if a release could not be."""
    failed = 0
    for server in tomllib.loads(SOURCES.read_text())["server"]:
        if names and server["name"] not in names:
            continue
        rows = []
        for one in server["releases"]:
            release = Release(
                package=server["package"],
                registry=server["registry"],
                command=server["command"],
                version=one["version"],
                beside=one.get("with", ()),
            )
            try:
                rows.append({"server": server["name"], **recorded(release)})
            except NotRecorded as error:
                failed += 1
                print(f"{release.package} {release.version}: {error}", file=sys.stderr)
        _store(FOLDER / f"{server['name']}.jsonl.gz", rows)
    return 1 if failed else 0


def recorded(release: Release) -> dict[str, Any]:
    """Install `release` in a folder of its own, start it there, and return what it shows.

    Raises:
        NotRecorded: It could not be installed, or does not answer.

    """
    with tempfile.TemporaryDirectory(prefix="release-") as name:
        folder = Path(name)
        (folder / "home").mkdir()
        parameters = _installed(release, folder)
        with (folder / "stderr").open("w") as errors:
            try:
                shown = asyncio.run(shown_by(parameters, errors))
            except (ExceptionGroup, OSError) as error:
                told = (folder / "stderr").read_text()[-300:]
                raise NotRecorded(f"does not answer: {told}") from error
        return {"version": release.version, "sdk": _sdk(folder), "shows": shown}


def _installed(release: Release, folder: Path) -> StdioServerParameters:
    environment = {"HOME": str(folder / "home")}
    if release.registry == "npm":
        install = ["npm", "install", "--prefix", str(folder), "--ignore-scripts", "--no-audit"]
        install += ["--no-fund", "--silent", f"{release.package}@{release.version}"]
        command, *arguments = release.command
        command = str(folder / "node_modules" / ".bin" / command)
    else:
        library = str(folder / "library")
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", library]
        install += [f"{release.package}=={release.version}"]
        command, arguments = sys.executable, ["-m", *release.command]
        environment["PYTHONPATH"] = library
    try:
        subprocess.run(
            [*install, *release.beside], check=True, capture_output=True, timeout=INSTALL_S
        )
    except (subprocess.SubprocessError, OSError) as error:
        raise NotRecorded(f"not installed: {error}") from error
    return StdioServerParameters(
        command=command, args=arguments, env=environment, cwd=folder / "home"
    )


def _sdk(folder: Path) -> str:
    """Return the version of the SDK that was installed with it; empty if that is not known."""
    manifest = folder / "node_modules" / "@modelcontextprotocol" / "sdk" / "package.json"
    if manifest.exists():
        return str(json.loads(manifest.read_text())["version"])
    found = [path.name for path in folder.glob("library/mcp-*.dist-info")]
    return found[0].removeprefix("mcp-").removesuffix(".dist-info") if found else ""


async def shown_by(parameters: StdioServerParameters, errors: Any) -> dict[str, list[Any]]:
    """Return what the server says of itself and every list that it has, by kind, as raw JSON.

    Raises:
        ExceptionGroup: It does not answer, or its list does not end.
        OSError: It cannot be started.

    """
    async with stdio_client(parameters, errlog=errors) as (incoming, outgoing):
        asked = 0

        async def ask(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
            nonlocal asked
            asked += 1
            request = JSONRPCRequest(jsonrpc="2.0", id=asked, method=method, params=dict(params))
            await outgoing.send(SessionMessage(request))
            async with asyncio.timeout(ANSWER_S):
                async for message in incoming:
                    answer = getattr(message, "message", None)
                    if isinstance(answer, JSONRPCResponse) and answer.id == asked:
                        return dict(answer.result)
                    if isinstance(answer, JSONRPCError) and answer.id == asked:
                        raise EOFError(f"{method}: {answer.error.message}")
            raise EOFError(f"{method}: no answer")

        client = {"name": "recorder", "version": "1"}
        offered = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client}
        server = await ask("initialize", offered)
        ready = JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")
        await outgoing.send(SessionMessage(ready))
        shown: dict[str, list[Any]] = {"server": [server]}
        for capability, (method, member, kind) in LISTS.items():
            if capability in server["capabilities"]:
                shown[kind] = await _pages(ask, method, member)
        return shown


async def _pages(ask: Any, method: str, member: str) -> list[Any]:
    items: list[Any] = []
    params: dict[str, Any] = {}
    for _ in range(MOST_PAGES):
        page = await ask(method, params)
        items += page[member]
        if not page.get("nextCursor"):
            return items
        params = {"cursor": page["nextCursor"]}
    raise EOFError(f"{method} does not end")


def _store(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    text = "".join(f"{json.dumps(row, separators=(',', ':'))}\n" for row in rows)
    # No time and no name inside: the same answers make the same file.
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
