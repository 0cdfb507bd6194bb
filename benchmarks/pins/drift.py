"""What a pin says when a real server is updated: alarms by tier, release after release."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from gateway.domain.tools import Kind, Manifest, Profile, UpstreamId
from gateway.pins.catalog import read_list
from gateway.pins.diff import classify
from gateway.pins.tiers import Tier

Key = tuple[Kind, str]


@dataclass
class Drift:
    """What changed over some number of updates from one release to the next."""

    pairs: int = 0
    changed: int = 0
    """Updates that change, add or take away anything."""
    asking: int = 0
    """Updates after which a person has to look at something."""
    items: int = 0
    """Definitions that stand in both releases of a pair, over all pairs."""
    tiers: Counter[Tier] = field(default_factory=Counter)
    """Changed and new definitions."""
    removed: int = 0
    hinted: int = 0
    """Changes that carry a hint that was not there before."""
    unpinnable: int = 0
    """Definitions that were refused."""

    @property
    def altered(self) -> int:
        """How many definitions changed; new ones are not among them."""
        return sum(count for tier, count in self.tiers.items() if tier is not Tier.NEW)


def drift_of(releases: Mapping[str, Sequence[Mapping[str, Any]]]) -> Drift:
    """Compare each release of each server with the one before it."""
    drift = Drift()
    for server, shown in releases.items():
        catalogs = [_catalog(UpstreamId(server), release, drift) for release in shown]
        for before, after in pairwise(catalogs):
            _compare(before, after, drift)
    return drift


def _compare(before: Mapping[Key, Manifest], after: Mapping[Key, Manifest], drift: Drift) -> None:
    gone = len(before.keys() - after.keys())
    tiers = []
    for key, manifest in after.items():
        old = before.get(key)
        drift.items += old is not None
        if old is None or old.digest != manifest.digest:
            change = classify(old, manifest)
            tiers.append(change.tier)
            drift.hinted += bool(change.findings)
    drift.pairs += 1
    drift.changed += bool(tiers or gone)
    drift.asking += any(tier is not Tier.COSMETIC for tier in tiers)
    drift.removed += gone
    drift.tiers.update(tiers)


def _catalog(server: UpstreamId, release: Mapping[str, Any], drift: Drift) -> dict[Key, Manifest]:
    catalog: dict[Key, Manifest] = {}
    for kind, items in _lists(release["shows"]):
        version = str(release["version"])
        reading = read_list(server, Profile.LEGACY, kind, items, version)
        drift.unpinnable += len(reading.rejected)
        catalog |= {(kind, m.target.name): m for m in reading.manifests}
    return catalog


def _lists(shows: Mapping[str, Sequence[Any]]) -> Iterator[tuple[Kind, Sequence[Any]]]:
    for kind in (Kind.SERVER, Kind.TOOL, Kind.PROMPT, Kind.TEMPLATE):
        yield kind, shows.get(kind.value, ())
