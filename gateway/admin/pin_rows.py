"""Pins and what changed of them, as the documented JSON objects."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, Self

import orjson

from gateway.admin.labels import suggestion_for_pins, words_of_suggestion
from gateway.admin.lock import LockedPin
from gateway.admin.rows import Row, Rows, rfc3339
from gateway.domain._value import value
from gateway.domain.bounded import Bounded
from gateway.domain.descriptions import Guidance
from gateway.domain.document import Digest
from gateway.domain.labels import Effect, ServerRule
from gateway.domain.tools import Kind, Manifest, Pin, PinApproval, PinStatus
from gateway.flow.effects import effect_of
from gateway.pins.catalog import HASH
from gateway.pins.diff import Change, classify
from gateway.pins.reading import Part, parts_of
from gateway.pins.tiers import Tier

_SEVERITY = (Tier.COSMETIC, Tier.NEW, Tier.TEXT, Tier.CONTRACT, Tier.RISK)
"""Mildest first. Nobody has used yet what is new."""


def whole_row(pin: Pin, guidance: Guidance) -> Row:
    """Return a pin with both whole definitions, and what the configuration adds, if it does."""
    brief = {"brief": guidance.brief} if guidance.brief else {}
    told = {**brief, **guidance.content}
    return {
        **row_of(pin),
        "server_version": pin.observed.server_version,
        "approved": pin.approved.definition.content if pin.approved else None,
        "observed": pin.observed.definition.content,
        **({"guidance": told} if told else {}),
    }


def row_of(pin: Pin) -> Row:
    """Return the documented fields of a pin. `digest` is the approved one, `null` without any.

    So is `address`, of the server that showed it.
    """
    return {
        "server": pin.target.server,
        "kind": pin.target.kind.value,
        "name": pin.target.name,
        "profile": pin.profile.value,
        "status": pin.status.value,
        "digest": str(pin.approved.digest) if pin.approved else None,
        "observed_digest": str(pin.observed.digest),
        "hash": HASH,
        "address": pin.approved.identity if pin.approved else None,
        "observed_address": pin.observed.identity,
        "approved_by": pin.approved_by or None,
        "approved_at": rfc3339(pin.approved_at),
        "expires_at": rfc3339(pin.expires_at),
        "first_seen": rfc3339(pin.first_seen),
        "note": pin.note,
        "approvals": [_approval_row(each) for each in pin.approvals],
        "filed": [_approval_row(each) for each in pin.filed],
    }


def _approval_row(approval: PinApproval) -> Row:
    return {
        "digest": approval.digest,
        "by": approval.by,
        "at": rfc3339(approval.at),
        "note": approval.note,
        "tier": approval.tier,
        "findings": list(approval.findings),
        "server_version": approval.server_version,
        "version_changed": approval.version_changed,
        "expires_at": rfc3339(approval.expires_at),
    }


def locked_row(locked: LockedPin) -> Row:
    """Return the fields of an entry of a lock file."""
    return {
        "server": locked.target.server,
        "kind": locked.target.kind.value,
        "name": locked.target.name,
        "profile": locked.profile.value,
        "digest": locked.digest,
    }


@value
class Elsewhere:
    """The names of tools that only other servers have."""

    names: frozenset[str]
    digest: str

    @classmethod
    def of(cls, names: frozenset[str]) -> Self:
        return cls(names=names, digest=str(Digest.of("\n".join(sorted(names)).encode())))


@value
class Compared:
    """A pin as a person reads it: beside what was approved, or whole where nothing was."""

    change: Change
    parts: tuple[Part, ...]


class Comparisons:
    """Compares pins with what was approved, and remembers what came of it.

    A comparison takes some ten milliseconds, of the largest definition hundreds, and a review is of
    hundreds that have not changed since the last one. So it is made beside the event loop.
    """

    def __init__(self) -> None:
        self._known: Bounded[tuple[str, ...], Compared] = Bounded(
            most=_MOST_COMPARED, octets=_COMPARED_OCTETS
        )

    def of(self, pin: Pin, elsewhere: Elsewhere) -> Compared:
        """Return how what `pin` shows differs from what was approved."""
        key = (*map(_shown, (pin.approved, pin.observed)), str(pin.target), elsewhere.digest)
        compared = self._known.get(key)
        if compared is None:
            change = classify(pin.approved, pin.observed, elsewhere=elsewhere.names)
            parts = parts_of(pin.observed) if pin.approved is None else ()
            compared = Compared(change=change, parts=parts)
            self._known.put(key, compared, _octets(compared))
        return compared


_MOST_COMPARED = 5_000
_COMPARED_OCTETS = 32 << 20


def _shown(manifest: Manifest | None) -> str:
    return "" if manifest is None else f"{manifest.digest} {manifest.server_version}"


def _octets(compared: Compared) -> int:
    """Return about how many bytes a comparison holds."""
    change = compared.change
    texts = [text or "" for each in change.differences for text in (each.path, each.old, each.new)]
    texts += [text for part in compared.parts for text in (part.name, part.text, part.said)]
    return 4 * sum(map(len, (*texts, *(hint.excerpt for hint in change.findings))))


def difference_row(pin: Pin, compared: Compared, *, rule: ServerRule, labelled: bool) -> Row:
    """Return a pin's fields with how what is shown differs from what was approved.

    What nobody approved yet is told whole, part by part, and of such a tool the labels that would
    apply by `rule`; if it is not `labelled`, also which ones its definition suggests.
    """
    change = compared.change
    moved = has_moved(pin)
    return {
        **row_of(pin),
        "moved_from": pin.approved.identity if pin.approved and moved else None,
        "moved_to": pin.observed.identity if moved else None,
        "changed": pin.approved is None or pin.approved.digest != pin.observed.digest,
        **change.words,
        "hints": [
            {"code": hint.code, "path": hint.path, "excerpt": hint.excerpt}
            for hint in change.findings
        ],
        "differences": [
            {"path": each.path, "tier": each.tier.value, "old": each.old, "new": each.new}
            for each in change.differences
        ],
        "parts": [
            {"name": part.name, "text": part.text, "said": part.said} for part in compared.parts
        ],
        "labels": _labels(pin, rule),
        "suggestion": None if labelled else _suggestion(pin),
    }


def _labels(pin: Pin, rule: ServerRule) -> Row | None:
    """Return what an approval would make of a new tool, by the configuration or, unsaid, at worst."""
    if pin.target.kind is not Kind.TOOL or pin.approved is not None:
        return None
    own = rule.tool(pin.target.name)
    return {
        "effect": effect_of(own, pin.observed).value,
        "destination": list(own.destination),
        "payload": list(own.payload),
        "result": rule.result_of(pin.target.name).words,
    }


def _suggestion(pin: Pin) -> Row | None:
    if pin.target.kind is not Kind.TOOL or pin.approved is not None:
        return None
    return words_of_suggestion(suggestion_for_pins([pin]))


_REACH: Final[tuple[str | None, ...]] = (None, *(effect.value for effect in Effect))
"""What is no tool, or is approved already, and then what a call would do, mildest first."""


def how_bad(row: Row) -> tuple[Any, ...]:
    """Return what to sort `difference_row`s by, so that the worst come first."""
    unexplained = row["digest"] is not None and not row["version_changed"]
    return (
        not row["findings"],
        -_SEVERITY.index(Tier(row["tier"])),
        not unexplained,
        -_REACH.index((row["labels"] or {}).get("effect")),
        row["server"],
        row["kind"],
        row["name"],
        row["profile"],
    )


def alike_in_profiles(rows: Iterable[Row]) -> Rows:
    """Return `difference_row`s with one for all profiles in which the same is shown, and was approved.

    Its `profiles` are these; its `profile` is then what an approval of all of them need not name:
    nothing.
    """
    merged: dict[bytes, Row] = {}
    for row in rows:
        same = {name: row[name] for name in row if name not in _OF_ONE_PROFILE}
        known = merged.setdefault(
            orjson.dumps(same, option=orjson.OPT_SORT_KEYS), {**row, "profiles": []}
        )
        known["profiles"].append(row["profile"])
    return [
        {**row, "profile": None if len(row["profiles"]) > 1 else row["profile"]}
        for row in merged.values()
    ]


_OF_ONE_PROFILE = frozenset({"profile", "first_seen", "approved_at", "expires_at", "approvals"})


def times_told(pins: Iterable[Pin]) -> int:
    """Return how many rows `alike_in_profiles` makes of these pins, and compare none of them."""
    return len({_told_once(pin) for pin in pins})


def _told_once(pin: Pin) -> tuple[Any, ...]:
    """Return what is the same of a pin in two profiles just where all that is told of it is."""
    was, now = pin.approved, pin.observed
    return (
        pin.target,
        pin.status,
        *(None if one is None else (str(one.digest), one.identity) for one in (was, now)),
        was is not None and was.server_version != now.server_version,
        pin.approved_by,
        pin.note,
        tuple((one.by, one.at, one.digest) for one in pin.filed),
    )


def statuses(pins: Iterable[Pin]) -> dict[str, int]:
    """Return how many definitions are in which status, as `times_told` counts them."""
    found = [pin.status for pin in {_told_once(pin): pin for pin in pins}.values()]
    return {status.value: found.count(status) for status in PinStatus}


def changed_kinds(pins: Iterable[Pin]) -> dict[str, int]:
    """Return of how many names of each kind something else is shown than was approved."""
    found = {pin.target for pin in pins if pin.status is PinStatus.DRIFTED or is_changed(pin)}
    return dict(sorted(Counter(target.kind.value for target in found).items()))


def waits(pin: Pin) -> bool:
    """Whether a person has something to decide: it is new, has changed or its approval ran out."""
    return pin.status in {PinStatus.PENDING, PinStatus.DRIFTED} or is_changed(pin)


def is_changed(pin: Pin) -> bool:
    """Whether it shows another definition than the one that was approved, and not revoked."""
    baseline = None if pin.status is PinStatus.REVOKED else pin.approved
    return baseline is not None and baseline.digest != pin.observed.digest


def has_moved(pin: Pin) -> bool:
    """Whether its server is at another address than when it was approved."""
    return pin.approved is not None and pin.approved.identity != pin.observed.identity


def evidence_of(change: Change) -> tuple[tuple[str, str], ...]:
    """Return what an approval rests on, as reasons of its audit record."""
    if change.tier is Tier.NEW:
        told = "the whole definition is new"
    else:
        release = "with" if change.version_changed else "without"
        fields = ", ".join(change.fields[:20]) or "nothing"
        told = f"{fields} changed {release} a new version of the server"
    hints = tuple(("finding", f"{hint.code} at {hint.path}") for hint in change.findings[:20])
    return ((f"tier_{change.tier.value}", told), *hints)


def approved_digest(pin: Pin) -> str | None:
    """Return the digest that is approved and in force, if there is one."""
    if pin.status is not PinStatus.APPROVED or pin.approved is None:
        return None
    return str(pin.approved.digest)


def digest_in_force(pin: Pin) -> str:
    """Return the digest of what was approved, else of what is shown."""
    return str((pin.approved or pin.observed).digest)
