"""Gateways whose people sign in somewhere else: at an OpenID provider, or at another server."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.process import RunningServer, free_ports
from tests.signin_e2e.authority import Authority
from tests.signin_e2e.documents import Documents
from tests.signin_e2e.house import House, egress, house
from tests.signin_e2e.providers import (
    CLIENT_ID,
    CLIENT_SECRET,
    Provider,
    authorization_server,
    openid_provider,
)

AT_A_PROVIDER = ("sign in", "continue", "approve")
"""What a person does who signs in and consents there, and consents here."""
AT_A_SERVER = ("sign in", "continue")


@dataclass(frozen=True, kw_only=True)
class Abroad:
    """A gateway, and where its people sign in."""

    house: House
    provider: Provider


@contextmanager
def federated(
    folder: Path, notes: RunningServer, documents: Documents, authority: Authority
) -> Iterator[Abroad]:
    """Run a gateway of `mode: federated`, and its provider."""
    ports = free_ports()
    back = f"http://127.0.0.1:{ports[0]}/sign-in/company/callback"
    with openid_provider(folder, back) as provider:
        company = {
            "issuer": provider.issuer,
            "client_id": CLIENT_ID,
            "client_secret": "env:COMPANY_SECRET",
            "groups": {"staff": ["users"], "secops": ["security"]},
        }
        with house(
            *(folder / "gateway", notes, documents),
            ports=ports,
            environment={"COMPANY_SECRET": CLIENT_SECRET},
            auth={"mode": "federated", "providers": {"company": company}},
            egress=egress(authority),
        ) as running:
            yield Abroad(house=running, provider=provider)


@contextmanager
def external(
    folder: Path, notes: RunningServer, documents: Documents, authority: Authority
) -> Iterator[Abroad]:
    """Run a gateway of `mode: external`, and the authorization server whose tokens it takes."""
    ports = free_ports()
    origin = f"http://127.0.0.1:{ports[0]}"
    resources = (f"{origin}/mcp/notes", f"{origin}/mcp/other")
    with authorization_server(folder, *resources) as provider:
        settings = {"issuer": provider.issuer, "groups": {"staff": ["users"]}}
        with house(
            *(folder / "gateway", notes, documents),
            ports=ports,
            auth={"mode": "external", "external": settings},
            egress=egress(authority),
        ) as running:
            yield Abroad(house=running, provider=provider)
