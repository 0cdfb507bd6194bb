"""What the suite runs against: the fixture, and the gateway in front of it with everything on."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.conformance.renaming import ENDPOINT, renaming
from tests.running import ALL, Running, fetch_token, running_gateway
from tests.servers import process
from tests.servers.conformance_tasks import TASKS
from tests.servers.conformance_tools import TOOLS
from tests.servers.process import ROOT, free_port

SERVER = "fixture"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Everything runs, and everything that the fixture shows is approved."""

    gateway: Running
    direct: str
    """The fixture's own endpoint."""
    through: str
    """Its endpoint at the gateway, where a client is signed in."""
    front: str
    """The endpoint in front of all servers, where it is the only one, under its own names."""


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    """Start the fixture, the gateway and the shim; they end with the context.

    Authentication, pins and audit are as in any installation. The limit of calls a minute is raised,
    the fixture's tools are labelled as harmless, and the rules of flow observe: the suite reads a
    resource that nobody has named, which without a session a person would be asked about.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port, *listen = free_port(), free_port(), free_port()
    with process.conformance(folder) as fixture:
        server = {
            "url": fixture.url,
            "defaults": {"integrity": "trusted", "confidentiality": "internal"},
            "extensions": [TASKS],
            "tools": {name: {"effect": "read"} for name in TOOLS},
        }
        with running_gateway(
            folder / "gateway",
            {SERVER: server},
            ports=(listen[0], listen[1]),
            # Clients see the gateway where the shim listens, as they would behind any proxy.
            public_url=f"http://127.0.0.1:{port}",
            limits={"calls_per_minute": 1_000_000},
            tasks={"poll_floor": "100ms"},
            policies=_observing(folder / "policies"),
        ) as gateway:
            gateway.approve_all(SERVER)
            client = gateway.client(SERVER)
            with renaming(port, listen[0], SERVER) as proxy:
                proxy.token = fetch_token(proxy.url, SERVER, client)
                proxy.front_token = fetch_token(proxy.url, ALL, gateway.client(ALL))
                yield Stage(
                    gateway=gateway,
                    direct=fixture.url,
                    through=f"{proxy.url}/mcp/{SERVER}",
                    front=f"{proxy.url}{ENDPOINT}",
                )


def _observing(folder: Path) -> Path:
    """Return a copy of the shipped policies whose rules of flow report, and do not act."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(
        ROOT / "policies", folder, ignore=shutil.ignore_patterns("*_test.rego", "cases")
    )
    data = folder / "data.yaml"
    text = data.read_text(encoding="utf-8")
    data.write_text(text.replace("profile: default", "profile: observe", 1), encoding="utf-8")
    return folder
