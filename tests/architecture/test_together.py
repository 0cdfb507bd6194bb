"""Cases that are run at once fail as each of them would."""

import pytest

from tests import together


@pytest.mark.parametrize(("left", "right"), [(1, 1), (2, 3), (4, 4), (5, 6)])
def _alike(left: int, right: int) -> None:
    assert left == right


@pytest.mark.parametrize("waited", [True, False])
async def _awaited(waited: bool) -> None:
    assert waited


@pytest.mark.parametrize("small", [1, 2])
@pytest.mark.parametrize("large", [10, pytest.param(20, marks=pytest.mark.full), 30])
def _sum(small: int, large: int) -> None:
    assert small < large


@pytest.mark.parametrize("case", [1, pytest.param(2, marks=pytest.mark.skip)])
def _marked(case: int) -> None:
    assert case


def told(test: together.Test) -> list[list[str]]:
    with pytest.raises(ExceptionGroup) as failed:
        together.all_of(test, together.cases_of(test), ())()
    return [error.__notes__ for error in failed.value.exceptions]


def test_every_case_that_fails_is_told():
    assert told(_alike) == [["left=2, right=3"], ["left=5, right=6"]]


def test_a_coroutine_is_awaited():
    assert told(_awaited) == [["waited=False"]]


def test_tables_are_multiplied_without_what_only_a_full_run_has():
    assert {(case["small"], case["large"]) for case in together.cases_of(_sum)} == {
        (1, 10),
        (1, 30),
        (2, 10),
        (2, 30),
    }


def test_a_case_that_is_marked_for_something_else_stays_an_item():
    assert not together.cases_of(_marked)


def test_what_is_made_for_each_test_is_made_for_each_case(request):
    assert (
        together.item_of(request.node.getparent(pytest.Module), "_with_a_folder", _with_a_folder)
        is None
    )


@pytest.mark.parametrize("case", [1, 2])
def _with_a_folder(case: int, tmp_path: object) -> None:
    assert case
    assert tmp_path
