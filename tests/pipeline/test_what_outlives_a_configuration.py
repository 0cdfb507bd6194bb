"""What is kept in memory across a reload keeps nothing else of the configuration that it came by."""

import gc
from types import FunctionType, ModuleType

from gateway.domain.tools import Profile
from gateway.pipeline.admission import Admission
from tests.pipeline.house import House
from tests.pipeline.test_questions_of_planes import allowed, opened_house
from tests.pipeline.test_streams_that_break import BROKE, PRIMED, seen_of


def keeps_an_admission(kept: object) -> bool:
    """Whether one can be reached from `kept`; not by modules, and by the house that made all of it."""
    looked: dict[int, object] = {}
    left = [kept]
    while left:
        one = left.pop()
        if isinstance(one, Admission):
            return True
        if id(one) in looked or isinstance(one, ModuleType | type | FunctionType | House):
            continue
        looked[id(one)] = one
        left += gc.get_referents(one)
    return False


async def test_a_call_whose_stream_was_cut_does_not_keep_who_let_it_out() -> None:
    house = House()
    await house.approve_all(Profile.LEGACY)
    await seen_of(house, PRIMED, BROKE)
    assert keeps_an_admission(house.server.saw[-1])
    assert len(house.conversations._cut) == 1
    assert not keeps_an_admission(house.conversations)


async def test_a_call_that_a_plane_owes_does_not_keep_who_let_it_out() -> None:
    house = await opened_house()
    await allowed(house)
    assert house.debts.are_open
    assert not keeps_an_admission([*house.debts._open.values()])
