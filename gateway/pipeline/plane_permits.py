"""Stages 2 to 8 as planes have them: before a yes is given, its intent and its debt are durable."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from gateway.domain.audit import AuditRecord
from gateway.domain.calls import Call, Permit
from gateway.domain.labels import STRICTEST_DEFAULT, Label
from gateway.domain.nodes import most_nodes
from gateway.domain.planes import Plane
from gateway.pipeline.admission import Admission
from gateway.pipeline.debts import Debts
from gateway.pipeline.labels import Labeller
from gateway.pipeline.plane_limits import PlaneLimits
from gateway.pipeline.plane_records import turn_of
from gateway.pipeline.recording import recorded
from gateway.pipeline.trail import Trail
from gateway.ports import Ledger
from gateway.turns import QUICK_NODES, finished


class PlanePermits:
    def __init__(
        self,
        *,
        admission: Admission,
        possible: PlaneLimits,
        labels: Labeller,
        debts: Debts,
        ledger: Ledger,
    ) -> None:
        """Take an `admission` that knows principals by what registered planes say of them."""
        self._admission = admission
        self._possible = possible
        self._labels = labels
        self._debts = debts
        self._ledger = ledger

    async def caught_up(self) -> bool:
        """Have memory show what other processes have changed; see `Ledger`."""
        return await self._ledger.caught_up()

    async def narrowed(self, plane: Plane, call: Call) -> Call:
        """Return `call` without what nobody has approved of it, if one more may be owed.

        Raises:
            GatewayError: It may not, or is refused by its form.

        """
        self._debts.require_room(plane, call)
        nodes = most_nodes(len(call.message.body))
        if nodes <= QUICK_NODES:
            return self._admission.narrowed(call)
        return await finished(turn_of(plane, call), nodes, self._admission.narrowed, call)

    async def permitted(
        self,
        plane: Plane,
        call: Call,
        trail: Trail,
        require: Callable[[Permit], None] = lambda _: None,
    ) -> Permit:
        """Return by what the result of `call` is judged, which a plane may carry; its intent, and what is
        owed, are durable.

        `require` raises what else stands against it, before that is on record.

        Raises:
            GatewayError: It may not, or a change meanwhile has ended that.

        """
        permit = await self._admission.permit(call, trail)
        await self._possible.require_possible(plane, permit)
        require(permit)
        record, kept = partial(self._recorded, permit, trail), permit.waiting
        if permit.access is None:
            await record()
        else:
            await self._debts.owe(plane, kept, trail, self._worst(permit), record)
        return kept

    async def going(self, permit: Permit) -> Call:
        """Return the call as it goes to its server: beside it a run that has read says nothing."""
        return (await self._admission.asides.going(permit)).call

    def headed(self, permit: Permit) -> Call:
        """Return the call with the head under which it goes: its plane sends the rest as it was written."""
        return replace(permit.call, headers=self._admission.asides.heads(permit))

    async def _recorded(
        self, permit: Permit, trail: Trail, intent: AuditRecord | None = None
    ) -> None:
        """Have the intent on record, of what may be told a plane still.

        Raises:
            GatewayError: It may not; whatever is on record of it by then has one outcome, this.

        """
        await recorded(self._ledger, self._admission, permit, trail, intent)
        self._admission.require_unchanged(permit)

    def _worst(self, permit: Permit) -> Label:
        """Return what the permitted call may bring at worst: nobody here has read what it does."""
        return self._labels.of_result(permit).join(STRICTEST_DEFAULT)
