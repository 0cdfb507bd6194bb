"""Where planes ask and hosts have messages looked at, for one configuration."""

from collections.abc import Callable

from starlette.types import Scope

from gateway.domain.planes import PlaneKind
from gateway.oauth.metadata import JWKS_PATH
from gateway.web.app import Endpoint
from gateway.web.authzen import AuthzenEndpoint
from gateway.web.interceptors import InterceptorEndpoint
from gateway.web.metrics import Metrics
from gateway.wire.jsontext import WireLimits
from gateway.wiring.foundation import new_id
from gateway.wiring.runtime import Runtime


def endpoints_of_planes(
    built: Runtime, client_address: Callable[[Scope], str], metrics: Metrics
) -> list[Endpoint]:
    """Return where planes ask and hosts invoke interceptors, as far as there are any."""
    found = (
        _authzen_of(built, client_address, metrics),
        _interceptors_of(built, client_address, metrics),
    )
    return [one for one in found if one is not None]


def _authzen_of(
    built: Runtime, client_address: Callable[[Scope], str], metrics: Metrics
) -> AuthzenEndpoint | None:
    """Return where planes ask; `None` where there are none."""
    config = built.config
    asking = {
        name: plane for name, plane in built.planes.items() if plane.kind is PlaneKind.AUTHZEN
    }
    if not asking:
        return None
    return AuthzenEndpoint(
        asking,
        built.decisions,
        public_url=config.public_url,
        most_bytes=config.limits.request_bytes,
        json_depth=config.limits.json_depth,
        requests=built.requests,
        jwks_uri=f"{config.public_url}{JWKS_PATH}",
        client_address=client_address,
        refused_unread=metrics.refused_unread,
        new_id=new_id,
    )


def _interceptors_of(
    built: Runtime, client_address: Callable[[Scope], str], metrics: Metrics
) -> InterceptorEndpoint | None:
    """Return where hosts invoke interceptors; `None` where there are none."""
    config = built.config
    if not built.hosts:
        return None
    return InterceptorEndpoint(
        built.hosts,
        built.interceptions,
        built.decisions,
        most_bytes=config.limits.request_bytes,
        limits=WireLimits(json_depth=config.limits.json_depth),
        client_address=client_address,
        refused_unread=metrics.refused_unread,
        new_id=new_id,
    )
