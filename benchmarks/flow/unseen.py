"""The suites of domains that no rule was made on, as what `make flow-report` plays beside others."""

import argparse
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from benchmarks.flow.suites.build import build
from benchmarks.flow.suites.honest import HERE
from benchmarks.flow.traces import ALL, Suite, read_suite, trace_files

RECORDED, IN_VIEW, LOCKED = "recorded", "in_view", "locked"
GROUPS: Mapping[str, tuple[str, ...]] = {
    IN_VIEW: ("code_hosting", "shop_orders", "health", "smart_home"),
    LOCKED: ("customer_service", "cloud_ops", "calendar_travel", "hr_crm"),
}
"""Whoever writes rules may look at how the first ones go, and of the others at figures alone."""
POOLS = (ALL, *GROUPS)
"""What suites add up to; these ones never to the pool of the recorded ones."""
CHOICES = (RECORDED, *GROUPS)

LIMITS = (
    f"{', '.join(GROUPS)}: small suites of invented domains, neither poisoned nor shared",
    f"{LOCKED}: figures only, so that no rule is made on them",
)


def suites_of(groups: Collection[str]) -> Iterator[Suite]:
    """Yield the suites of `groups`, plain and encoded."""
    with tempfile.TemporaryDirectory(prefix="suites-") as made:
        folder = Path(made)
        group_of = {name: group for group in GROUPS for name in GROUPS[group] if group in groups}
        for name in group_of:
            build(HERE / name, folder)
        for variant, path in trace_files(folder).items():
            group = group_of[variant.partition(".")[0]]
            yield replace(read_suite(variant, path), pool=group)


def is_locked(name: str) -> bool:
    """Whether the suite, or the variant of one, is not to be looked into."""
    return name.partition(".")[0] in GROUPS[LOCKED]


def chosen(text: str) -> tuple[str, ...]:
    """Return what `text` names of `CHOICES`."""
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in CHOICES]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(CHOICES)}")
    return names
