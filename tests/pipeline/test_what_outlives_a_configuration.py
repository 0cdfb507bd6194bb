"""What is kept in memory across a reload keeps nothing else of the configuration that it came by."""

from gateway.domain.tools import Profile
from gateway.pipeline.admission import Admission
from tests.pipeline.house import House
from tests.pipeline.kept import keeps
from tests.pipeline.test_questions_of_planes import allowed, opened_house
from tests.pipeline.test_streams_that_break import BROKE, PRIMED, seen_of


async def test_a_call_whose_stream_was_cut_does_not_keep_who_let_it_out() -> None:
    house = House()
    await house.approve_all(Profile.LEGACY)
    await seen_of(house, PRIMED, BROKE)
    assert keeps(house.server.saw[-1], Admission)
    assert house.conversations._cut.octets
    assert not keeps(house.conversations, Admission)


async def test_a_call_that_a_plane_owes_does_not_keep_who_let_it_out() -> None:
    house = await opened_house()
    await allowed(house)
    assert house.debts.are_open
    assert not keeps([*house.debts._open.values()], Admission)
