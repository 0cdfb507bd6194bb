"""What the reference servers show, asked of them over stdio: real definitions of every length."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from benchmarks.front.stage import LEGACY
from tests.servers.process import EVERYTHING, FILESYSTEM, GIT


def tools_of_reference_servers(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the definitions of three of them; `folder` is what they serve."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    commands = {
        "everything": ["node", str(EVERYTHING), "stdio"],
        "filesystem": ["node", str(FILESYSTEM), str(folder)],
        "git": [str(GIT), "--repository", str(folder)],
    }
    return {name: _listed(command) for name, command in commands.items()}


def _listed(command: Sequence[str]) -> list[dict[str, Any]]:
    client = {"name": "benchmark", "version": "1"}
    opening = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("pipes were asked for")
        _asked(process.stdin, process.stdout, 1, "initialize", opening)
        _say(process.stdin, {"method": "notifications/initialized"})
        tools: list[dict[str, Any]] = _asked(process.stdin, process.stdout, 2, "tools/list", {})[
            "tools"
        ]
        process.stdin.close()
        process.terminate()
    return tools


def _asked(into: IO[str], out: IO[str], id_: int, method: str, params: Any) -> Any:
    _say(into, {"id": id_, "method": method, "params": params})
    for line in out:
        message = json.loads(line)
        if message.get("id") == id_ and "method" not in message:
            return message["result"]
    raise RuntimeError(f"{method} has no answer")


def _say(into: IO[str], message: dict[str, Any]) -> None:
    into.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    into.flush()
