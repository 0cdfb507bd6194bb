"""Data planes of others that ask for decisions: who they are, and what they owe."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from gateway.config import Config
from gateway.domain.planes import InterceptorHost, Plane
from gateway.errors import ConfigError, GatewayError
from gateway.pipeline.debts import Debts

_EVERY_S: Final = 1.0

logger = logging.getLogger(__name__)


def planes_of(config: Config, environ: Mapping[str, str]) -> Mapping[str, Plane]:
    """Return the planes that may ask, by their names.

    Raises:
        ConfigError: A key is missing, too short, or another plane's; or requests for access would be
            signed with a key that nobody publishes.

    """
    found: dict[str, Plane] = {}
    for name, section in config.planes.authzen.items():
        if section.access_requests and config.auth.external is not None:
            told = "needs `auth.mode: embedded`, whose keys sign it; remove it, and refusals ask people"
            raise ConfigError(
                "a plane cannot submit requests for access",
                problems=[f"planes.authzen.{name}.access_requests: {told}"],
            )
    for kind, name, each in config.planes.every:
        try:
            found[name] = each.value(name, environ, config.public_url)
        except ValueError as error:
            raise ConfigError(
                "a plane cannot be known", problems=[f"planes.{kind}.{name}.key: {error}"]
            ) from error
    if len({plane.key_digest for plane in found.values()}) < len(found):
        raise ConfigError(
            "planes cannot be told apart",
            problems=["planes: two have one key; give each its own"],
        )
    return found


def hosts_of(config: Config, environ: Mapping[str, str]) -> Mapping[str, InterceptorHost]:
    """Return the hosts that may invoke interceptors, by their names.

    Raises:
        ConfigError: A key is missing or too short, or a name or key is somebody else's.

    """
    found: dict[str, InterceptorHost] = {}
    for name, section in config.planes.experimental_interceptors.items():
        try:
            found[name] = section.value(name, environ, config.public_url)
        except ValueError as error:
            raise ConfigError(
                "a host cannot be known",
                problems=[f"planes.experimental_interceptors.{name}.key: {error}"],
            ) from error
    planes = planes_of(config, environ)
    keys = [plane.key_digest for plane in planes.values()]
    keys += [host.plane.key_digest for host in found.values()]
    if len(set(keys)) < len(keys) or found.keys() & planes.keys():
        raise ConfigError(
            "hosts cannot be told apart",
            problems=["planes: two have one name or one key; give each its own"],
        )
    return found


async def collected(debts: Debts) -> None:
    """Raise runs, until cancelled, to what planes have not reported in time."""
    while True:
        await debts.until_open()
        try:
            await debts.settle()
        except GatewayError as error:
            # It counts all the same, as long as it is owed.
            logger.warning("what planes owe could not be settled: %s", error.detail)
        await asyncio.sleep(_EVERY_S)
