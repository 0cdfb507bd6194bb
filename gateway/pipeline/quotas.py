"""How much of each quota is used: exact in memory, and as durable as the records that say so.

A call is charged in one go with nothing awaited, so of a hundred at once exactly as many pass as
there is room for. What it was charged stands in its intent, and whoever writes that into the log adds
it up there: a restart finds what went out, and at most what was under way beside.
"""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from gateway.domain.calls import AccessRequest, Call
from gateway.domain.decisions import Decision, Verdict
from gateway.domain.flow import Run
from gateway.domain.identity import Principal
from gateway.domain.quotas import MILLIONTHS, Charge, Count, Counted, Quota
from gateway.domain.tools import Kind, Pin, Target
from gateway.errors import AuditUnavailable, Limit, RateLimited
from gateway.pipeline.counts import Counts, Due, Taken
from gateway.pipeline.decide import Subject, told
from gateway.ports import Clock
from gateway.ports.allowance import SharedCounts, Use, Used

logger = logging.getLogger(__name__)

PRICE: Final = "douane/price"
"""The member of a definition's `_meta` by which a server prices its tool, once a person approved it."""

_AGAIN_S: Final = 1.0
_MOST_PRICE: Final = 1_000_000
_ONCE: Final = "once"
_UNITS: Final = {
    Count.CALLS: "requests",
    Count.BYTES: "content-bytes",
    Count.COST: "cost",
    Count.UNDER_WAY: "concurrent-requests",
}
"""As header fields name them; the draft has no word for `cost`."""


