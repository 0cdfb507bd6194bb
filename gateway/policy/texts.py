"""A policy as one gateway tells it to another: its bytes as they lay there, and the data it decides by."""

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

from gateway.errors import ConfigError
from gateway.policy.settings import PolicySettings
from gateway.policy.sources import Snapshot

_LARGEST: Final = 64 * 1024**2


def spelled(snapshot: Snapshot | None, data: Mapping[str, Any]) -> bytes:
    """Return what `read` understands. Who has to have signed it is no part of it."""
    files = {} if snapshot is None else snapshot.files
    told = {
        "name": "" if snapshot is None else snapshot.name,
        "files": {path: base64.b64encode(content).decode() for path, content in files.items()},
        "data": data,
    }
    return zlib.compress(json.dumps(told).encode())


def read(text: bytes, settings: PolicySettings) -> tuple[Snapshot, Mapping[str, Any]]:
    """Return the policy of a text, to be signed by whoever has to have signed it here, and its data.

    Raises:
        ConfigError: It is none.

    """
    try:
        unpacked = zlib.decompressobj().decompress(text, _LARGEST)
        told = json.loads(unpacked)
        files = {path: base64.b64decode(content) for path, content in told["files"].items()}
        key = None if settings.verification_key is None else settings.verification_key.read_bytes()
        return Snapshot(name=told["name"], files=files, key=key), dict(told["data"])
    except OSError as error:
        problem = f"{settings.verification_key}: {error.strerror}"
        raise ConfigError("the policy's key cannot be read", problems=[problem]) from error
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError("what another gateway proposed is no policy") from error
