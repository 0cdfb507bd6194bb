"""Which icons a client may load: others would have it run, read or fetch what a server likes."""

from typing import Any, Final

_SCHEME: Final = len("https://")
"""The rest may be megabytes of data."""


def icons_are_safe(item: Any) -> bool:
    """Whether every icon is of a scheme that a client may load (MCP 2025-11-25, icons, security)."""
    icons = item.get("icons") if isinstance(item, dict) else None
    if not isinstance(icons, list):
        return icons is None
    return all(isinstance(icon, dict) and _may_be_loaded(icon.get("src")) for icon in icons)


def _may_be_loaded(src: Any) -> bool:
    return isinstance(src, str) and src[:_SCHEME].lower().startswith(("https://", "data:"))
