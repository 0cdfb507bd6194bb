"""What was allowed to, or asked for, those who are not there any more."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from gateway.admin.departures import Departures
from gateway.admin.journal import Journal
from gateway.domain.approvals import ApprovalRequest
from gateway.errors import GatewayError
from gateway.oauth.present import Present
from gateway.pipeline.debts import Debts
from gateway.ports import ApprovalStore
from gateway.wiring.foundation import new_id, now
from gateway.wiring.identity import Identity

_EVERY_S: Final = 2.0

logger = logging.getLogger(__name__)


async def ended_with_whom(
    identity: Identity,
    debts: Debts,
    questions: ApprovalStore,
    planes: Callable[[], Mapping[str, float]],
    *,
    elsewhere: bool,
) -> None:
    """End, until cancelled, what is owed or asked by clients, people and planes that are gone.

    Whoever was, and is there again when it is looked, has nothing of before all the same.

    `elsewhere` is as `Present` has it.
    """
    stores = identity.store.identity
    present = Present(
        users=stores.users, clients=stores.clients, planes=planes, elsewhere=elsewhere
    )

    def of_question(request: ApprovalRequest) -> str:
        found = present.absence(
            plane=request.plane,
            user_id=request.user_id,
            client_id=request.client_id,
            client_name=request.client_name,
        )
        return found.since(request.asked_at)

    journal = Journal(identity.store.audit, clock=now, new_id=new_id)
    departures = Departures(
        questions, journal, claims=identity.store.claims, lacking=of_question, clock=now
    )
    while True:
        try:
            await debts.end_without(present.of)
            await departures.settle()
        except GatewayError as error:
            # What is owed counts all the same, and nobody who is gone can ask.
            logger.warning("what nobody is there for could not be ended: %s", error.detail)
        await asyncio.sleep(_EVERY_S)
