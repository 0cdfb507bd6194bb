"""Pins in a database, read from memory."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

from gateway.domain.epoch import Epoch
from gateway.domain.tools import Pin, Profile, Sighting, Target, UpstreamId
from gateway.errors import PinMismatch
from gateway.pins.diff import Change, classify
from gateway.pins.names import tools_elsewhere
from gateway.pins.observe import approved_pin, observed, revoked_pin, with_body
from gateway.ports import Clock
from gateway.storage.pin_rows import PinRows
from gateway.storage.pin_table import PinKey, PinTable, pin_key
from gateway.storage.state import StateWriter, Tables
from gateway.turns import QUICK_NODES, finished

_ROWS: Final = PinRows()


class DurablePinStore:
    """A `PinStore`. Memory holds what is committed, and nothing else."""

    kept_in = ("pins",)

    def __init__(
        self,
        writer: StateWriter,
        tables: Tables,
        *,
        clock: Clock,
        epoch: Epoch,
        rows: PinRows = _ROWS,
    ) -> None:
        """Load every pin through `tables`, which are not needed afterwards."""
        self._writer = writer
        self._clock = clock
        self._rows = rows
        self._pins = PinTable(epoch)
        self.look(tables, None)()

    def look(self, tables: Tables, keys: Collection[str] | None) -> Callable[[], object]:
        """Show pins that others have written; see `Remembering`. None is ever taken out."""
        rows = self._rows
        return partial(
            self._pins.put, rows.all(tables) if keys is None else rows.under(tables, keys)
        )

    def find(self, target: Target, profile: Profile) -> Pin | None:
        return self._pins.find(target, profile, self._clock())

    def all(self, server: UpstreamId | None = None) -> Sequence[Pin]:
        return self._pins.all(server, self._clock())

    @property
    def version(self) -> int:
        return self._pins.version(self._clock())

    async def observe(self, sightings: Sequence[Sighting]) -> Sequence[Pin]:
        """Note what upstreams show, in one transaction, durable on return; see `PinStore`."""
        if not any(observed(self._pins.committed(*sighted(each)), each) for each in sightings):
            return ()

        now = self._clock()

        def job(tables: Tables) -> list[Pin]:
            changed: dict[PinKey, Pin] = {}
            for sighting in sightings:
                pin = observed(self._rows.read(tables, sighted(sighting), now), sighting)
                if pin is not None:
                    self._rows.write(tables, pin)
                    changed[pin_key(pin)] = pin
            return list(changed.values())

        return await self._writer.run(job, committed=self._pins.put)

    async def approve(
        self,
        target: Target,
        profile: Profile,
        *,
        expected: str,
        identity: str | None = None,
        by: str,
        note: str,
        user_id: str = "",
        people: int = 1,
        counts: Callable[[str], bool] = lambda _: False,
        expires_at: float | None = None,
    ) -> Pin:
        """Approve what was last observed, durable on return; see `PinStore`."""
        now = self._clock()
        seen = known(self.find(target, profile), target)
        change = await finished(by, QUICK_NODES + 1, self._compared, seen)

        def job(tables: Tables) -> list[Pin]:
            pin = known(self._rows.read(tables, (target, profile), now), target)
            if (pin.approved, pin.observed) != (seen.approved, seen.observed):
                raise PinMismatch("the definition has changed since it was looked at")
            pin = approved_pin(
                pin,
                expected=expected,
                identity=identity,
                by=by,
                at=now,
                note=note,
                user_id=user_id,
                people=people,
                counts=counts,
                expires_at=expires_at,
                change=change,
            )
            return [self._rows.write(tables, pin)]

        return (await self._writer.run(job, committed=self._pins.put))[0]

    def _compared(self, pin: Pin) -> Change:
        """Compare what a pin shows with what was approved: of a large definition that is no quick work."""
        elsewhere = tools_elsewhere(self.all(), pin.target.server)
        return classify(pin.approved, pin.observed, elsewhere=elsewhere)

    async def revoke(self, target: Target, profile: Profile, *, by: str, note: str) -> Pin:  # noqa: ARG002 - the port's; who it was is in the audit log
        """Withdraw the approval, durable on return; see `PinStore`."""
        now = self._clock()

        def job(tables: Tables) -> list[Pin]:
            pin = known(self._rows.read(tables, (target, profile), now), target)
            return [self._rows.write(tables, revoked_pin(pin, note=note))]

        return (await self._writer.run(job, committed=self._pins.put))[0]

    async def keep_body(self, target: Target, profile: Profile, digest: str) -> Pin:
        """Keep what a prompt said when it was first used, durable on return; see `PinStore`."""
        now = self._clock()

        def job(tables: Tables) -> list[Pin]:
            pin = known(self._rows.read(tables, (target, profile), now), target)
            return [self._rows.write(tables, with_body(pin, digest))]

        return (await self._writer.run(job, committed=self._pins.put))[0]


def sighted(sighting: Sighting) -> PinKey:
    """Return which pin a sighting is of."""
    return sighting.manifest.target, sighting.manifest.profile


def known(pin: Pin | None, target: Target) -> Pin:
    """Return the pin, which there is.

    Raises:
        PinMismatch: There is none.

    """
    if pin is None:
        raise PinMismatch("there is no such pin", detail=str(target))
    return pin
