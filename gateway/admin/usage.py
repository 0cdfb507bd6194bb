"""Who used how much of each quota, by what the log says."""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from gateway.admin.person import Person, Role
from gateway.admin.rows import Row, Rows, rfc3339
from gateway.domain.quotas import MILLIONTHS, Charge, Count, Quota
from gateway.errors import NotFound
from gateway.ports import Clock
from gateway.turns import Line

_MOST_ROWS = 1_000


class UsageDesk:
    """Reads what the writer has added up: the same beside a gateway that runs and without one."""

    def __init__(
        self,
        quotas: Callable[[], Sequence[Quota]],
        used: Callable[[], Sequence[Charge]],
        *,
        clock: Clock,
    ) -> None:
        self._quotas = quotas
        self._used = used
        self._clock = clock
        self._line = Line()

    async def list(self, person: Person, *, quota: str = "") -> Rows:
        """Return one row a count of the spans that are not over, the fullest first; at most 1,000.

        A row has `quota`, `of` (what is counted apart, by kind), `count`, `used`, `most`, `until`.
        What is under way has no place in the log: its quotas have a row without `used`.

        Raises:
            Forbidden: The person is neither admin nor auditor.
            NotFound: There is no quota of that name.

        """
        person.need(Role.ADMIN, Role.AUDITOR)
        quotas = [one for one in self._quotas() if quota in ("", one.name)]
        if quota and not quotas:
            raise NotFound("there is no quota of this name; `limits.quotas` has them")
        used = await self._line.take(lambda: asyncio.to_thread(self._used))
        rows = [row for one in quotas for row in _rows(one, used, self._clock())]
        rows.sort(key=lambda row: (-(row["used"] or 0) / (row["most"] or 1), row["quota"]))
        return rows[:_MOST_ROWS]


def _rows(quota: Quota, used: Sequence[Charge], now: float) -> Iterator[Row]:
    begin = 0 if quota.per is None else quota.per.begins(now)
    counts = {one.under: one.amount for one in used if (one.quota, one.begin) == (quota.key, begin)}
    if quota.per is None:
        yield _row(quota, {}, None, None)
        return
    until = rfc3339(begin + quota.per.seconds(begin))
    if not counts and not quota.each:
        counts = {(): 0}
    for under, amount in counts.items():
        of = {each.value: name for each, name in zip(quota.each, under, strict=True)}
        yield _row(quota, of, amount, until)


def _row(quota: Quota, of: dict[str, str], used: int | None, until: str | None) -> Row:
    unit = MILLIONTHS if quota.count is Count.COST else 1
    return {
        "quota": quota.name,
        "of": of,
        "count": quota.count.value,
        "used": None if used is None else used / unit if unit > 1 else used,
        "most": quota.most / unit if unit > 1 else quota.most,
        "until": until,
    }
