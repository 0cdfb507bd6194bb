"""Bounds on guessing, in bounded memory."""

from contextlib import suppress

import pytest

from gateway.domain.networks import network_of
from gateway.domain.throttle import Throttle
from gateway.signin import throttle
from gateway.signin.errors import Throttled
from gateway.signin.throttle import Attempts
from tests.oauth.world import Hand


def test_a_key_waits_until_its_oldest_attempt_has_left_the_window() -> None:
    bound = Throttle(allowed=2, window_s=60)
    bound.note("a", 0.0)
    assert bound.wait_s("a", 1.0) == 0
    bound.note("a", 10.0)
    assert bound.wait_s("a", 20.5) == 40
    assert bound.wait_s("a", 60.0) == 0
    assert bound.wait_s("b", 20.5) == 0


def test_memory_is_bounded_and_the_quietest_key_is_forgotten_first() -> None:
    bound = Throttle(allowed=1, window_s=60, most_keys=2)
    for key in ("a", "b", "a", "c"):
        bound.note(key, 0.0)
    assert [bound.wait_s(key, 0.0) for key in "abc"] == [60, 0, 60]


async def test_one_address_cannot_guess_at_many_accounts() -> None:
    attempts = Attempts(Hand(), by_address=3, by_target=100, window_s=60)
    for number in range(3):
        await attempts.begin("192.0.2.1", f"user{number}")
    with pytest.raises(Throttled):
        await attempts.begin("192.0.2.1", "user9")
    await attempts.begin("192.0.2.2", "user9")


async def test_many_addresses_cannot_guess_at_one_account() -> None:
    attempts = Attempts(Hand(), by_address=100, by_target=3, window_s=60)
    for number in range(3):
        await attempts.begin(f"192.0.2.{number}", "alice")
    with pytest.raises(Throttled):
        await attempts.begin("192.0.2.9", "alice")
    await attempts.begin("192.0.2.9", "bob")


async def test_an_attempt_counts_from_its_beginning_and_a_success_only_takes_itself_back() -> None:
    attempts = Attempts(Hand(), by_address=2, by_target=2, window_s=60)
    await attempts.begin("192.0.2.1", "mallory")
    await attempts.begin("192.0.2.1", "mallory")
    await attempts.take_back("192.0.2.1", "mallory")
    await attempts.begin("192.0.2.1", "mallory")
    with pytest.raises(Throttled):
        await attempts.begin("192.0.2.1", "mallory")


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("somewhere", "somewhere"),
    ],
)
def test_a_whole_ipv6_network_counts_as_one(address: str, network: str) -> None:
    assert network_of(address) == network


@pytest.mark.parametrize("outcome", ["taken back", "guesses"])
async def test_names_that_are_made_up_have_no_count_of_another_forgotten(
    monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    monkeypatch.setattr(throttle, "_PLACES", 64, raising=False)
    attempts = Attempts(Hand(), by_address=2, by_target=2, window_s=60)
    for address in ("192.0.2.1", "198.51.100.1"):
        await attempts.begin(address, "alice")
    for number in range(12_000):
        address = f"10.{number >> 8}.{number & 255}.1"
        with suppress(Throttled):
            await attempts.begin(address, f"nobody {number}")
            if outcome == "taken back":
                await attempts.take_back(address, f"nobody {number}")
    with pytest.raises(Throttled):
        await attempts.begin("203.0.113.1", "alice")


async def test_which_names_share_a_count_is_another_each_time() -> None:
    places = {Attempts(Hand(), by_address=2, by_target=2)._place("alice") for _ in range(8)}
    assert len(places) > 1
