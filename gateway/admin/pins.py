"""What people do with pins: look, compare, approve, revoke, check, and carry them in a file."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import BaseModel, ConfigDict

from gateway.admin.journal import Change, Journal
from gateway.admin.labels import Labelled
from gateway.admin.lock import LockedPin, LockSigner, open_lock
from gateway.admin.person import EVERY_ROLE, Person, Role, beside
from gateway.admin.pin_rows import (
    Comparisons,
    Elsewhere,
    approved_digest,
    difference_row,
    digest_in_force,
    evidence_of,
    has_moved,
    how_bad,
    is_changed,
    locked_row,
    row_of,
    waits,
    whole_row,
)
from gateway.admin.rows import Row, Rows, rfc3339
from gateway.domain._value import value
from gateway.domain.audit import RecordKind
from gateway.domain.descriptions import Guidance
from gateway.domain.labels import ServerRule
from gateway.domain.tools import Kind, Pin, PinStatus, Profile, Target, UpstreamId
from gateway.errors import BadCommand, Forbidden, NotFound, PinMismatch
from gateway.pins.diff import Change as Difference
from gateway.pins.diff import question_about
from gateway.pins.names import tools_elsewhere
from gateway.pins.observe import approved_pin
from gateway.ports import Clock, PinStore, PolicyEngine


class Reviewed(BaseModel):
    """One definition as a person saw it, which is the one they approve: read as it was sent."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    kind: Kind
    name: str
    profile: Profile
    digest: str
    """`sha256:...` of what was shown."""
    address: str
    """Of the server that showed it, as its row has it."""


@value
class _Yes:
    """An approval that may be given: by whom, of what, and what becomes of the pin."""

    pin: Pin
    given: Mapping[str, Any]
    """The arguments of `PinStore.approve`."""
    change: Change


