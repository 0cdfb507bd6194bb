"""The quotas of the configuration, with what was used of them before."""

from collections.abc import Iterable, Mapping

from gateway.config import Config
from gateway.domain.quotas import MILLIONTHS, Charge
from gateway.pipeline.quotas import Quotas
from gateway.ports.allowance import SharedCounts
from gateway.wiring.foundation import now


def quotas_of(config: Config, used: Iterable[Charge], shared: SharedCounts | None = None) -> Quotas:
    """Return the quotas that hold until the gateway ends, or at all gateways with `shared` counts."""
    quotas = [quota.value for quota in config.limits.quotas]
    return Quotas(quotas, prices=prices_of(config), clock=now, kept=used, shared=shared)


def prices_of(config: Config) -> Mapping[tuple[str, str], int]:
    """Return what calls cost that the configuration prices, in millionths, by server and tool."""
    return {
        (server, name): round(tool.price * MILLIONTHS)
        for server, one in config.servers.items()
        for name, tool in one.tools.items()
        if tool.price is not None
    }
