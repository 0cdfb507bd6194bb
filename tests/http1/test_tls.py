"""Over TLS a server is who was asked for, and what it said is what it ended itself."""

import asyncio
import ssl
from pathlib import Path

import pytest
import uvloop

from gateway.http1 import ConnectFailed, Disconnected, HttpFault, dialling, request
from tests.http1.peer import (
    COMMON,
    Dialled,
    Peer,
    Script,
    Visit,
    echoes,
    ok,
    patience,
    peer,
    pool,
    sent,
    until_over,
)
from tests.upstream.outside import Authority


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    made = Authority(tmp_path)
    context = ssl.create_default_context(cafile=str(made.file))
    monkeypatch.setattr("gateway.http1.dialling.system_authorities", lambda: context)
    return made


async def over_tls(server: Peer, name: str) -> bytes:
    async with pool(server.port, name=name) as through:
        await sent(through, b"one")
        return await sent(through, b"two")


async def test_a_server_proves_the_name_that_was_asked_for(authority: Authority):
    async with peer(echoes, tls=authority.server("peer.test")) as server:
        assert await over_tls(server, "peer.test") == b"two"
        with pytest.raises(ConnectFailed, match="SSLCertVerificationError"):
            await over_tls(server, "other.test")


async def test_who_never_ends_tls_holds_no_connection(authority: Authority):
    async def deaf(visit: Visit) -> None:
        await visit.asked()
        visit.reads_no_more()
        await visit.say(ok(b"{}", b"Connection: close"))
        await asyncio.Event().wait()

    async with peer(deaf, tls=authority.server("peer.test")) as server:
        dialled = Dialled(server.port, dialling.system_authorities())
        connection = await dialled()
        await until_over(connection.exchange(request("POST", COMMON, [], b""), patience()))
        await dialled.until_closed()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_over_tls_a_body_ends_where_the_server_says_so(authority: Authority, run):
    async def polite(visit: Visit) -> None:
        await visit.asked()
        await visit.say(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        visit.writer.close()
        await visit.writer.wait_closed()

    async def cut_off(visit: Visit) -> None:
        await visit.asked()
        await visit.say(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        visit.writer.transport.abort()

    async def said(script: Script) -> bytes:
        async with (
            peer(script, tls=authority.server("peer.test")) as server,
            pool(server.port, name="peer.test") as through,
        ):
            return await sent(through)

    assert run(said(polite)) == b"half"
    with pytest.raises(Disconnected):
        run(said(cut_off))


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_what_is_read_in_turns_is_whole_if_the_server_has_left_meanwhile(authority: Authority, run):
    async def leaves(visit: Visit) -> None:
        await visit.asked()
        visit.writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        visit.writer.write(b"5\r\nabcde\r\n" * 60_000 + b"0\r\n\r\n")
        visit.writer.close()
        await visit.writer.wait_closed()

    async def said() -> bytes:
        async with (
            peer(leaves, tls=authority.server("peer.test")) as server,
            pool(server.port, name="peer.test") as through,
        ):
            return await sent(through)

    assert run(said()) == b"abcde" * 60_000


async def test_who_is_vouched_for_by_nobody_is_nobody(tmp_path: Path):
    tls = Authority(tmp_path).server("peer.test")
    async with peer(echoes, tls=tls) as server:
        with pytest.raises(ConnectFailed, match="SSLCertVerificationError"):
            await over_tls(server, "peer.test")


@pytest.mark.usefixtures("authority")
async def test_who_speaks_no_tls_is_a_fault():
    async def plain(visit: Visit) -> None:
        await visit.say(ok(b"{}"))

    async with peer(plain) as server:
        with pytest.raises(HttpFault):
            await over_tls(server, "peer.test")


def test_whoever_is_trusted_the_system_trusts():
    context = dialling.system_authorities()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
