"""What waits, in numbers: cheap enough to be asked again and again."""

import asyncio

from gateway.admin.approvals import ApprovalDesk
from gateway.admin.operations import ServerStatus
from gateway.admin.person import Person, Role
from gateway.admin.pin_rows import times_told, waits
from gateway.admin.rows import Row
from gateway.admin.stop import StopDesk
from gateway.ports import PinStore


class CountDesk:
    def __init__(
        self, approvals: ApprovalDesk, pins: PinStore, servers: ServerStatus, stop: StopDesk
    ) -> None:
        self._approvals = approvals
        self._pins = pins
        self._servers = servers
        self._stop = stop

    async def waiting(self, person: Person) -> Row:
        """Return how many questions and definitions wait, how many servers fail, and whether all is stopped.

        Nothing of it says what any is about, and nothing is read for it that is on record. What both
        families of revisions show alike is one definition.

        Raises:
            Forbidden: The person has no role at the desk.

        """
        person.need(Role.APPROVER, Role.AUDITOR, Role.ADMIN)
        return await asyncio.to_thread(self._counted, person)

    def _counted(self, person: Person) -> Row:
        return {
            "questions": len(self._approvals.waiting(person)),
            "definitions": times_told(filter(waits, self._pins.all())),
            "failing": sum(row["status"] == "failing" for row in self._servers()),
            "stopped": self._stop.row()["stopped"],
        }
