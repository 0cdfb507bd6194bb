"""What becomes of a pin: when an upstream shows something, and when a person says something.

Nothing is trusted for being seen first, and nothing but a person ends a drift or a revocation.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gateway.domain.tools import Disposition, Manifest, Pin, PinApproval, PinStatus, Sighting
from gateway.errors import Forbidden, PinMismatch
from gateway.pins.diff import Change, classify

BY_POLICY = "policy"
"""`approved_by` of what no person looked at."""


def pin_at(pin: Pin, now: float) -> Pin:
    """Return what `pin` is at `now`, in seconds since the epoch.

    Once its approval has run out it waits for another one; what was approved stays on file.
    """
    if pin.expires_at is None or now < pin.expires_at or pin.status is not PinStatus.APPROVED:
        return pin
    return replace(pin, status=PinStatus.PENDING)


def observed(pin: Pin | None, sighting: Sighting) -> Pin | None:
    """Return what `pin` is after `sighting`; `None` if it stays as it is.

    Raises:
        ValueError: The sighting is not one of the pin's target.

    """
    manifest = sighting.manifest
    if pin is None:
        return _first(sighting)
    if (pin.target, pin.profile) != (manifest.target, manifest.profile):
        raise ValueError(f"{manifest.target} was compared with the pin of {pin.target}")
    if manifest.is_same(pin.observed):
        return None
    match pin.status:
        case PinStatus.APPROVED:
            return _after_approval(pin, sighting)
        case PinStatus.PENDING if _differs_from_baseline(pin, manifest):
            # Its approval ran out; that it has changed since must not be lost on whoever renews it.
            return replace(pin, status=PinStatus.DRIFTED, observed=manifest, filed=())
        case PinStatus.PENDING | PinStatus.DRIFTED | PinStatus.REVOKED:
            # Whatever policy thinks of the change, nobody has approved what it is a change of.
            return replace(pin, observed=manifest, filed=())


def _differs_from_baseline(pin: Pin, manifest: Manifest) -> bool:
    return pin.approved is not None and not pin.approved.is_same(manifest)


def _first(sighting: Sighting) -> Pin:
    manifest = sighting.manifest
    pending = Pin(
        target=manifest.target,
        profile=manifest.profile,
        status=PinStatus.PENDING,
        observed=manifest,
        approved=None,
        first_seen=sighting.seen_at,
    )
    if sighting.disposition is Disposition.APPROVE:
        return _approved(pending, (_by_policy(pending, sighting),))
    return pending


def _after_approval(pin: Pin, sighting: Sighting) -> Pin:
    manifest = sighting.manifest
    if not _differs_from_baseline(pin, manifest):
        return replace(pin, observed=manifest, filed=())
    if pin.approved is not None and pin.approved.identity != manifest.identity:
        # Policy judges what changed in a definition; this is another server's.
        return replace(pin, status=PinStatus.DRIFTED, observed=manifest, filed=())
    match _still_counts(pin, sighting):
        case Disposition.HOLD:
            return replace(pin, status=PinStatus.DRIFTED, observed=manifest, filed=())
        case Disposition.APPROVE:
            people = tuple(each for each in pin.approvals if each.by != BY_POLICY)
            changed = replace(pin, observed=manifest)
            return _approved(changed, (_by_policy(changed, sighting),), before=people)
        case Disposition.SERVE_APPROVED:
            return replace(pin, observed=manifest, filed=())


def _still_counts(pin: Pin, sighting: Sighting) -> Disposition:
    """Return what policy wants done, unless a person has approved something else since."""
    judged = sighting.judged_beside
    if judged is None or pin.approved is None or not judged.is_same(pin.approved):
        return Disposition.HOLD
    return sighting.disposition


def _by_policy(pin: Pin, sighting: Sighting) -> PinApproval:
    # It speaks for the people before it, for no longer than they did.
    return _approval(
        pin,
        sighting.told or classify(pin.approved, pin.observed).words,
        by=BY_POLICY,
        at=sighting.seen_at,
        note=pin.note,
        expires_at=pin.expires_at,
    )


def approved_pin(
    pin: Pin,
    *,
    expected: str,
    identity: str | None = None,
    by: str,
    at: float,
    note: str,
    user_id: str = "",
    people: int = 1,
    counts: Callable[[str], bool] = lambda _: False,
    expires_at: float | None = None,
    change: Change | None = None,
) -> Pin:
    """Return `pin` after the person `by` approved, at `at` (seconds since the epoch), what it shows.

    `expected` is the digest of what the person looked at, as `sha256:...`, and `identity` says whose it
    was; with `None`, whoever's. Where `people` have to
    approve it, the first ones' approvals are filed, and the last one's puts it in force; `counts`
    says of whose `user_id` a filed one counts still, and the others are dropped.
    `change` is how that differs from what was approved, where they were compared already.

    Raises:
        PinMismatch: The upstream has shown something else since.
        Forbidden: More than one person is needed, and this one is nobody of `users`, or has
            approved it already.

    """
    shown = pin.observed
    if str(shown.digest) != expected or identity not in (None, shown.identity):
        raise PinMismatch(
            "the definition has changed since it was looked at",
            detail=f"{pin.target} is {shown.digest} at {shown.identity}, not {expected} at {identity}",
        )
    pin = replace(pin, filed=tuple(each for each in pin.filed if counts(each.user_id)))
    if people > 1:
        _require_another_person(pin, user_id, by, people)
    earlier = tuple(each for each in pin.filed if each.user_id != user_id)
    told = (change or classify(pin.approved, pin.observed)).words
    mine = _approval(pin, told, by=by, user_id=user_id, at=at, note=note, expires_at=expires_at)
    filed = (*earlier, mine)
    return _approved(pin, filed) if len(filed) >= people else replace(pin, filed=filed)


def _require_another_person(pin: Pin, user_id: str, by: str, people: int) -> None:
    if not user_id:
        raise Forbidden(
            f"{people} people must approve this, and {by} is nobody of `douane users list`;"
            " `douane login` says who you are",
            detail=str(pin.target),
        )
    if any(each.user_id == user_id or each.by == by for each in pin.filed):
        raise Forbidden(
            f"{by} has approved this already; another person must, too", detail=str(pin.target)
        )


def revoked_pin(pin: Pin, *, note: str) -> Pin:
    """Return `pin` with its approval withdrawn; what was approved stays on file for comparison."""
    return replace(pin, status=PinStatus.REVOKED, note=note, filed=())


def with_body(pin: Pin, digest: str) -> Pin:
    """Return `pin` with what its prompt said when it was first used; that is kept until approval."""
    return pin if pin.body_digest else replace(pin, body_digest=digest)


def _approval(
    pin: Pin,
    told: Mapping[str, Any],
    *,
    by: str,
    at: float,
    note: str,
    expires_at: float | None,
    user_id: str = "",
) -> PinApproval:
    """Return a yes to what `pin` shows; `told` is how that differs from what was approved before."""
    return PinApproval(
        digest=str(pin.observed.digest),
        by=by,
        user_id=user_id,
        at=at,
        note=note,
        tier=told["tier"],
        findings=tuple(told["findings"]),
        server_version=pin.observed.server_version,
        version_changed=told["version_changed"],
        expires_at=expires_at,
    )


def _approved(
    pin: Pin, given: tuple[PinApproval, ...], *, before: tuple[PinApproval, ...] = ()
) -> Pin:
    """Return `pin` with what it shows in force, as `given`; `before` says what that rests on."""
    last = given[-1]
    return replace(
        pin,
        status=PinStatus.APPROVED,
        approved=pin.observed,
        approved_by=", ".join(each.by for each in given),
        approved_at=last.at,
        note=last.note,
        approvals=(*before, *given),
        filed=(),
        expires_at=min((e.expires_at for e in given if e.expires_at is not None), default=None),
        body_digest="",
    )
