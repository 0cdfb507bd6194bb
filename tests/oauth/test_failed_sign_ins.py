"""The bound on guessing: failures by source, within a minute, in bounded memory."""

import pytest

from gateway.domain.throttle import Throttle
from gateway.oauth.intake import failed_sign_ins


def test_a_source_may_fail_so_often_and_no_more():
    failures = Throttle(allowed=3, window_s=60)
    for second in range(3):
        assert failures.wait_s("192.0.2.1", second) == 0
        failures.note("192.0.2.1", second)
    assert failures.wait_s("192.0.2.1", 2) == 58
    assert failures.wait_s("192.0.2.2", 2) == 0


def test_the_oldest_failure_is_forgotten_after_the_window():
    failures = Throttle(allowed=2, window_s=60)
    for second in (0, 30):
        failures.note("192.0.2.1", second)
    assert failures.wait_s("192.0.2.1", 59.5) == 1
    assert failures.wait_s("192.0.2.1", 60) == 0
    failures.note("192.0.2.1", 60)
    assert failures.wait_s("192.0.2.1", 60) == 30


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("192.0.2.1", "192.0.2.2", False),
        ("", "", True),
    ],
)
def test_an_ipv6_source_is_its_network_and_an_ipv4_source_its_address(one, other, same):
    failures = Throttle(allowed=1, window_s=60)
    failures.note(one, 0)
    assert (failures.wait_s(other, 0) > 0) is same


def test_memory_is_bounded_and_the_quietest_source_goes_first():
    failures = Throttle(allowed=1, window_s=60, most_keys=2)
    for second, source in enumerate(["a", "b", "a", "c"]):
        failures.note(source, second)
    assert [failures.wait_s(source, 4) > 0 for source in "abc"] == [True, False, True]


def test_twenty_sign_ins_a_minute_may_fail():
    failures = failed_sign_ins()
    for _ in range(20):
        assert failures.wait_s("192.0.2.1", 0) == 0
        failures.note("192.0.2.1", 0)
    assert failures.wait_s("192.0.2.1", 0) == 60
