"""A proof is good once: nothing is forgotten that could be replayed, and a full memory says no."""

from dataclasses import replace

import pytest

from gateway.domain.identity import Proof
from gateway.errors import IdentityUnavailable
from gateway.oauth.seen_proofs import SeenProofs
from tests.oauth.world import NOW


def proof(use: str, *, key: str = "key", made_at: float = NOW, window_s: float = 60.0) -> Proof:
    return Proof(key=key, use=use.encode(), made_at=made_at, until=made_at + window_s)


def seen(most: int = 10_000) -> SeenProofs:
    return SeenProofs(since=NOW - 1000, most=most)


def test_a_proof_is_used_once():
    uses, first = seen(), proof("a")
    uses.use(first, owner="me", now=NOW)
    with pytest.raises(ValueError, match="used before"):
        uses.use(replace(first), owner="me", now=NOW)
    uses.use(proof("b"), owner="me", now=NOW)


def test_for_its_own_request_it_is_no_second_use_however_long_that_takes():
    uses, first = seen(), proof("a")
    for later in (0, 30, 100, 1000, 10_000):
        uses.use(first, owner="me", now=NOW + later)
        uses.use(proof(f"another's {later}", made_at=NOW + later), owner="me", now=NOW + later)


def test_it_is_remembered_for_as_long_as_it_could_come_again():
    uses = seen()
    uses.use(proof("a", made_at=NOW + 60), owner="me", now=NOW)
    for later in range(0, 121, 5):
        uses.use(proof(f"other {later}", made_at=NOW + later), owner="me", now=NOW + later)
        with pytest.raises(ValueError, match="used before"):
            uses.use(proof("a", made_at=NOW + 60), owner="me", now=NOW + later)


def test_it_is_forgotten_some_time_after_nobody_could_come_with_it():
    uses = seen()
    for later in range(0, 3000, 10):
        uses.use(proof(f"{later}", made_at=NOW + later), owner="me", now=NOW + later)
    assert len(uses) < 50


def test_a_clock_that_goes_back_forgets_nothing():
    uses = seen()
    uses.use(proof("a"), owner="me", now=NOW)
    with pytest.raises(ValueError, match="used before"):
        uses.use(proof("a"), owner="me", now=NOW - 30)


def test_full_it_says_no_and_later_it_has_room_again():
    uses = seen(most=30)
    for number in range(30):
        uses.use(proof(f"{number}"), owner=f"client {number // 3}", now=NOW)
    with pytest.raises(ValueError, match="can be remembered"):
        uses.use(proof("more"), owner="another", now=NOW)
    later = NOW + 121
    uses.use(proof("more", made_at=later), owner="another", now=later)


def test_one_client_does_not_fill_it_for_the_others_however_many_keys_it_has():
    uses = seen(most=100)
    for number in range(10):
        uses.use(proof(f"{number}", key=f"key {number}"), owner="me", now=NOW)
    with pytest.raises(ValueError, match="can be remembered"):
        uses.use(proof("more", key="a new one"), owner="me", now=NOW)
    uses.use(proof("more"), owner="another", now=NOW)


def test_what_was_made_before_the_process_began_is_good_for_nothing():
    uses = SeenProofs(since=NOW + 0.9)
    with pytest.raises(ValueError, match="before the gateway began"):
        uses.use(proof("a", made_at=NOW - 1), owner="me", now=NOW + 1)
    # A whole second is as exactly as it is said.
    uses.use(proof("a", made_at=NOW), owner="me", now=NOW + 1)


class Elsewhere:
    """Other processes, which have seen every proof."""

    def __init__(self, no: Exception) -> None:
        self._no = no

    def use(self, proof: Proof, *, now: float) -> None:
        raise self._no


@pytest.mark.parametrize(
    ("no", "seen_as"),
    [
        (ValueError("used before"), ValueError),
        (IdentityUnavailable("nobody knows"), IdentityUnavailable),
    ],
)
async def test_what_was_not_good_elsewhere_is_not_good_when_the_same_request_is_looked_at_again(
    no: Exception, seen_as: type[Exception]
):
    for soon in (True, False):
        uses = SeenProofs(since=NOW - 1000, elsewhere=Elsewhere(no))
        shown = proof("a")

        async def use(uses: SeenProofs = uses, shown: Proof = shown, *, soon: bool = soon) -> None:
            if soon:
                await uses.use_soon(shown, owner="me", now=NOW)
            else:
                uses.use(shown, owner="me", now=NOW)

        with pytest.raises(seen_as):
            await use()
        for _ in range(2):
            with pytest.raises(ValueError, match="used before"):
                await use()
