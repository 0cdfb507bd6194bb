"""A part of the report: figures of one promise, and whether it is kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one module of this folder found out; its function `figures` returns it."""

    title: str
    """Over its table."""
    rows: Sequence[tuple[str, object]]
    figures: Mapping[str, float]
    """Their keys begin with the part's own word, as in `hour.peak_rss_mib`."""
    failures: Sequence[str]
    """What was promised and not kept."""
    limits: Sequence[str]
    """What the figures do not show."""
    summary: str
    """A few words for the report's last line."""
