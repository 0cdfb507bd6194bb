"""A person connects their account at an upstream: one gateway stands in front of another."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError

from tests.running import Running, running_gateway
from tests.servers.process import free_ports
from tests.signin_e2e import python_client
from tests.signin_e2e.browser import Chromium
from tests.signin_e2e.house import LABELS, NAME, READ, SERVER, House, welcome

CONNECTS = ("approve", "sign in", "approve")
"""Agrees to go there, signs in there, and consents."""


@contextmanager
def in_front_of(inner: House, folder: Path) -> Iterator[tuple[Running, str]]:
    """Run a gateway whose upstream is the endpoint of `inner`; also return its own public URL.

    It is another host than the inner one: cookies know no ports.
    """
    ports = free_ports()
    url = f"http://localhost:{ports[0]}"
    server = {
        "url": inner.site.endpoint,
        "credential": {"kind": "oauth"},
        "defaults": LABELS,
    }
    with running_gateway(
        folder,
        {SERVER: server},
        ports=ports,
        public_url=url,
        egress={"allow": ["127.0.0.0/8"]},
    ) as running:
        yield running, url


def places_told(group: BaseExceptionGroup[BaseException]) -> set[str]:
    """Return where the errors in `group` say that an account can be connected."""
    found = set()
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            found |= places_told(error)
        elif isinstance(error, MCPError):
            found.add(error.error.data["url"])
    return found


async def test_a_call_goes_on_with_the_persons_own_account_there(
    gateway: House, browser: Chromium, tmp_path: Path
) -> None:
    with (
        in_front_of(gateway, tmp_path / "outer") as (outer, url),
        gateway.emma(browser) as emma,
    ):
        await welcome(outer, browser)
        page = f"{url}/connect/{SERVER}"
        site = replace(gateway.site, endpoint=f"{url}/mcp/{SERVER}")
        with pytest.raises(BaseExceptionGroup) as raised:
            async with python_client.program(site, emma, tmp_path):
                pytest.fail("it is let through without an account")
        assert places_told(raised.value) == {page}
        said = await emma.go_through(page)
        assert "Your account at notes is connected." in said
        assert tuple(emma.clicks) == CONNECTS
        async with python_client.program(site, emma, tmp_path) as program:
            await program.client.list_tools()
            outer.approve_all(SERVER)
            assert await program.call(READ)
        (connection,) = outer.rows("users", "connections", "list")
        assert (connection["server"], connection["issuer"]) == (SERVER, gateway.url)
    there = gateway.running.rows("audit", "query", "--where", "kind = outcome", "--limit", "1000")
    assert NAME in {row["principal"] for row in there if row["method"] == "tools/call"}
