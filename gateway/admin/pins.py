"""What people do with pins: look, compare, approve, revoke, check, and carry them in a file."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from gateway.admin.journal import Change, Journal
from gateway.admin.lock import LockedPin, LockSigner, open_lock
from gateway.admin.person import EVERY_ROLE, Person, Role
from gateway.admin.rows import Row, Rows, rfc3339
from gateway.domain._value import value
from gateway.domain.audit import RecordKind
from gateway.domain.tools import Kind, Pin, PinStatus, Profile, Target, UpstreamId
from gateway.errors import BadCommand, NotFound, PinMismatch
from gateway.pins.diff import classify
from gateway.ports import PinStore


@value
class Reviewed:
    """One definition as a person saw it, which is the one they approve."""

    kind: Kind
    name: str
    profile: Profile
    digest: str
    """`sha256:...` of what was shown."""


class PinDesk:
    """Use cases over a `PinStore`. Results are plain JSON."""

    def __init__(self, pins: PinStore, journal: Journal, signer: LockSigner) -> None:
        self._pins = pins
        self._journal = journal
        self._signer = signer

    async def list(
        self, person: Person, *, server: str | None = None, status: PinStatus | None = None
    ) -> Rows:
        """Return one row a pin, sorted by server, kind, name and profile."""
        person.need(*EVERY_ROLE)
        return [row_of(pin) for pin in self._all(server) if status in {None, pin.status}]

    async def show(
        self,
        person: Person,
        *,
        server: str,
        name: str,
        kind: Kind = Kind.TOOL,
        profile: Profile | None = None,
    ) -> Rows:
        """Return the rows of a target, one a profile, with both whole definitions.

        Raises:
            NotFound: No upstream has shown it.

        """
        person.need(*EVERY_ROLE)
        return [
            {
                **row_of(pin),
                "server_version": pin.observed.server_version,
                "approved": pin.approved.definition.content if pin.approved else None,
                "observed": pin.observed.definition.content,
            }
            for pin in self._named(server, name, kind, profile)
        ]

    async def diff(
        self,
        person: Person,
        *,
        server: str,
        name: str,
        kind: Kind = Kind.TOOL,
        profile: Profile | None = None,
    ) -> Rows:
        """Return how what is shown differs from what was approved, one row a profile.

        Beside the members that policy sees (`tier`, `findings`, `fields`, `version_changed`) stand
        `hints` and `differences`, safe to print. Of what nobody approved yet, all is new (`NEW`).

        Raises:
            NotFound: No upstream has shown it.

        """
        person.need(*EVERY_ROLE)
        return [_difference(pin) for pin in self._named(server, name, kind, profile)]

    async def approve(
        self, person: Person, *, server: str, reviewed: Sequence[Reviewed], note: str = ""
    ) -> Rows:
        """Approve exactly the definitions that the person saw, and return their rows.

        Raises:
            Forbidden: The person is neither approver nor admin.
            NotFound: One of them does not exist; nothing was approved.
            PinMismatch: One of them has changed since; nothing was approved, unless it changed in
                the very moment of approving.

        """
        person.need(Role.APPROVER, Role.ADMIN)
        if not reviewed:
            raise BadCommand("there is nothing to approve")
        found = [self._one(server, item.name, item.kind, item.profile) for item in reviewed]
        for pin, item in zip(found, reviewed, strict=True):
            _same(pin, item.digest)
        return [
            row_of(await self._approve(person, pin, item.digest, note, "pins.approve"))
            for pin, item in zip(found, reviewed, strict=True)
        ]

    async def revoke(
        self,
        person: Person,
        *,
        server: str,
        name: str,
        kind: Kind = Kind.TOOL,
        profile: Profile | None = None,
        note: str = "",
    ) -> Rows:
        """Withdraw a target's approval in every profile, or in one, and return the rows.

        Raises:
            Forbidden: The person is neither approver nor admin.
            NotFound: No upstream has shown it.

        """
        person.need(Role.APPROVER, Role.ADMIN)
        rows = []
        for pin in self._named(server, name, kind, profile):
            change = _change(pin, "pins.revoke", "revoked", note, digest=_digest_in_force(pin))
            act = partial(self._pins.revoke, pin.target, pin.profile, by=person.name, note=note)
            rows.append(row_of(await self._journal.make(person, change, act)))
        return rows

    async def check(
        self, person: Person, *, lock: Mapping[str, Any] | None = None, key: str | None = None
    ) -> Row:
        """Return `{"ok", "drift": [rows with a `problem`]}`: what is not as it was approved.

        With the content of a `lock` file, signed by `key` or else by this gateway: also whatever
        differs from it, in either direction.
        """
        person.need(*EVERY_ROLE)
        drift = [
            {**row_of(pin), "problem": _DRIFTED}
            for pin in self._all(None)
            if pin.status is PinStatus.DRIFTED or _is_changed(pin)
        ]
        if lock is not None:
            drift += self._against(open_lock(lock, key or self._signer.verifier))
        return {"ok": not drift, "drift": drift}

    async def export(self, person: Person) -> Row:
        """Return the content of a lock file with every pin that is approved."""
        person.need(*EVERY_ROLE)
        return self._signer.seal(self._all(None))

    async def import_(
        self, person: Person, *, lock: Mapping[str, Any], key: str | None = None
    ) -> Rows:
        """Approve what a lock file approved, where an upstream shows exactly that.

        The file must be signed by `key`, or else by this gateway. Returns its entries, each with a
        `result`: `approved`, `unchanged` (it was approved before), `differs`, `unknown` (nobody
        has shown it) or `revoked` (only a person who names it can undo that).

        Raises:
            Forbidden: The person is neither approver nor admin.
            Denied: The signature is not one of that key for this content.

        """
        person.need(Role.APPROVER, Role.ADMIN)
        trusted = key or self._signer.verifier
        rows = []
        for locked in open_lock(lock, trusted):
            result = await self._take_over(person, locked, trusted)
            rows.append({**_locked_row(locked), "result": result})
        return rows

    async def _take_over(self, person: Person, locked: LockedPin, signer: str) -> str:
        pin = self._pins.find(locked.target, locked.profile)
        if pin is None:
            return "unknown"
        if pin.status is PinStatus.REVOKED:
            return "revoked"
        if str(pin.observed.digest) != locked.digest:
            return "differs"
        if pin.status is PinStatus.APPROVED and not _is_changed(pin):
            return "unchanged"
        note = f"lock file signed by {signer}"
        await self._approve(person, pin, locked.digest, note, "pins.import")
        return "approved"

    async def _approve(self, person: Person, pin: Pin, digest: str, note: str, method: str) -> Pin:
        change = _change(pin, method, "approved", note, digest=digest)
        act = partial(
            self._pins.approve,
            pin.target,
            pin.profile,
            expected=digest,
            by=person.name,
            note=note,
        )
        return await self._journal.make(person, change, act)

    def _against(self, locked: Iterable[LockedPin]) -> Rows:
        wanted = {(item.target, item.profile): item for item in locked}
        problems = []
        for place, item in wanted.items():
            pin = self._pins.find(*place)
            if pin is None:
                problems.append({**_locked_row(item), "problem": "in the lock file, not seen"})
            elif _approved_digest(pin) != item.digest:
                problems.append({**row_of(pin), "problem": "not what the lock file approved"})
        problems += [
            {**row_of(pin), "problem": "approved here, not in the lock file"}
            for pin in self._all(None)
            if _approved_digest(pin) and (pin.target, pin.profile) not in wanted
        ]
        return problems

    def _all(self, server: str | None) -> Sequence[Pin]:
        pins = self._pins.all(None if server is None else UpstreamId(server))
        return sorted(pins, key=lambda pin: (str(pin.target), pin.profile.value))

    def _named(self, server: str, name: str, kind: Kind, profile: Profile | None) -> Sequence[Pin]:
        target = Target(server=UpstreamId(server), kind=kind, name=name)
        profiles = (profile,) if profile else tuple(Profile)
        found = [self._pins.find(target, each) for each in profiles]
        pins = [pin for pin in found if pin is not None]
        if not pins:
            raise NotFound(
                f"no upstream has shown {target}; `douane pins list` lists what is known"
            )
        return pins

    def _one(self, server: str, name: str, kind: Kind, profile: Profile) -> Pin:
        return self._named(server, name, kind, profile)[0]


_DRIFTED = "shows another definition than the approved one"


def row_of(pin: Pin) -> Row:
    """Return the documented fields of a pin. `digest` is the approved one, `null` without any."""
    return {
        "server": pin.target.server,
        "kind": pin.target.kind.value,
        "name": pin.target.name,
        "profile": pin.profile.value,
        "status": pin.status.value,
        "digest": str(pin.approved.digest) if pin.approved else None,
        "observed_digest": str(pin.observed.digest),
        "approved_by": pin.approved_by or None,
        "approved_at": rfc3339(pin.approved_at),
        "first_seen": rfc3339(pin.first_seen),
        "note": pin.note,
    }


def _locked_row(locked: LockedPin) -> Row:
    return {
        "server": locked.target.server,
        "kind": locked.target.kind.value,
        "name": locked.target.name,
        "profile": locked.profile.value,
        "digest": locked.digest,
    }


def _difference(pin: Pin) -> Row:
    change = classify(pin.approved, pin.observed)
    return {
        **row_of(pin),
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
    }


def _change(pin: Pin, method: str, code: str, note: str, *, digest: str) -> Change:
    return Change(
        kind=RecordKind.PIN,
        method=method,
        code=code,
        subject=f"{pin.target} ({pin.profile})",
        fields={
            "server": pin.target.server,
            "target": pin.target.name,
            "pin_digest": digest,
        },
        note=note,
    )


def _same(pin: Pin, digest: str) -> None:
    if str(pin.observed.digest) != digest:
        raise PinMismatch(
            f"{pin.target} has changed since it was looked at; look again, then approve",
            detail=f"shows {pin.observed.digest}, reviewed was {digest}",
        )


def _is_changed(pin: Pin) -> bool:
    """Whether an approval is in force that is not for what is shown."""
    return _approved_digest(pin) not in {None, str(pin.observed.digest)}


def _approved_digest(pin: Pin) -> str | None:
    if pin.status is not PinStatus.APPROVED or pin.approved is None:
        return None
    return str(pin.approved.digest)


def _digest_in_force(pin: Pin) -> str:
    return str((pin.approved or pin.observed).digest)
