"""Versions of JSON Schema, by what a schema says of itself (pure)."""

import re
from collections.abc import Mapping
from typing import Any

_VERSION = re.compile(
    r"https?://json-schema\.org/(?:(draft-0[67])/|draft/(2019-09|2020-12)/)?schema#?", re.ASCII
)
NEWEST = "2020-12"
REFERRED_ALONE = frozenset({"draft-06", "draft-07"})
"""Versions in which nothing counts that stands beside a `$ref`."""


def version_of(schema: Mapping[str, Any], around: str | None = NEWEST) -> str | None:
    """Return which version of JSON Schema reads `schema`; `None` for none of those since draft 6.

    That is the one `around` it, where it does not say.
    """
    if "$schema" not in schema:
        return around
    known = _VERSION.fullmatch(named) if isinstance(named := schema["$schema"], str) else None
    return None if known is None else known[1] or known[2] or NEWEST
