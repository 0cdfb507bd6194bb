"""Compares what upstreams show with what a person approved, and writes down what changed."""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.nodes import amount, most_nodes
from gateway.domain.tools import (
    Disposition,
    Kind,
    Manifest,
    Pin,
    PinStatus,
    Profile,
    Sighting,
    UpstreamId,
)
from gateway.errors import PolicyUnavailable
from gateway.pins.catalog import Rejected, read_list
from gateway.pins.diff import pin_question
from gateway.pins.names import tools_elsewhere
from gateway.pins.visible import visible
from gateway.ports import AuditLog, Clock, PinStore, PolicyEngine
from gateway.turns import QUICK_NODES, finished, in_steps

logger = logging.getLogger(__name__)

_MOST_TOLD = 10_000
"""Items that cannot be pinned, of all servers, that are remembered as recorded."""

_MOST_TOLD_AT_ONCE = 100
"""Of one list: names that are made up anew for each must not fill the log."""

_MOST_PINS = 10_000
"""Of one kind, of one server: pages that never end must not fill the disk."""


class PinKeeper:
    """The one way a sighting reaches the pins, whoever saw it: the crawler or a relayed list."""

    def __init__(
        self,
        *,
        pins: PinStore,
        policy: PolicyEngine,
        audit: AuditLog,
        clock: Clock,
        new_id: Callable[[], str],
        identities: Mapping[UpstreamId, str],
        exclude_meta: frozenset[str] = frozenset(),
    ) -> None:
        """`identities` say of each server where it is: pins are of that server and no other."""
        self._pins = pins
        self._policy = policy
        self._audit = audit
        self._clock = clock
        self._new_id = new_id
        self._identities = identities
        self._exclude_meta = exclude_meta
        self._versions: dict[tuple[UpstreamId, Profile], str] = {}
        self._told: set[tuple[str, str, str]] = set()

    async def seen(
        self,
        server: UpstreamId,
        profile: Profile,
        kind: Kind,
        items: Sequence[Mapping[str, Any]],
        server_version: str,
    ) -> Collection[str]:
        """Take note of a whole list of `kind`, as the crawler read it.

        Return the names under which it shows something else than what is in force there: what cannot
        be pinned, and what policy keeps the approved definition in force beside; empty for what has
        no pin, however many there are.
        """
        shown, refused = await self._compared(server, profile, kind, items, server_version)
        known = await self._known(server, profile, kind)
        apart = [one.name for one in refused]
        apart += [one.target.name for one in shown if _is_outdone(known.get(one.target.name), one)]
        return frozenset(name if name in known else "" for name in apart)

    def compared_with(self, server: UpstreamId) -> object:
        """Return what is equal as long as the same list would be compared with the same pins."""
        return self._pins.version, self._identities[server], self._exclude_meta

    async def compare(
        self,
        server: UpstreamId,
        profile: Profile,
        kind: Kind,
        items: Sequence[Any],
        server_version: str = "",
    ) -> list[Manifest]:
        """Take note of `items`, durably, and return the definitions that they are, in their order.

        An item that cannot be pinned, because it is malformed or ambiguous, is none.

        Raises:
            AuditUnavailable: A change could not be recorded; nothing of it, or of any after it, was stored.

        """
        return (await self._compared(server, profile, kind, items, server_version))[0]

    async def _compared(
        self,
        server: UpstreamId,
        profile: Profile,
        kind: Kind,
        items: Sequence[Any],
        server_version: str,
    ) -> tuple[list[Manifest], Sequence[Rejected]]:
        """Return what `compare` does, and the items that cannot be pinned."""
        if server_version:
            self._versions[server, profile] = server_version
        known = await self._known(server, profile, kind)
        reading = await finished(
            f"what {server} shows",
            amount(items, QUICK_NODES),
            partial(
                read_list,
                server,
                profile,
                kind,
                items,
                self._versions.get((server, profile), ""),
                identity=self._identities[server],
                exclude_meta=self._exclude_meta,
                approved=frozenset(name for name, pin in known.items() if pin.approved is not None),
            ),
        )
        known = await self._known(server, profile, kind)
        shown, beyond = _that_fit(reading.manifests, known)
        rejected = (*beyond, *reading.rejected)
        await self._tell_rejected(server, kind, _that_are_told(rejected))
        changed = [
            manifest
            async for some in in_steps(shown)
            for manifest in some
            if (pin := known.get(manifest.target.name)) is None
            or not manifest.is_same(pin.observed)
        ]
        elsewhere = tools_elsewhere(self._pins.all() if changed else (), server)
        async for some in in_steps(changed):  # what others record waits for a transaction
            await self._note(some, elsewhere)
        return shown, rejected

    async def _known(self, server: UpstreamId, profile: Profile, kind: Kind) -> dict[str, Pin]:
        return {
            pin.target.name: pin
            async for some in in_steps(self._pins.all(server))
            for pin in some
            if pin.profile is profile and pin.target.kind is kind
        }

    async def _note(self, manifests: Sequence[Manifest], elsewhere: frozenset[str]) -> None:
        now = self._clock()
        sightings = []
        for manifest in manifests:
            pin = self._pins.find(manifest.target, manifest.profile)
            beside = None if pin is None else pin.approved or pin.observed
            question = await _question(beside, manifest, elsewhere)
            moved = _has_moved(pin, manifest)
            # Policy judges what changed in a definition; whose it is only a person can judge.
            disposition = Disposition.HOLD if moved else await self._disposition(question)
            await self._audit.append(self._record(manifest, question, disposition, now, moved))
            sightings.append(
                Sighting(
                    manifest=manifest,
                    disposition=disposition,
                    judged_beside=beside,
                    told=question["change"],
                    seen_at=now,
                )
            )
        await self._pins.observe(sightings)
        _tell(sightings)

    async def _disposition(self, question: Mapping[str, Any]) -> Disposition:
        # `data.douane.pin` is a convenience; without an answer a person decides.
        try:
            return Disposition(await self._policy.judge_pin(question))
        except (PolicyUnavailable, ValueError):
            return Disposition.HOLD

    async def _tell_rejected(
        self, server: UpstreamId, kind: Kind, rejected: Sequence[Rejected]
    ) -> None:
        """Record each item that cannot be pinned once, not at every list that repeats it."""
        for item in rejected:
            key = (server, item.name, item.reason)
            if key not in self._told:
                fields = {
                    "server": server,
                    "target": item.name,
                    "code": "unpinnable",
                    "verdict": "deny",
                    "reasons": [{"code": f"{kind.value}_refused", "message": item.reason}],
                }
                await self._audit.append(
                    AuditRecord(
                        kind=RecordKind.PIN, time=self._clock(), id=self._new_id(), fields=fields
                    )
                )
                if len(self._told) >= _MOST_TOLD:
                    # A server that makes up names without end is told of again, and fills nothing.
                    self._told.clear()
                self._told.add(key)

    def _record(
        self,
        manifest: Manifest,
        question: Mapping[str, Any],
        disposition: Disposition,
        now: float,
        moved: bool,
    ) -> AuditRecord:
        change = question["change"]
        message = f"tier {change['tier']}; {', '.join(change['fields'][:20]) or 'whole definition'}"
        fields = {
            "server": manifest.target.server,
            "target": manifest.target.name,
            "method": manifest.target.kind.value,
            "pin_digest": str(manifest.digest),
            "code": "observed" if change["tier"] == "new" else "changed",
            "verdict": disposition.value,
            "policy_digest": self._policy.digest,
            "reasons": [
                {"code": f"tier_{change['tier']}", "message": message},
                *([{"code": "moved", "message": "the server is at another address"}] * moved),
            ],
        }
        return AuditRecord(kind=RecordKind.PIN, time=now, id=self._new_id(), fields=fields)


