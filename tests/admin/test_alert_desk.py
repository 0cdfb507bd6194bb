"""Who sees webhooks and what is known, and who may send a test."""

import pytest

from gateway.admin.alerts import AlertDesk
from gateway.admin.person import Person
from gateway.domain.audit import RecordKind
from gateway.errors import AuditUnavailable, Forbidden, NotFound
from tests.admin.world import ADMIN, APPROVER, AUDITOR, USER, Alerting, World


class Asked(Alerting):
    def __init__(self) -> None:
        self.pinged: list[str] = []

    async def ping(self, name: str) -> int:
        self.pinged.append(name)
        return await super().ping(name)


@pytest.mark.parametrize("person", [ADMIN, AUDITOR], ids=["admin", "auditor"])
async def test_admins_and_auditors_see_webhooks_and_how_much_is_known(person: Person) -> None:
    desk = AlertDesk(Alerting(), World().journal)
    assert await desk.list(person) == [
        {
            "webhook": "ops",
            "host": "hooks.example.com",
            "events": ["approval"],
            "waiting": 2,
            "failing": "it answers with status 500",
        }
    ]
    assert await desk.state(person) == [{"view": "principal", "known": 3, "learned": 1}]


@pytest.mark.parametrize("person", [USER, APPROVER], ids=["user", "approver"])
async def test_nobody_else_does(person: Person) -> None:
    desk = AlertDesk(Alerting(), World().journal)
    with pytest.raises(Forbidden):
        await desk.list(person)
    with pytest.raises(Forbidden):
        await desk.state(person)


async def test_a_test_is_on_record_before_it_is_sent() -> None:
    world, alerting = World(), Asked()
    desk = AlertDesk(alerting, world.journal)
    assert await desk.test(ADMIN, name="ops") == {"webhook": "ops", "status": 204}
    (record,) = world.log.records
    assert record.kind is RecordKind.ADMIN
    assert record.fields["method"] == "alerts.test"
    assert record.fields["reasons"] == [{"code": "tested", "message": "webhook ops"}]


async def test_only_admins_send_one() -> None:
    alerting = Asked()
    with pytest.raises(Forbidden):
        await AlertDesk(alerting, World().journal).test(AUDITOR, name="ops")
    assert alerting.pinged == []


async def test_a_webhook_that_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFound):
        await AlertDesk(Asked(), World().journal).test(ADMIN, name="none")


async def test_what_cannot_be_recorded_is_not_sent() -> None:
    world, alerting = World(), Asked()
    world.log.failure = "disk full"
    with pytest.raises(AuditUnavailable):
        await AlertDesk(alerting, world.journal).test(ADMIN, name="ops")
    assert alerting.pinged == []
