"""What changed between two definitions, classified by what it can do to a model, worst first."""

import json
from collections.abc import Collection, Iterator
from typing import Any

from gateway.domain._value import value
from gateway.domain.document import item_path, member_path
from gateway.domain.tools import Manifest
from gateway.pins.findings import Finding, findings_of
from gateway.pins.tiers import ABSENT, Steps, Tier, Whole, icons_tier, tier_of
from gateway.pins.visible import visible


@value
class Difference:
    """One member that is not what it was, safe to print."""

    path: str
    tier: Tier
    old: str | None
    """Made visible; `None`: there was nothing."""
    new: str | None
    """Made visible; `None`: there is nothing."""


@value
class Change:
    """A definition beside the one it is compared with."""

    tier: Tier
    """The worst of its differences'; `NEW` if there is nothing to compare with."""
    differences: tuple[Difference, ...]
    """Worst first, then by path."""
    findings: tuple[Finding, ...]
    """Hints that were not there before."""
    version_changed: bool
    """Whether the upstream says it is another release; a change without one is a strong sign."""

    @property
    def fields(self) -> tuple[str, ...]:
        """JSON paths of what changed, worst first."""
        return tuple(difference.path for difference in self.differences)

    @property
    def words(self) -> dict[str, Any]:
        """The contract's form: `{"tier", "findings", "fields", "version_changed"}`."""
        return {
            "tier": self.tier.value,
            "findings": sorted({finding.code for finding in self.findings}),
            "fields": list(self.fields),
            "version_changed": self.version_changed,
        }


def classify(
    before: Manifest | None, after: Manifest, *, elsewhere: Collection[str] = ()
) -> Change:
    """Compare `after` with `before`, which is `None` for what was never seen.

    `elsewhere` are names that only other servers' tools have. What carries a new hint is never
    cosmetic: policy may let cosmetic changes pass unseen.
    """
    hints = findings_of(after.definition.content, elsewhere=elsewhere)
    if before is None:
        return Change(tier=Tier.NEW, differences=(), findings=hints, version_changed=False)
    old = findings_of(before.definition.content, elsewhere=elsewhere)
    known = {(hint.code, hint.excerpt) for hint in old}
    hints = tuple(hint for hint in hints if (hint.code, hint.excerpt) not in known)
    differences = sorted(_differences(before, after), key=_worst_first)
    tier = differences[0].tier if differences else Tier.COSMETIC
    return Change(
        tier=Tier.TEXT if hints and tier is Tier.COSMETIC else tier,
        differences=tuple(differences),
        findings=hints,
        version_changed=before.server_version != after.server_version,
    )


def pin_question(
    before: Manifest | None, after: Manifest, *, elsewhere: Collection[str] = ()
) -> dict[str, Any]:
    """Build what policy is asked about `after`, beside what it is compared with; see `classify`."""
    return question_about(after, classify(before, after, elsewhere=elsewhere))


def question_about(after: Manifest, change: Change) -> dict[str, Any]:
    """Build what policy is asked about `after`, which is `change` from what it was compared with."""
    return {
        "server": after.target.server,
        "item": f"{after.target.kind.value}/{after.target.name}",
        "change": change.words,
    }


_SEVERITY = tuple(Tier)
_SCHEMAS = ("inputSchema", "outputSchema")
_NO_SCHEMA = Whole.of(None, None)


def _worst_first(difference: Difference) -> tuple[int, str]:
    return -_SEVERITY.index(difference.tier), difference.path


def _differences(before: Manifest, after: Manifest) -> Iterator[Difference]:
    old, new = before.definition.content, after.definition.content
    target = after.target
    # All of them together, and once: there are as many changes as icons.
    of_icons = icons_tier(old.get("icons"), new.get("icons"))
    wholes = {name: Whole.of(old.get(name), new.get(name)) for name in _SCHEMAS}
    for at, was, now in _changes(old, new, ()):
        if at[0] == "icons":
            tier = of_icons
        else:
            whole = wholes.get(str(at[0]), _NO_SCHEMA)
            tier = tier_of(target.kind, at, was, now, name=target.name, whole=whole)
        yield Difference(path=_path(at), tier=tier, old=_readable(was), new=_readable(now))


def _changes(old: Any, new: Any, at: Steps) -> Iterator[tuple[Steps, Any, Any]]:
    """Yield where the two differ. A container that comes or goes is yielded, then its members."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in old | new:
            yield from _changes(old.get(name, ABSENT), new.get(name, ABSENT), (*at, name))
    elif isinstance(old, list) and isinstance(new, list):
        for i in range(max(len(old), len(new))):
            was, now = (side[i] if i < len(side) else ABSENT for side in (old, new))
            yield from _changes(was, now, (*at, i))
    elif not _same_scalar(old, new):
        yield at, old, new
        yield from _members(old, at, gone=True)
        yield from _members(new, at, gone=False)


def _members(content: Any, at: Steps, *, gone: bool) -> Iterator[tuple[Steps, Any, Any]]:
    inner: list[tuple[str | int, Any]] = []
    if isinstance(content, dict):
        inner = list(content.items())
    elif isinstance(content, list):
        inner = list(enumerate(content))
    for step, member in inner:
        was, now = (member, ABSENT) if gone else (ABSENT, member)
        yield from _changes(was, now, (*at, step))


def _same_scalar(old: Any, new: Any) -> bool:
    # Python's True equals 1; JSON's does not.
    return isinstance(old, bool) is isinstance(new, bool) and bool(old == new)


def _path(at: Steps) -> str:
    path = "$"
    for step in at:
        path = item_path(path, step) if isinstance(step, int) else member_path(path, step)
    return visible(path)


def _readable(content: Any) -> str | None:
    if content is ABSENT:
        return None
    if isinstance(content, str):
        return visible(content)
    if content and isinstance(content, dict | list):
        return "{...}" if isinstance(content, dict) else "[...]"  # its members have their own lines
    return json.dumps(content)
