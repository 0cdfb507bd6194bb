"""The gRPC listener of planes, in front of whatever configuration is in force."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gateway.config import Config
from gateway.errors import ConfigError
from gateway.planes.in_force import InForce, Lease
from gateway.wire.jsontext import WireLimits
from gateway.wiring.runtime import Runtime


def in_force(built: Runtime, refused_unread: Callable[[str, str], None]) -> InForce:
    """Return what planes that ask by gRPC need of a configuration, and where what is not read is counted."""
    return InForce(
        planes=built.planes,
        traffic=built.traffic,
        challenge=built.authorization.metadata.challenge_for,
        limits=WireLimits(json_depth=built.config.limits.json_depth),
        refused_unread=refused_unread,
    )


@asynccontextmanager
async def asked_by_grpc(config: Config, lease: Lease, drain_s: float) -> AsyncIterator[None]:
    """Listen for planes that ask by gRPC until the context ends, if the configuration says where.

    Raises:
        ConfigError: What that takes is not installed, or nobody can listen there.

    """
    section = config.planes.grpc
    if section is None:
        yield
        return
    try:
        from gateway.planes.server import Listening, listening, read_tls  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError(
            "planes cannot ask by gRPC",
            problems=["planes.grpc: install what it takes: pip install 'douane[planes]'"],
        ) from error
    tls = None
    if section.certificate is not None and section.key is not None:
        tls = read_tls(section.certificate, section.key, section.client_ca)
    where = Listening(
        address=str(section.listen),
        tls=tls,
        most_bytes=config.limits.request_bytes,
        drain_s=drain_s,
    )
    async with listening(where, lease):
        yield
