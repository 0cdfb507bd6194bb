"""How much may be called: by the minute, and by the quotas of the configuration."""

from collections.abc import Iterable, Mapping

from gateway.config import Config
from gateway.domain.quotas import MILLIONTHS, Charge
from gateway.pipeline.leased import LeasedLimits
from gateway.pipeline.limits import CallLimits
from gateway.pipeline.quotas import Quotas
from gateway.ports.allowance import Allowance, SharedCounts
from gateway.wiring.foundation import now
from gateway.wiring.stores import Stores


def quotas_of(config: Config, used: Iterable[Charge], shared: SharedCounts | None = None) -> Quotas:
    """Return the quotas that hold until the gateway ends, or at all gateways with `shared` counts."""
    quotas = [quota.value for quota in config.limits.quotas]
    return Quotas(quotas, prices=prices_of(config), clock=now, kept=used, shared=shared)


def limits_of(config: Config, store: Stores) -> Allowance:
    """Return what bounds the calls of a minute, at all gateways together where there are several."""
    most = config.limits.calls_per_minute
    if store.allowance is None:
        return CallLimits(calls_per_minute=most, clock=now)
    return LeasedLimits(store.allowance, calls_per_minute=most)


def prices_of(config: Config) -> Mapping[tuple[str, str], int]:
    """Return what calls cost that the configuration prices, in millionths, by server and tool."""
    return {
        (server, name): round(tool.price * MILLIONTHS)
        for server, one in config.servers.items()
        for name, tool in one.tools.items()
        if tool.price is not None
    }
