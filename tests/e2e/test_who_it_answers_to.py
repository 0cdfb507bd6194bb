"""Both listeners, byte by byte: one host, one spelling of each path, and no redirect to anywhere."""

from urllib.parse import urlsplit

import pytest

from tests.e2e.site import Corridor
from tests.e2e.sockets import Answered, exchange, head

PUBLIC = (
    "/mcp",
    "/mcp/raw",
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-protected-resource/mcp/raw",
    "/.well-known/oauth-protected-resource/api/v1",
    "/oauth/authorize",
    "/oauth/token",
    "/oauth/register",
    "/oauth/revoke",
    "/oauth/jwks.json",
    "/oauth/device_authorization",
    "/sign-in",
    "/setup",
    "/consent",
    "/device",
    "/account",
    "/sign-out",
    "/approve/x",
    "/connect/raw",
)
ADMIN = ("/metrics", "/healthz", "/readyz", "/api/v1/whoami", "/api/v1/pins/list")
NOWHERE = ("/", "/nothing", "/metrics/", "/mcp/", "/account/", "/api/v1", "/api/v1/", "//", "*")
METHODS = ("GET", "POST", "OPTIONS", "PUT")


def asked(url: str, target: str, *hosts: str, method: str = "GET") -> Answered:
    pairs = [*(("Host", host) for host in hosts), ("Connection", "close"), ("Content-Length", "0")]
    return exchange(url, head(method, target, pairs))


def listeners(gateway: Corridor) -> list[tuple[str, tuple[str, ...]]]:
    return [(gateway.url, PUBLIC), (gateway.running.admin_url, ADMIN)]


@pytest.mark.parametrize("method", METHODS)
def test_no_path_of_either_listener_answers_to_another_host(gateway: Corridor, method: str) -> None:
    for url, routes in listeners(gateway):
        ours = urlsplit(url).netloc
        for path in (*routes, *NOWHERE):
            for hosts in (["attacker.example"], [ours, "attacker.example"], [ours, ours], []):
                answer = asked(url, path, *hosts, method=method)
                assert answer.status in (400, 421), (path, hosts)
                assert "location" not in answer.headers
                assert b"attacker" not in answer.body


def test_no_path_of_either_listener_has_a_second_spelling(gateway: Corridor) -> None:
    for url, routes in listeners(gateway):
        ours = urlsplit(url).netloc
        for path in routes:
            stem, last = path.rsplit("/", 1)
            for alias in (
                f"{stem}%2f{last}",
                f"{stem}%2F{last}",
                f"{stem}/%{ord(last[0]):02x}{last[1:]}",
                f"{stem}//{last}",
                f"/{path}",
                f"{stem}/./{last}",
                f"{stem}/x/../{last}",
                f"{stem}/x/%2e%2e/{last}",
                f"{path}/",
                f"{path}%20",
                f"{path};x=y",
            ):
                answer = asked(url, alias, ours)
                assert answer.status in (400, 404), alias
                assert "location" not in answer.headers


def test_an_authority_in_the_target_has_to_be_the_host(gateway: Corridor) -> None:
    for url, routes in listeners(gateway):
        ours = urlsplit(url).netloc
        for path in routes:
            there, here = f"http://attacker.example{path}", f"http://{ours}{path}"
            assert asked(url, there, ours).status == 421
            assert asked(url, there, "attacker.example").status == 421
            assert asked(url, here, "attacker.example").status == 421
            assert asked(url, f"http://x@{ours}{path}", ours).status == 421
            assert asked(url, here, ours).status == asked(url, path, ours).status