class Quotas:
    """Tells policy what is used of each quota, and holds calls to them whatever it says."""

    def __init__(
        self,
        quotas: Iterable[Quota],
        *,
        prices: Mapping[tuple[str, str], int],
        clock: Clock,
        kept: Iterable[Charge] = (),
        shared: SharedCounts | None = None,
    ) -> None:
        """Begin with what was `kept` of each; `prices` are by server and tool, in millionths.

        With `shared` counts they hold for all gateways together. What policy is told is then what
        this one knows: of each count, what it was at its own last call.
        """
        self._shared = shared
        self._telling: set[asyncio.Task[None]] = set()
        self._untold: list[Use] = []
        """What all gateways were to count, and could not be told."""
        self._prices = prices
        self._clock = clock
        self._all = {quota.key: Counts(quota) for quota in quotas}
        named = {server for one in self._all.values() for server in one.quota.servers}
        self.are_set: Final = bool(self._all)
        """Whether any call may be one that a quota is about."""
        self._anywhere = self._about("")
        self._at = {server: self._about(server) for server in named}
        for charge in kept:
            if (counts := self._all.get(charge.quota)) is not None:
                counts.turn(charge.begin)
                counts.add(charge.under, charge.begin, charge.amount)

    def _about(self, server: str) -> tuple[Counts, ...]:
        every = self._all.values()
        return tuple(one for one in every if not one.quota.servers or server in one.quota.servers)

    def fullest(self) -> Mapping[str, Callable[[], float]]:
        """Return for each quota, by its name, what tells the greatest share that is used of it."""
        return {one.quota.name: partial(self._share, one) for one in self._all.values()}

    def _share(self, counts: Counts) -> float:
        counts.turn(self._clock())
        used = max(counts.used.values(), default=0)
        return used / counts.quota.most if counts.quota.most else 1.0

    def price_by(self, prices: Mapping[tuple[str, str], int]) -> None:
        """Charge by other prices from now on."""
        self._prices = prices

    def due(self, call: Call, principal: Principal, run: Run, subject: Subject) -> tuple[Due, ...]:
        """Return what a call would use; nothing, if no quota is about it."""
        found = self._at.get(subject.target.server, self._anywhere)
        if not found:
            return ()
        counted = Counted(
            principal=principal, run=run.id, target=subject.target, effect=subject.effect
        )
        return tuple(
            Due(counts=counts, under=under, amount=self._amount(counts.quota, call, subject))
            for counts in found
            if counts.quota.is_about(counted)
            for under in counts.quota.counts_of(counted)
        )

    def facts(self, due: Sequence[Due]) -> Mapping[str, Any]:
        """Return what policy is told of what a call would use, and of what has no room for it."""
        now = self._clock()
        for one in due:
            one.counts.turn(now)
        return {
            "over": [_fact(one) for one in due if not one.fits],
            "counts": [_fact(one) for one in due],
        }

    async def take(self, due: Sequence[Due], access: AccessRequest) -> Taken:
        """Charge a call that is to go out.

        Of what a person's answer to this very call lets pass, there need not be enough.

        Raises:
            RateLimited: There is not enough of something, and nothing was charged.
            AuditUnavailable: Other gateways count as well, and nobody knows how much there is.

        """
        now = self._clock()
        for one in due:
            one.counts.turn(now)
        raised = _raised(access)
        over = [one for one in due if not one.fits and one.counts.quota.name not in raised]
        if over:
            raise self._refusal(over, now)
        for one in due:
            one.counts.add(one.under, one.counts.begin, one.amount)
        taken = Taken([(one, one.counts.begin) for one in due], self._tell)
        if self._shared is not None:
            await self._take_of(self._shared, due, taken, raised)
        return taken

    async def _take_of(
        self, shared: SharedCounts, due: Sequence[Due], taken: Taken, raised: frozenset[str]
    ) -> None:
        """Charge at all gateways what was charged here, or nowhere."""
        begins = [one.counts.begin for one in due]
        uses = [
            one.use(
                begin,
                one.amount,
                most=None if one.counts.quota.name in raised else one.counts.quota.most,
            )
            for one, begin in zip(due, begins, strict=True)
        ]
        adding = asyncio.ensure_future(shared.add(uses))
        try:
            found = await asyncio.shield(adding)
        except asyncio.CancelledError:
            self._go_on(self._given_back(adding, taken))  # it may be charged, whoever waits
            raise
        except BaseException:
            taken.forget()
            raise
        over = [one for one, used in zip(due, found, strict=True) if not used.fits]
        if over:
            taken.forget()
        for one, begin, used in zip(due, begins, found, strict=True):
            if one.counts.quota.per is not None:
                one.counts.learn(one.under, begin, used.used)
        if over:
            raise self._refusal(over, self._clock())

    def _tell(self, uses: Sequence[Use]) -> None:
        """Have all gateways count what was given back, or came beside; nobody waits for that."""
        if self._shared is None or not uses:
            return
        self._go_on(self._told_to(self._shared, uses))

    def _go_on(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    @staticmethod
    async def _given_back(adding: Awaitable[Sequence[Used]], taken: Taken) -> None:
        """Take back what is being charged, once that is done."""
        try:
            found = await adding
        except AuditUnavailable:
            found = ()
        if found and all(used.fits for used in found):
            taken.give_back()
        else:
            taken.forget()

    async def _told_to(self, shared: SharedCounts, uses: Sequence[Use]) -> None:
        try:
            await shared.add(uses)
        except AuditUnavailable as error:
            is_first = not self._untold
            self._untold += uses
            if is_first:
                logger.warning("what was used of quotas is not counted yet: %s", error.detail)
                await self._told_again(shared)

    async def _told_again(self, shared: SharedCounts) -> None:
        """Have all that nobody could be told be counted: what is not given back stays under way for good.

        What was counted, and no answer came of it, is given back twice; of an outage that is one at most.
        """
        while self._untold:
            await asyncio.sleep(_AGAIN_S)
            untold = tuple(self._untold)
            with suppress(AuditUnavailable):
                await shared.add(_together(untold))
                del self._untold[: len(untold)]

    def require_not_used_up(self, due: Sequence[Due], decision: Decision) -> None:
        """Return unless all that policy has against a call is that a quota is used up.

        Raises:
            RateLimited: It is so, and says when there is more.

        """
        if decision.verdict is not Verdict.DENY:
            return
        if {reason.code for reason in decision.reasons} != {RateLimited.code}:
            return
        over = [one for one in due if not one.fits]
        if over:
            raise self._refusal(over, self._clock(), reasons=told(decision))

    def _amount(self, quota: Quota, call: Call, subject: Subject) -> int:
        match quota.count:
            case Count.BYTES:
                return len(call.message.body)
            case Count.COST:
                return self._price(subject.target, subject.pin)
            case Count.CALLS | Count.UNDER_WAY:
                return 1

    def _price(self, target: Target, pin: Pin) -> int:
        """Return what the configuration says a tool costs, or else its approved definition."""
        if target.kind is not Kind.TOOL:
            return 0
        price = self._prices.get((target.server, target.name))
        return _price_in(pin) if price is None else price

    def _refusal(
        self, over: Sequence[Due], now: float, *, reasons: Sequence[tuple[str, str]] = ()
    ) -> RateLimited:
        waits = [one.counts.wait_s(now) for one in over]
        return RateLimited(
            "; ".join(_why(one, wait) for one, wait in zip(over, waits, strict=True)),
            reasons=[] if reasons else [("quota_used_up", one.counts.quota.name) for one in over],
            wait_s=max(waits),
            limits=[
                Limit(
                    name=one.counts.quota.name,
                    most=one.counts.quota.most,
                    unit=_UNITS[one.counts.quota.count],
                    span_s=None
                    if one.counts.quota.per is None
                    else one.counts.quota.per.seconds(one.counts.begin),
                    left=one.counts.left(one.under),
                    wait_s=wait,
                )
                for one, wait in zip(over, waits, strict=True)
            ],
        )


def _together(uses: Iterable[Use]) -> Sequence[Use]:
    """Return the same with one use of each count, which no statement changes twice."""
    amounts: Counter[tuple[str, tuple[str, ...], int]] = Counter()
    for one in uses:
        amounts[one.quota, one.under, one.begin] += one.amount
    return [
        Use(quota=quota, under=under, begin=begin, amount=amount)
        for (quota, under, begin), amount in amounts.items()
        if amount
    ]


def _raised(access: AccessRequest) -> frozenset[str]:
    """Return the quotas that a person's answer lets this one call go beyond: those it was asked with."""
    answer = access.asked.get("approval")
    if not isinstance(answer, Mapping) or answer.get("span") != _ONCE:
        return frozenset()
    return frozenset(one["quota"] for one in access.asked["usage"]["over"])


def _price_in(pin: Pin) -> int:
    """Return the price in an approved definition; what is no number from 0 to a million is the most.

    A server that prices its tool and cannot be understood is not thereby free of charge.
    """
    meta = None if pin.approved is None else pin.approved.definition.content.get("_meta")
    if not isinstance(meta, Mapping) or PRICE not in meta:
        return 0
    price = meta[PRICE]
    if isinstance(price, bool) or not isinstance(price, int | float):
        return _MOST_PRICE * MILLIONTHS
    return (
        math.ceil(min(price, _MOST_PRICE) * MILLIONTHS) if price >= 0 else _MOST_PRICE * MILLIONTHS
    )


def _fact(due: Due) -> dict[str, Any]:
    counts = due.counts
    quota, used = counts.quota, counts.used.get(due.under, 0)
    unit = MILLIONTHS if quota.count is Count.COST else 1
    return {
        "quota": quota.name,
        "count": quota.count.value,
        "per": "" if quota.per is None else quota.per.value,
        "most": _in_units(quota.most, unit),
        "used": _in_units(used, unit),
        "left": _in_units(max(0, quota.most - used), unit),
        "until": "" if quota.per is None else _time(counts.begin + quota.per.seconds(counts.begin)),
    }


def _in_units(amount: int, unit: int) -> int | float:
    return amount if unit == 1 else amount / unit


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _why(due: Due, wait_s: int) -> str:
    fact = _fact(due)
    if due.counts.quota.per is None:
        return (
            f"as many calls are under way as the quota {fact['quota']} allows ({fact['most']}): "
            "wait until one of them has ended"
        )
    used = f"{fact['used']} of {fact['most']} {fact['count']} a {fact['per']}"
    return (
        f"the quota {fact['quota']} has no room for this ({used} are used): it begins anew at "
        f"{fact['until']}, in {wait_s} seconds; an operator can raise it under `limits.quotas`"
    )