def _tell(sightings: Sequence[Sighting]) -> None:
    """Say in the log what an operator may have to look at; what is new waits for them in the list."""
    new = Counter(one.manifest.target.server for one in sightings if one.judged_beside is None)
    for server, count in new.items():
        logger.info("%s: %d definitions are new, and wait for approval", server, count)
    for one in [one for one in sightings if one.judged_beside is not None][:_MOST_TOLD_AT_ONCE]:
        target = one.manifest.target
        named = f"{target.server}: the {target.kind.value} {visible(target.name)}"
        if one.disposition is Disposition.HOLD:
            logger.warning("%s has changed, and waits for a person: `douane pins review`", named)
        else:
            logger.info("%s has changed, and policy says %s", named, one.disposition.value)


def _that_fit(
    manifests: Sequence[Manifest], known: Mapping[str, Pin]
) -> tuple[list[Manifest], list[Rejected]]:
    """Return which `manifests` are pinned; what is new beyond the bound is not."""
    room = _MOST_PINS - len(known)
    fit: list[Manifest] = []
    beyond: list[Rejected] = []
    for manifest in manifests:
        if manifest.target.name not in known:
            room -= 1
            if room < 0:
                beyond = [Rejected(name="", reason=f"more than {_MOST_PINS} of its kind")]
                continue
        fit.append(manifest)
    return fit, beyond


def _that_are_told(rejected: Sequence[Rejected]) -> Sequence[Rejected]:
    if len(rejected) <= _MOST_TOLD_AT_ONCE:
        return rejected
    more = Rejected(name="", reason=f"more than {_MOST_TOLD_AT_ONCE} of one list cannot be pinned")
    return (*rejected[:_MOST_TOLD_AT_ONCE], more)


async def _question(
    beside: Manifest | None, shown: Manifest, elsewhere: frozenset[str]
) -> dict[str, Any]:
    """Return what policy is asked about `shown`; all text of both is searched for what looks bad."""
    both = [one.definition.canonical for one in (beside, shown) if one is not None]
    asked = partial(pin_question, beside, shown, elsewhere=elsewhere)
    return await finished(
        f"what {shown.target.server} shows", most_nodes(sum(map(len, both))), asked
    )


def _is_outdone(pin: Pin | None, manifest: Manifest) -> bool:
    """Whether another definition is in force than the one that is shown."""
    approved = pin.approved if pin is not None and pin.status is PinStatus.APPROVED else None
    return approved is not None and not approved.is_same(manifest)


def _has_moved(pin: Pin | None, manifest: Manifest) -> bool:
    return pin is not None and (pin.approved or pin.observed).identity != manifest.identity
