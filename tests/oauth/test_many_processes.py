"""One client as 5 and as 43 processes over days: its person stays signed in, and a thief does not."""

from pathlib import Path

import pytest

from tests.backends import CLOCK, only
from tests.oauth.crowd import live


@only(CLOCK)
@pytest.mark.parametrize(("size", "days"), [pytest.param(5, 3, marks=pytest.mark.full), (43, 1)])
async def test_nobody_is_signed_out_by_their_own_client_and_a_thief_is(
    tmp_path: Path, size: int, days: int
) -> None:
    lived = await live(tmp_path, size, days)
    assert lived.signed_out == 0, lived.said
    again = lived.told["refresh_given_again"] + lived.told["refresh_lost"]
    assert min(again, lived.told["refresh_raced"]) >= days
    assert lived.told["refresh_reused"] == days
    assert lived.told["refresh_revoked"] == 0
    assert lived.ended == 3