class PinDesk:
    """Use cases over a `PinStore`. Results are plain JSON."""

    def __init__(
        self,
        pins: PinStore,
        journal: Journal,
        signer: LockSigner,
        *,
        policy: PolicyEngine,
        expire_s: Callable[[], float | None],
        labelled: Labelled,
        rule: Callable[[UpstreamId], ServerRule],
        guidance: Callable[[Target], Guidance],
        may_approve: Callable[[str], bool],
        clock: Clock,
    ) -> None:
        """`expire_s` gives for how many seconds an approval holds at most; `None` for ever.

        `rule` is what the configuration says of a server's tools, and `guidance` what it tells
        models of a tool beside its definition. `may_approve` says of a `User.id` whether that person may now.
        """
        self._pins = pins
        self._journal = journal
        self._signer = signer
        self._policy = policy
        self._expire_s = expire_s
        self._labelled = labelled
        self._rule = rule
        self._guidance = guidance
        self._may_approve = may_approve
        self._clock = clock
        self._compared = Comparisons()
        self._alone = asyncio.Lock()
        """Held from counting approvals until another one is stored."""

    async def list(
        self, person: Person, *, server: str | None = None, status: PinStatus | None = None
    ) -> Rows:
        """Return one row a pin, sorted by server, kind, name and profile."""
        person.need(*EVERY_ROLE)
        return await beside(person, self._rows, server, status)

    def _rows(self, server: str | None, status: PinStatus | None) -> Rows:
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
            whole_row(pin, self._guidance(pin.target))
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
        `hints` and `differences`, safe to print. Of what nobody approved yet, all is new (`NEW`):
        its `parts` are told instead, of a tool also the `labels` that would apply, and, unless the
        configuration labels it, a `suggestion`.

        Raises:
            NotFound: No upstream has shown it.

        """
        person.need(*EVERY_ROLE)
        pins = self._named(server, name, kind, profile)
        return [await beside(person, self._difference, pin) for pin in pins]

    async def review(self, person: Person, *, server: str | None = None) -> Rows:
        """Return what waits for a decision, worst first, each as `diff` returns it."""
        person.need(*EVERY_ROLE)
        return await asyncio.to_thread(self._waiting, server)

    def _waiting(self, server: str | None) -> Rows:
        """Compare all that waits, which takes a while: beside the event loop."""
        waiting = [pin for pin in self._all(server) if waits(pin)]
        elsewhere = {
            each: self._names_elsewhere(each) for each in {pin.target.server for pin in waiting}
        }
        rows = [self._difference(pin, elsewhere[pin.target.server]) for pin in waiting]
        return sorted(rows, key=how_bad)

    async def approve(
        self,
        person: Person,
        *,
        server: str,
        reviewed: Sequence[Reviewed],
        note: str = "",
        expires_s: float | None = None,
    ) -> Rows:
        """Approve exactly the definitions that the person saw, and return their rows.

        Each row says beside the pin's fields how many `people` policy wants. While they are not
        enough, the approval is `filed` and the pin stays what it is. After `expires_s` seconds,
        or earlier if the configuration says so, the pin waits again.

        Raises:
            Forbidden: The person is neither approver nor admin, or does not count as another one.
            NotFound: One of them does not exist; nothing was approved.
            PinMismatch: One of them has changed since; nothing was approved, unless it changed in
                the very moment of approving.
            PolicyUnavailable: Policy does not say how many people must approve it.

        """
        person.need(Role.APPROVER, Role.ADMIN)
        if not reviewed:
            raise BadCommand("there is nothing to approve")
        until = self._until(expires_s)
        async with self._alone:
            planned = []
            for item in reviewed:
                pin = self._one(server, item.name, item.kind, item.profile)
                _require_same(pin, item)
                planned.append(await self._plan(person, pin, note, "pins.approve", until))
            return [await self._carry_out(person, yes) for yes in planned]

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
            digest = digest_in_force(pin)
            change = _change(pin, "pins.revoke", "revoked", note=note, digest=digest)
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
        drift = await beside(person, self._drift)
        if lock is not None:
            drift += await beside(person, self._against, lock, key or self._signer.verifier)
        return {"ok": not drift, "drift": drift}

    def _drift(self) -> Rows:
        return [
            {**row_of(pin), "problem": _DRIFTED}
            for pin in self._all(None)
            if pin.status is PinStatus.DRIFTED or is_changed(pin)
        ]

    async def export(self, person: Person) -> Row:
        """Return the content of a lock file with every pin that is approved."""
        person.need(*EVERY_ROLE)
        return await beside(person, self._sealed)

    def _sealed(self) -> Row:
        return self._signer.seal(self._all(None))

    async def import_(
        self, person: Person, *, lock: Mapping[str, Any], key: str | None = None
    ) -> Rows:
        """Approve what a lock file approved, where an upstream shows exactly that.

        The file must be signed by `key`, or else by this gateway. Returns its entries, each with a
        `result`: `approved`, `filed` (more people must approve it), `unchanged` (it was approved
        before), `differs`, `moved` (its server is at another address than when it was approved here),
        `unknown` (nobody has shown it), `expired` (the approval has run out), `revoked` (only a person who names it can undo that) or `refused` (more people must approve
        it, and this one does not count as another).

        Raises:
            Forbidden: The person is neither approver nor admin.
            Denied: The signature is not one of that key for this content.

        """
        person.need(Role.APPROVER, Role.ADMIN)
        trusted = key or self._signer.verifier
        rows = []
        for locked in await beside(person, open_lock, lock, trusted):
            async with self._alone:
                result = await self._take_over(person, locked, trusted)
            rows.append({**locked_row(locked), "result": result})
        return rows

    async def _take_over(self, person: Person, locked: LockedPin, signer: str) -> str:
        pin = self._pins.find(locked.target, locked.profile)
        if pin is None:
            return "unknown"
        if obstacle := self._obstacle(pin, locked):
            return obstacle
        until = min(filter(None, (self._until(None), locked.expires_at)), default=None)
        by = f"approved by {locked.approved_by}; " if locked.approved_by else ""
        try:
            yes = await self._plan(
                person, pin, f"{by}lock file signed by {signer}", "pins.import", until
            )
        except Forbidden:
            return "refused"
        return "filed" if (await self._carry_out(person, yes))["filed"] else "approved"

    def _obstacle(self, pin: Pin, locked: LockedPin) -> str:
        if pin.status is PinStatus.REVOKED:
            return "revoked"
        if str(pin.observed.digest) != locked.digest:
            return "differs"
        if has_moved(pin):
            return "moved"
        if pin.status is PinStatus.APPROVED and not is_changed(pin):
            return "unchanged"
        expired = locked.expires_at is not None and locked.expires_at <= self._clock()
        return "expired" if expired else ""

    def _until(self, expires_s: float | None) -> float | None:
        """Return when an approval of now ends: the earlier of what was asked and what is allowed."""
        if expires_s is not None and not expires_s > 0:
            raise BadCommand("an approval expires after more than no seconds")
        spans = [span for span in (expires_s, self._expire_s()) if span is not None]
        return self._clock() + min(spans) if spans else None

    def _difference(self, pin: Pin, elsewhere: Elsewhere | None = None) -> Row:
        server = pin.target.server
        known = elsewhere or self._names_elsewhere(server)
        return difference_row(
            pin,
            self._compared.of(pin, known),
            rule=self._rule(server),
            labelled=pin.target.name in self._labelled(server),
        )

    def _names_elsewhere(self, server: UpstreamId) -> Elsewhere:
        return Elsewhere.of(tools_elsewhere(self._pins.all(), server))

    def _change_of(self, pin: Pin) -> Difference:
        return self._compared.of(pin, self._names_elsewhere(pin.target.server)).change

    async def _plan(
        self, person: Person, pin: Pin, note: str, method: str, until: float | None
    ) -> _Yes:
        """Return the person's approval of what `pin` shows; nothing has been recorded by then.

        Raises:
            Forbidden: It does not count.
            PolicyUnavailable: Policy does not say how many are needed.

        """
        difference = await beside(person, self._change_of, pin)
        people = await self._policy.pin_approvals(question_about(pin.observed, difference))
        given: dict[str, Any] = {
            "expected": str(pin.observed.digest),
            "identity": pin.observed.identity,
            "by": person.name,
            "note": note,
            "user_id": person.user_id,
            "people": people,
            "counts": self._may_approve,
            "expires_at": until,
        }
        after = approved_pin(pin, at=self._clock(), change=difference, **given)
        evidence = evidence_of(difference)
        if pin.observed.identity:
            evidence += (("address", pin.observed.identity),)
        if people > 1:
            evidence += (("people", f"{len(after.filed) or people} of {people}"),)
        if until is not None:
            evidence += (("expires", rfc3339(until) or ""),)
        code = "filed" if after.filed else "approved"
        digest = str(pin.observed.digest)
        change = _change(pin, method, code, note=note, digest=digest, evidence=evidence)
        return _Yes(pin=pin, given=given, change=change)

    async def _carry_out(self, person: Person, yes: _Yes) -> Row:
        act = partial(self._pins.approve, yes.pin.target, yes.pin.profile, **yes.given)
        after = await self._journal.make(person, yes.change, act)
        return {**row_of(after), "people": yes.given["people"]}

    def _against(self, lock: Mapping[str, Any], key: str) -> Rows:
        wanted = {(item.target, item.profile): item for item in open_lock(lock, key)}
        problems = []
        for place, item in wanted.items():
            pin = self._pins.find(*place)
            if pin is None:
                problems.append({**locked_row(item), "problem": "in the lock file, not seen"})
            elif approved_digest(pin) != item.digest:
                problems.append({**row_of(pin), "problem": "not what the lock file approved"})
        problems += [
            {**row_of(pin), "problem": "approved here, not in the lock file"}
            for pin in self._all(None)
            if approved_digest(pin) and (pin.target, pin.profile) not in wanted
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


def _require_same(pin: Pin, seen: Reviewed) -> None:
    shown = str(pin.observed.digest), pin.observed.identity
    if shown != (seen.digest, seen.address):
        raise PinMismatch(
            f"{pin.target} has changed since it was looked at; look again, then approve",
            detail=f"shows {' at '.join(shown)}, reviewed was {seen.digest} at {seen.address}",
        )


def _change(
    pin: Pin,
    method: str,
    code: str,
    *,
    note: str,
    digest: str,
    evidence: tuple[tuple[str, str], ...] = (),
) -> Change:
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
        evidence=evidence,
    )
