"""What is said of a result that nobody judges."""

from typing import Any

import pytest

from gateway.wire.bare_results import bare_greeting, bare_result


@pytest.mark.parametrize("said", [[], {}, [[]], None, 1, True, "resultType"])
@pytest.mark.parametrize("name", ["resultType", "cacheScope", "ttlMs", "nextCursor"])
def test_a_member_that_is_of_no_such_kind_is_left_out_or_fits(name: str, said: Any) -> None:
    for bare in (bare_result({name: said}), bare_greeting({name: said})):
        assert bare in ({}, {name: said})


@pytest.mark.parametrize("said", [[], {}, "nothing of ours"])
def test_a_type_of_result_that_is_none_is_left_out(said: Any) -> None:
    assert bare_result({"resultType": said, "tools": []}, "tools") == {"tools": []}
