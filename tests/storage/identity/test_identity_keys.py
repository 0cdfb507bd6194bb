"""Keys at rest: one next, one active, and every data key wrapped by one key."""

import pytest

from gateway.domain.secrets import DataKey, KeyState, SealedKey
from tests.storage.identity.identities import NOW


def key(kid: str, state: KeyState = KeyState.NEXT, at: float = NOW) -> SealedKey:
    return SealedKey(
        kid=kid,
        state=state,
        sealed=f"sealed {kid}",
        created_at=at,
        activated_at=at if state is KeyState.ACTIVE else None,
    )


def by_kid(stores):
    everything = stores.signing_keys.keys()
    return {found.kid: found for found in everything}


def states(stores):
    return {kid: found.state for kid, found in by_kid(stores).items()}


def test_a_signing_key_is_found_whole_and_the_newest_first(stores, elsewhere):
    assert stores.signing_keys.add_key(key("k1", KeyState.ACTIVE))
    assert stores.signing_keys.add_key(key("k2", at=NOW + 1))
    assert elsewhere.signing_keys.keys() == [key("k2", at=NOW + 1), key("k1", KeyState.ACTIVE)]


@pytest.mark.parametrize("state", [KeyState.NEXT, KeyState.ACTIVE])
def test_there_is_one_key_of_a_state_whoever_comes_second(stores, elsewhere, state):
    assert stores.signing_keys.add_key(key("k1", state))
    assert not elsewhere.signing_keys.add_key(key("k2", state))
    assert not elsewhere.signing_keys.add_key(key("k1", KeyState.RETIRED))
    assert stores.signing_keys.keys() == [key("k1", state)]


def test_the_next_key_takes_over_once_and_the_active_one_retires(stores, elsewhere):
    stores.signing_keys.add_key(key("k1", KeyState.ACTIVE))
    stores.signing_keys.add_key(key("k2"))
    assert elsewhere.signing_keys.activate_key("k2", at=NOW + 5)
    assert not stores.signing_keys.activate_key("k2", at=NOW + 6)
    found = by_kid(stores)
    assert (found["k1"].state, found["k1"].retired_at) == (KeyState.RETIRED, NOW + 5)
    assert (found["k2"].state, found["k2"].activated_at) == (KeyState.ACTIVE, NOW + 5)


@pytest.mark.parametrize("kid", ["k1", "k0", "unknown"])
def test_a_key_that_is_not_next_takes_over_from_nobody(stores, kid):
    stores.signing_keys.add_key(key("k0", KeyState.RETIRED))
    stores.signing_keys.add_key(key("k1", KeyState.ACTIVE))
    stores.signing_keys.add_key(key("k2"))
    before = states(stores)
    assert not stores.signing_keys.activate_key(kid, at=NOW)
    assert states(stores) == before


def test_only_keys_that_retired_before_are_forgotten(stores):
    for number in range(4):
        stores.signing_keys.add_key(key(f"k{number}"))
        stores.signing_keys.activate_key(f"k{number}", at=NOW + number)
    stores.signing_keys.add_key(key("k4"))
    # k0 retired when k1 took over, and so on.
    assert stores.signing_keys.forget_keys(retired_before=NOW + 2) == 1
    assert states(stores) == {
        "k1": KeyState.RETIRED,
        "k2": KeyState.RETIRED,
        "k3": KeyState.ACTIVE,
        "k4": KeyState.NEXT,
    }


def data_key(name: str, kek: str = "kek 1", at: float = NOW) -> DataKey:
    return DataKey(id=name, wrapped=f"{name} by {kek}", kek_id=kek, created_at=at)


def test_data_keys_are_found_whole_and_the_newest_first(stores, elsewhere):
    for made in (data_key("a"), data_key("b", at=NOW + 1)):
        stores.data_keys.add_data_key(made)
    assert elsewhere.data_keys.data_keys() == [data_key("b", at=NOW + 1), data_key("a")]


def test_a_data_key_under_another_key_than_the_others_is_refused(stores):
    stores.data_keys.add_data_key(data_key("a"))
    with pytest.raises(LookupError, match="another key-encryption key"):
        stores.data_keys.add_data_key(data_key("b", "kek 2"))
    assert stores.data_keys.data_keys() == [data_key("a")]


def test_all_data_keys_are_rewrapped_or_none(stores, elsewhere):
    for name in "abc":
        stores.data_keys.add_data_key(data_key(name))
    with pytest.raises(LookupError, match="another key-encryption key"):
        elsewhere.data_keys.rewrap([data_key("a", "kek 2"), data_key("b", "kek 2")])
    assert stores.data_keys.data_keys() == [data_key(name) for name in "abc"]
    elsewhere.data_keys.rewrap([data_key(name, "kek 2") for name in "abc"])
    assert stores.data_keys.data_keys() == [data_key(name, "kek 2") for name in "abc"]
