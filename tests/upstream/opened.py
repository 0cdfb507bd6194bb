"""An upstream in front of a scripted server, closed with it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.domain.tools import UpstreamId
from gateway.upstream.http import HttpUpstream
from gateway.upstream.settings import HeaderCredential, Limits, Timeouts, UpstreamSettings
from tests.servers.raw import RawUpstream, Script, raw_upstream

PATIENT = Timeouts(connect_s=5.0, idle_s=10.0, hard_s=20.0)


@asynccontextmanager
async def opened(
    script: Script,
    *,
    timeouts: Timeouts = PATIENT,
    limits: Limits | None = None,
    credential: HeaderCredential | None = None,
) -> AsyncIterator[tuple[HttpUpstream, RawUpstream]]:
    async with raw_upstream(script) as server:
        upstream = HttpUpstream(
            UpstreamSettings(
                server=UpstreamId("raw"),
                url=server.url,
                credential=credential,
                timeouts=timeouts,
                limits=limits or Limits(),
            )
        )
        try:
            yield upstream, server
        finally:
            await upstream.aclose()
