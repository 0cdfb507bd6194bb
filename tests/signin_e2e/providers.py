"""An OpenID provider and a foreign authorization server, as processes of their own."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.process import ROOT, RunningServer, free_port, running
from tests.signin_e2e.node_clients import node

_SCRIPTS = ROOT / "tests" / "node"
CLIENT_ID = "douane"
CLIENT_SECRET = "a secret between the gateway and the provider"


@dataclass(frozen=True, kw_only=True)
class Provider:
    """A provider that accepts connections."""

    issuer: str
    server: RunningServer


@contextmanager
def openid_provider(logs: Path, redirect_uri: str) -> Iterator[Provider]:
    """Run a provider whose one client is sent back to `redirect_uri`."""
    port = free_port()
    command = [node(), str(_SCRIPTS / "openid-provider.mjs"), str(port), redirect_uri]
    secret = {"CLIENT_SECRET": CLIENT_SECRET}
    with running(command, secret, port, logs / "openid-provider.log") as server:
        yield Provider(issuer=server.origin, server=server)


@contextmanager
def authorization_server(logs: Path, *resources: str) -> Iterator[Provider]:
    """Run an authorization server whose tokens are for `resources`."""
    port = free_port()
    command = [node(), str(_SCRIPTS / "authorization-server.mjs"), str(port), *resources]
    with running(command, {}, port, logs / "authorization-server.log") as server:
        yield Provider(issuer=server.origin, server=server)
