"""What the suite runs against: the fixture, and the gateway in front of it with everything on."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.conformance.renaming import ENDPOINT, renaming
from tests.running import ALL, Running, fetch_token, running_gateway
from tests.servers import process
from tests.servers.conformance_tools import TOOLS
from tests.servers.process import free_port

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

    Authentication, the shipped policies, pins, flow and audit are as in any installation; only
    the limit of calls a minute is raised, and the fixture's tools are labelled as harmless.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port, *listen = free_port(), free_port(), free_port()
    with process.conformance(folder) as fixture:
        server = {
            "url": fixture.url,
            "defaults": {"integrity": "trusted", "confidentiality": "internal"},
            "tools": {name: {"effect": "read"} for name in TOOLS},
        }
        with running_gateway(
            folder / "gateway",
            {SERVER: server},
            ports=(listen[0], listen[1]),
            # Clients see the gateway where the shim listens, as they would behind any proxy.
            public_url=f"http://127.0.0.1:{port}",
            limits={"calls_per_minute": 1_000_000},
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
