"""`make hosts-report`: hosts on real frameworks, and what a real gateway has recorded of them.

Each program of `hosts/python/examples` carries out two requests of a person. Each request has to
be one declared task in a run of its own, which has seen nothing of the other's.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.report import ROOT, print_table, write_report
from tests.e2e.hosts import CLEAN, Host
from tests.e2e.own import own_gateway
from tests.e2e.scripted import raw_in_a_thread
from tests.e2e.site import Corridor

PYTHON = ROOT / "hosts" / "python"
V2, V1 = ROOT / "var" / "hosts", ROOT / "var" / "hosts-v1"
EXAMPLES: Mapping[str, tuple[Path, str]] = {
    "sdk": (V2, "mcp"),
    "fastmcp_client": (V2, "fastmcp"),
    "openai_agents": (V2, "openai-agents"),
    "pydantic_ai_agent": (V2, "pydantic-ai-slim"),
    "claude_agent": (V2, "claude-agent-sdk"),
    "sdk_v1": (V1, "mcp"),
    "langchain": (V1, "langchain-mcp-adapters"),
}
"""By program: what it is installed in, and what it is about."""

REQUESTS = ("Fetch the page.", "Fetch the page once more.")
_PLAYED_S = 120


def main() -> int:
    """Play every example; return 1 if the record of one is not as it is promised."""
    failures: list[str] = []
    rows = []
    with (
        tempfile.TemporaryDirectory() as folder,
        raw_in_a_thread() as raw,
        own_gateway(Path(folder), raw, ROOT / "policies") as gateway,
    ):
        for name, (place, package) in EXAMPLES.items():
            problem = _played(gateway, name, place)
            failures += [f"{name}: {problem}"] if problem else []
            version = _version(place, package)
            rows.append((name, f"{package} {version}", "FAILED" if problem else "declares"))
    print_table(("host", "with", ""), rows)
    return write_report(
        "hosts",
        {row[0]: float(row[2] == "declares") for row in rows},
        failures,
        [
            "no model was asked, and a program asked what Claude Code asks",
            *(f"{name}: {version}" for name, version, _ in rows),
        ],
        summary=f"{len(rows) - len(failures)} of {len(rows)} hosts declare",
    )


def _played(gateway: Corridor, name: str, place: Path) -> str:
    """Return what is wrong with the record of an example; nothing if it is as it is promised."""
    host = Host(gateway, name.replace("_", "-"), "--trusted-host", endpoints=("raw",))
    url, headers = host.at("raw")
    done = subprocess.run(
        [str(place / "bin" / "python"), str(PYTHON / "examples" / "play.py"), name, *REQUESTS],
        env={
            **os.environ,
            "PYTHONPATH": str(PYTHON),
            "DOUANE_URL": url,
            "DOUANE_TOKEN": headers["Authorization"].removeprefix("Bearer "),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=_PLAYED_S,
    )
    if done.returncode != 0:
        return done.stderr.strip()[-2000:]
    return wrong(host)


def wrong(host: Host) -> str:
    """Return what of two requests, each of one call, is not on record as it is promised."""
    wanted = [
        (what, "counted", run)
        for run in range(len(REQUESTS))
        for what in ("begun", "page", "ended")
    ]
    if host.told != wanted:
        return f"{host.told} is on record"
    before = [row["label_before"] for row in host.record() if row["kind"] == "intent"]
    return "" if before == [CLEAN] * len(REQUESTS) else f"labels before: {before}"


def _version(place: Path, package: str) -> str:
    ask = f"from importlib.metadata import version; print(version({package!r}))"
    done = subprocess.run(
        [str(place / "bin" / "python"), "-c", ask], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
