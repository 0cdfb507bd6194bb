"""Whether an upstream lets everybody in."""

from gateway.domain.tools import Profile, UpstreamId
from gateway.errors import CredentialRequired
from gateway.upstream.bounds import Bounds
from gateway.upstream.client import NotSpoken, converse
from gateway.upstream.exchange import Exchange
from gateway.upstream.settings import Timeouts, UpstreamSettings

_TIMEOUTS = Timeouts(connect_s=5.0, idle_s=10.0, hard_s=10.0)


async def probe_unauthenticated(url: str, bounds: Bounds | None = None) -> bool:
    """Return whether the upstream at `url` opens a conversation without any credential.

    If it does, whoever reaches it can pass the gateway by.

    Raises:
        UpstreamFailed: It cannot be reached, or does not speak MCP.

    """
    settings = UpstreamSettings(
        server=UpstreamId("probe"), url=url, timeouts=_TIMEOUTS, bounds=bounds
    )
    exchange = Exchange(settings)
    try:
        for profile in (Profile.LEGACY, Profile.MODERN):
            try:
                async with converse(settings.server, exchange, profile, settings.limits.wire):
                    return True
            except NotSpoken:
                continue
            except CredentialRequired:
                return False
    finally:
        await exchange.aclose()
    return False
