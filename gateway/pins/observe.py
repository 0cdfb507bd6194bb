"""What becomes of a pin: when an upstream shows something, and when a person says something.

Nothing is trusted for being seen first, and nothing but a person ends a drift or a revocation.
"""

from dataclasses import replace

from gateway.domain.tools import Disposition, Manifest, Pin, PinStatus, Sighting
from gateway.errors import PinMismatch

BY_POLICY = "policy"
"""`approved_by` of what no person looked at."""


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
    if manifest.digest == pin.observed.digest:
        return None
    match pin.status:
        case PinStatus.APPROVED:
            return _after_approval(pin, sighting)
        case PinStatus.PENDING | PinStatus.DRIFTED | PinStatus.REVOKED:
            # Whatever policy thinks of the change, nobody has approved what it is a change of.
            return replace(pin, observed=manifest)


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
        return _approved(pending, manifest, by=BY_POLICY, at=sighting.seen_at, note="")
    return pending


def _after_approval(pin: Pin, sighting: Sighting) -> Pin:
    manifest = sighting.manifest
    if pin.approved is not None and manifest.digest == pin.approved.digest:
        return replace(pin, observed=manifest)
    match sighting.disposition:
        case Disposition.HOLD:
            return replace(pin, status=PinStatus.DRIFTED, observed=manifest)
        case Disposition.APPROVE:
            return _approved(pin, manifest, by=BY_POLICY, at=sighting.seen_at, note=pin.note)
        case Disposition.SERVE_APPROVED:
            return replace(pin, observed=manifest)


def approved_pin(pin: Pin, *, expected: str, by: str, at: float, note: str) -> Pin:
    """Return `pin` after the person `by` approved, at `at` (seconds since the epoch), what it shows.

    `expected` is the digest of what the person looked at, as `sha256:...`.

    Raises:
        PinMismatch: The upstream has shown something else since.

    """
    if str(pin.observed.digest) != expected:
        raise PinMismatch(
            "the definition has changed since it was looked at",
            detail=f"{pin.target} is {pin.observed.digest}, not {expected}",
        )
    return _approved(pin, pin.observed, by=by, at=at, note=note)


def revoked_pin(pin: Pin, *, note: str) -> Pin:
    """Return `pin` with its approval withdrawn; what was approved stays on file for comparison."""
    return replace(pin, status=PinStatus.REVOKED, note=note)


def _approved(pin: Pin, manifest: Manifest, *, by: str, at: float, note: str) -> Pin:
    return replace(
        pin,
        status=PinStatus.APPROVED,
        observed=manifest,
        approved=manifest,
        approved_by=by,
        approved_at=at,
        note=note,
    )
