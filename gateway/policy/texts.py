"""A policy as one gateway tells it to another: its bytes as they lay there, the data it decides by, and what is registered.

What is registered is the text of all servers that were at run time; see `Roster`.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

from gateway.errors import ConfigError
from gateway.policy.settings import PolicySettings
from gateway.policy.sources import Snapshot

_LARGEST: Final = 64 * 1024**2
_NONE: Final = "what another gateway proposed is no policy"


def spelled(snapshot: Snapshot | None, data: Mapping[str, Any], servers: str = "") -> bytes:
    """Return what `read` understands. Who has to have signed it is no part of it."""
    files = {} if snapshot is None else snapshot.files
    told = {
        "name": "" if snapshot is None else snapshot.name,
        "files": {path: base64.b64encode(content).decode() for path, content in files.items()},
        "data": data,
        "servers": servers,
    }
    return _packed(told)


def with_servers(text: bytes, servers: str) -> bytes:
    """Return the same policy with these `servers` registered; raises as `read`."""
    return _packed({**_told(text), "servers": servers})


def servers_in(text: bytes) -> str:
    """Return what is registered with the policy of a text; raises as `read`."""
    servers = _told(text).get("servers", "")
    if not isinstance(servers, str):
        raise ConfigError(_NONE)
    return servers


def read(text: bytes, settings: PolicySettings) -> tuple[Snapshot, Mapping[str, Any]]:
    """Return the policy of a text, to be signed by whoever has to have signed it here, and its data.

    Raises:
        ConfigError: It is none.

    """
    told = _told(text)
    try:
        files = {path: base64.b64decode(content) for path, content in told["files"].items()}
        key = None if settings.verification_key is None else settings.verification_key.read_bytes()
        return Snapshot(name=told["name"], files=files, key=key), dict(told["data"])
    except OSError as error:
        problem = f"{settings.verification_key}: {error.strerror}"
        raise ConfigError("the policy's key cannot be read", problems=[problem]) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(_NONE) from error


def _packed(told: Mapping[str, Any]) -> bytes:
    return zlib.compress(json.dumps(told).encode())


def _told(text: bytes) -> dict[str, Any]:
    try:
        told = json.loads(zlib.decompressobj().decompress(text, _LARGEST))
    except (zlib.error, ValueError) as error:
        raise ConfigError(_NONE) from error
    if not isinstance(told, dict):
        raise ConfigError(_NONE)
    return told
