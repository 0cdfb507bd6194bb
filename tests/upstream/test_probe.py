"""Whether an upstream can be reached past the gateway."""

import pytest

from gateway.errors import UpstreamFailed
from gateway.upstream.probe import probe_unauthenticated
from tests.servers.process import RunningServer, nobodys_port
from tests.servers.raw import answers, raw_upstream


async def test_servers_that_let_everybody_in_are_found(
    everything: RunningServer, notes: RunningServer
):
    assert await probe_unauthenticated(everything.url)
    assert await probe_unauthenticated(notes.url)


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_server_that_asks_for_a_credential_is_not_open(status: int):
    script = answers("{}", status=status, headers={"WWW-Authenticate": "Bearer"})
    async with raw_upstream(script) as server:
        assert not await probe_unauthenticated(server.url)


async def test_nobody_there_is_a_fault():
    with pytest.raises(UpstreamFailed):
        await probe_unauthenticated(f"http://127.0.0.1:{nobodys_port()}/mcp")
