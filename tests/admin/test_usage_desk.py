"""Who may see what is used of quotas, and what of it is of the span that runs."""

from typing import Any

import pytest

from gateway.admin.person import Person
from gateway.admin.usage import UsageDesk
from gateway.domain.quotas import MILLIONTHS, Charge, Count, Each, Per, Quota
from gateway.errors import Forbidden, NotFound
from tests.admin.world import ADMIN, APPROVER, AUDITOR, NOW, USER, clock

DAY = Per.DAY.begins(NOW)
MAILS = Quota(name="mails", count=Count.CALLS, most=4, per=Per.DAY, each=(Each.PERSON, Each.TOOL))
MONEY = Quota(name="money", count=Count.COST, most=10 * MILLIONTHS, per=Per.DAY)
AT_ONCE = Quota(name="at-once", count=Count.UNDER_WAY, most=3, per=None)


def charge(quota: Quota, *under: str, begin: int = DAY, amount: int = 1) -> Charge:
    return Charge(quota=quota.key, under=under, begin=begin, amount=amount)


def desk(*used: Charge) -> UsageDesk:
    return UsageDesk(lambda: [AT_ONCE, MAILS, MONEY], lambda: used, clock=clock)


@pytest.mark.parametrize("person", [ADMIN, AUDITOR], ids=["admin", "auditor"])
async def test_admins_and_auditors_see_who_used_what_the_fullest_first(person: Person) -> None:
    rows = await desk(
        charge(MAILS, "user:ada", "mail/tool/send", amount=3),
        charge(MAILS, "user:bob", "mail/tool/send", amount=4),
        charge(MONEY, amount=2_500_000),
    ).list(person)
    until = "2027-01-16T00:00:00.000Z"
    said: list[dict[str, Any]] = [
        {"quota": "mails", "of": {"person": "user:bob", "tool": "mail/tool/send"}, "used": 4},
        {"quota": "mails", "of": {"person": "user:ada", "tool": "mail/tool/send"}, "used": 3},
        {"quota": "money", "of": {}, "used": 2.5, "most": 10.0, "count": "cost"},
        {"quota": "at-once", "of": {}, "used": None, "most": 3, "until": None},
    ]
    defaults = {"count": "calls", "most": 4, "until": until}
    said[3]["count"] = "under_way"
    assert rows == [{**defaults, **one} for one in said]


async def test_what_was_used_in_another_span_or_counted_otherwise_is_not_of_this_one() -> None:
    other = Charge(quota="money/calls/day/", under=(), begin=DAY, amount=9)
    rows = await desk(charge(MONEY, begin=DAY - 86_400, amount=9), other).list(ADMIN, quota="money")
    assert [row["used"] for row in rows] == [0]


async def test_a_quota_that_is_not_there_is_told() -> None:
    with pytest.raises(NotFound, match="no quota of this name"):
        await desk().list(ADMIN, quota="mial")


@pytest.mark.parametrize("person", [USER, APPROVER], ids=["user", "approver"])
async def test_nobody_else_does(person: Person) -> None:
    with pytest.raises(Forbidden):
        await desk().list(person)
