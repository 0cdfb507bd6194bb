"""What all gateways find at once is one's to do, until it had the time for it."""

import pytest

from gateway.errors import AuditUnavailable
from gateway.storage.claims import HELD_S, ProcessClaims


class Elsewhere:
    """Where many processes claim things; what was claimed is kept for a minute more."""

    def __init__(self) -> None:
        self.until: dict[str, float] = {}
        self.silent = False

    async def claim(self, what: str, now: float, until: float) -> bool:
        if self.silent:
            raise AuditUnavailable("nobody can say")
        if self.until.get(what, now) > now:
            return False
        self.until[what] = until + 60
        return True


class Gateways:
    def __init__(self) -> None:
        self.now = 1000.0
        self.elsewhere = Elsewhere()
        self.one, self.other = (self.new() for _ in range(2))

    def new(self) -> ProcessClaims:
        return ProcessClaims(clock=lambda: self.now, elsewhere=self.elsewhere.claim)


async def ours(claims: ProcessClaims, what: str = "a") -> bool:
    async with claims.taken(what) as found:
        return found


async def test_in_one_process_it_is_done_by_one_at_a_time() -> None:
    claims = ProcessClaims(clock=lambda: 0.0)
    async with claims.taken("a") as first:
        assert (first, await ours(claims), await ours(claims, "b")) == (True, False, True)
    assert await ours(claims)


async def test_of_many_gateways_it_is_one_s_also_for_some_time_afterwards() -> None:
    each = Gateways()
    assert (await ours(each.one), await ours(each.other), await ours(each.other, "b")) == (
        True,
        False,
        True,
    )
    each.now += HELD_S - 1
    assert not await ours(each.other)


async def test_whoever_failed_takes_it_again() -> None:
    each = Gateways()
    with pytest.raises(ValueError, match="disk full"):
        async with each.one.taken("a"):
            raise ValueError("disk full")
    assert (await ours(each.one), await ours(each.other)) == (True, False)


async def test_what_a_gateway_that_ended_had_claimed_is_another_s_in_time() -> None:
    each = Gateways()
    assert await ours(each.one)
    each.now += HELD_S + 60
    assert (await ours(each.other), await ours(each.one)) == (True, False)


async def test_what_nobody_can_say_is_not_done() -> None:
    each = Gateways()
    each.elsewhere.silent = True
    with pytest.raises(AuditUnavailable):
        await ours(each.one)
    each.elsewhere.silent = False
    assert await ours(each.one)
