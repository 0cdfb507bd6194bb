"""What goes wrong again and again is told once, and once more if it had ended."""

from gateway.domain.trouble import Trouble


def test_a_reason_is_told_once_until_there_is_another_or_none() -> None:
    trouble = Trouble()
    said = ["", "gone", "gone", "slow", "gone", "", "", "gone", "gone"]
    assert [why for why in said if trouble.is_new(why)] == ["gone", "slow", "gone", "gone"]
