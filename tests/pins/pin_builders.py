"""Definitions, manifests and pins for the tests of this room."""

from typing import Any

from gateway.domain.document import Document
from gateway.domain.tools import (
    Disposition,
    Kind,
    Manifest,
    Pin,
    PinStatus,
    Profile,
    Sighting,
    Target,
    UpstreamId,
)

HERE = "https://weather.example:443/mcp"
"""Where the server is."""
WEATHER = Target(server=UpstreamId("weather"), kind=Kind.TOOL, name="get_weather")


def definition(**changed: Any) -> dict[str, Any]:
    return {
        "name": "get_weather",
        "title": "Weather",
        "description": "Get the weather for a city.",
        "inputSchema": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "City name"}},
            "required": ["city"],
        },
        "annotations": {"readOnlyHint": True},
    } | changed


def manifest(
    content: dict[str, Any] | None = None,
    *,
    version: str = "1",
    target: Target = WEATHER,
    identity: str = HERE,
) -> Manifest:
    return Manifest(
        target=target,
        profile=Profile.MODERN,
        definition=Document.of(definition() if content is None else content),
        server_version=version,
        identity=identity,
    )


def sighting(
    shown: Manifest,
    disposition: Disposition = Disposition.HOLD,
    *,
    beside: Manifest | None = None,
) -> Sighting:
    return Sighting(manifest=shown, disposition=disposition, judged_beside=beside, seen_at=100.0)


def pin(status: PinStatus, shown: Manifest, approved: Manifest | None = None) -> Pin:
    return Pin(
        target=shown.target,
        profile=shown.profile,
        status=status,
        observed=shown,
        approved=approved,
        approved_by="alice" if approved else "",
        approved_at=50.0 if approved else None,
        first_seen=10.0,
        note="checked" if approved else "",
    )
