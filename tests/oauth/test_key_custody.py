"""A signing key's life: nobody is signed out by a rotation, and no private half is ever shown."""

import itertools
import os
import threading
from contextlib import closing

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gateway.domain.secrets import KeyState, SealedKey
from gateway.errors import ConfigError, Unsealable
from gateway.oauth.custodian import (
    KeyCustodian,
    forgettable,
    is_known,
    new_private_key,
    successor_due,
)
from gateway.oauth.keys import SigningKey
from gateway.storage.identity.store import IdentityStores
from gateway.storage.kek import new_key
from gateway.vault import KeyEncryptionKey, Vault
from tests.storage.identity.identities import NOW, Hand

HOUR_S = 3600
LIFETIME_S = 90 * 86_400
TOKEN_S = 600


@pytest.fixture
def stores(tmp_path):
    with closing(IdentityStores.open(tmp_path, clock=Hand())) as opened:
        yield opened


@pytest.fixture
def vault(stores):
    kek = KeyEncryptionKey.parse(new_key(), named="kek.key")
    return Vault.unlock(stores.data_keys, [kek], random=os.urandom, clock=Hand())


@pytest.fixture
def custodian(stores, vault):
    return custodian_of(stores, vault)


def custodian_of(stores, vault, generate=new_private_key):
    return KeyCustodian(
        stores.signing_keys,
        vault,
        key_lifetime_s=LIFETIME_S,
        token_lifetime_s=TOKEN_S,
        generate=generate,
    )


def states(stores):
    everything = stores.signing_keys.keys()
    return {key.kid: key.state for key in everything}


def published(ring):
    return [document["kid"] for document in ring.jwks["keys"]]


def test_the_first_start_makes_an_active_and_a_next_key(stores, custodian):
    ring = custodian.start(now=NOW)
    active, following = published(ring)
    assert ring.signing.kid == active
    assert states(stores) == {active: KeyState.ACTIVE, following: KeyState.NEXT}
    assert ring.find(following) is not None


def test_a_restart_has_the_same_keys(stores, vault, custodian):
    before = custodian.start(now=NOW)
    after = custodian_of(stores, vault).start(now=NOW + 5)
    assert after.jwks == before.jwks
    assert after.signing == before.signing


def test_the_key_from_before_becomes_the_active_one(stores, vault, custodian):
    earlier = new_private_key()
    ring = custodian.start(now=NOW, earlier=earlier)
    assert ring.signing.kid == SigningKey.of(earlier).kid
    assert custodian_of(stores, vault).start(now=NOW, earlier=earlier).jwks == ring.jwks


def test_a_key_from_before_that_turns_up_later_is_not_taken(stores, vault, custodian):
    before = custodian.start(now=NOW)
    planted = new_private_key()
    ring = custodian_of(stores, vault).start(now=NOW, earlier=planted)
    assert ring.jwks == before.jwks
    assert ring.find(SigningKey.of(planted).kid) is None


def test_a_key_from_before_that_others_may_know_is_refused(stores, custodian):
    guessable = ec.derive_private_key(1, ec.SECP256R1())
    with pytest.raises(ConfigError, match="not drawn at random"):
        custodian.start(now=NOW, earlier=guessable)
    assert states(stores) == {}


def test_two_processes_that_begin_at_once_sign_with_the_same_key(stores, vault):
    """The second one has seen an empty table, too."""
    first, second = custodian_of(stores, vault), custodian_of(stores, vault)
    seen = stores.signing_keys.keys
    keys = itertools.chain([[]], iter(seen, None))
    second._store = Stale(stores.signing_keys, lambda: next(keys))
    one, other = first.start(now=NOW), second.start(now=NOW)
    assert other.jwks == one.jwks
    assert len(states(stores)) == 2


class Stale:
    """A `SigningKeyStore` whose first look is an old one."""

    def __init__(self, store, keys):
        self.keys = keys
        self.add_key = store.add_key
        self.activate_key = store.activate_key
        self.forget_keys = store.forget_keys


def test_while_nothing_changes_the_ring_is_the_same_and_nothing_is_written(stores, custodian):
    ring = custodian.start(now=NOW)
    stores.follow()
    before = stores.signing_keys.keys()
    for minutes in range(100):
        assert custodian.tick(now=NOW + 60 * minutes) is ring
    assert stores.signing_keys.keys() == before


def test_at_the_end_of_its_time_a_key_retires_and_the_next_one_signs(stores, custodian):
    before = custodian.start(now=NOW)
    active, following = published(before)
    assert custodian.tick(now=NOW + LIFETIME_S - 1) is before
    after = custodian.tick(now=NOW + LIFETIME_S)
    assert after.signing.kid == following
    assert after.find(active) is not None
    assert published(after)[0] == following
    assert published(after)[2] == active
    newest = published(after)[1]
    assert states(stores) == {
        active: KeyState.RETIRED,
        following: KeyState.ACTIVE,
        newest: KeyState.NEXT,
    }


def test_a_retired_key_verifies_until_the_last_token_it_signed_has_expired(stores, custodian):
    retired = custodian.start(now=NOW).signing.kid
    end = NOW + LIFETIME_S
    custodian.tick(now=end)
    assert custodian.tick(now=end + TOKEN_S + HOUR_S).find(retired) is not None
    ring = custodian.tick(now=end + TOKEN_S + HOUR_S + 1)
    assert ring.find(retired) is None
    assert retired not in states(stores)
    assert retired not in published(ring)


def test_no_key_signs_before_it_was_published_for_an_hour(stores, custodian):
    """Not even if the clock leaps over the active key's whole life."""
    custodian.start(now=NOW)
    first = custodian.tick(now=NOW + LIFETIME_S)
    late = NOW + 3 * LIFETIME_S
    second = custodian.tick(now=late)
    assert second.signing != first.signing
    stores.database.write(
        lambda to: to.execute("UPDATE signing_keys SET activated_at = 0 WHERE state = 'active'")
    )
    assert custodian.tick(now=late + HOUR_S - 1).signing == second.signing
    assert custodian.tick(now=late + HOUR_S).signing != second.signing


def test_by_command_the_next_key_signs_once_it_is_known(stores, custodian):
    before = custodian.start(now=NOW)
    active, following = published(before)
    with pytest.raises(ValueError, match="has not been published for an hour"):
        custodian.rotate(now=NOW + HOUR_S - 1)
    assert custodian.tick(now=NOW + HOUR_S - 1) is before
    after = custodian.rotate(now=NOW + HOUR_S)
    assert after.signing.kid == following
    assert after.find(active) is not None
    with pytest.raises(ValueError, match="has not been published for an hour"):
        custodian.rotate(now=NOW + HOUR_S)


def test_nobody_rotates_before_the_first_start(custodian):
    with pytest.raises(ValueError, match="has not been published"):
        custodian.rotate(now=NOW)


def test_another_process_knows_the_key_before_it_signs_and_follows_at_its_next_tick(stores, vault):
    here, there = custodian_of(stores, vault), custodian_of(stores, vault)
    known = here.start(now=NOW)
    there.start(now=NOW)
    signing = there.rotate(now=NOW + HOUR_S).signing
    assert known.find(signing.kid) is not None
    ring = here.tick(now=NOW + HOUR_S)
    assert ring.signing.kid == signing.kid
    assert ring.jwks == there.tick(now=NOW + HOUR_S).jwks
    with pytest.raises(ValueError, match="has not been published"):
        here.rotate(now=NOW + HOUR_S)


def test_of_two_that_rotate_at_once_one_does(stores, vault):
    here, there = custodian_of(stores, vault), custodian_of(stores, vault)
    here.start(now=NOW)
    stale = stores.signing_keys.keys()
    there.start(now=NOW)
    signing = there.tick(now=NOW + LIFETIME_S).signing
    looks = itertools.chain([stale], iter(stores.signing_keys.keys, None))
    here._store = Stale(stores.signing_keys, lambda: next(looks))
    assert here.tick(now=NOW + LIFETIME_S).signing.kid == signing.kid
    assert len(states(stores)) == 3


def test_neither_the_jwks_nor_the_files_have_a_private_half(stores, vault, tmp_path):
    made = []

    def generate():
        made.append(new_private_key())
        return made[-1]

    custodian = custodian_of(stores, vault, generate)
    custodian.start(now=NOW)
    ring = custodian.tick(now=NOW + LIFETIME_S)
    for document in ring.jwks["keys"]:
        assert document.keys() == {"kty", "crv", "x", "y", "kid", "use", "alg"}
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert len(made) == 3
    for private in made:
        secret = private.private_numbers().private_value
        assert secret.to_bytes(32, "big") not in written
        der = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        assert der not in written


def test_a_key_moved_to_another_row_is_not_used(stores, vault, custodian):
    custodian.start(now=NOW)
    newest, oldest = stores.signing_keys.keys()
    stores.database.write(
        lambda to: to.execute(
            "UPDATE signing_keys SET sealed = ? WHERE kid = ?", (newest.sealed, oldest.kid)
        )
    )
    with pytest.raises(Unsealable):
        custodian_of(stores, vault).start(now=NOW)


@pytest.mark.parametrize(
    "octets",
    [
        b"no key",
        ec.generate_private_key(ec.SECP256R1()).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        ),
        Ed25519PrivateKey.generate().private_bytes(
            Encoding.DER, PrivateFormat.PKCS8, NoEncryption()
        ),
    ],
    ids=["no key", "PEM", "another kind"],
)
def test_what_is_sealed_but_no_signing_key_is_not_used(stores, vault, octets):
    sealed = vault.seal(octets, "signing_keys:k:sealed")
    stores.signing_keys.add_key(
        SealedKey(kid="k", state=KeyState.ACTIVE, sealed=sealed, created_at=NOW, activated_at=NOW)
    )
    with pytest.raises(Unsealable, match="a signing key cannot be used"):
        custodian_of(stores, vault).start(now=NOW)


def key(kid, state, **moments):
    return SealedKey(kid=kid, state=state, sealed="", **{"created_at": NOW, **moments})


ACTIVE = key("a", KeyState.ACTIVE, activated_at=NOW)
NEXT = key("n", KeyState.NEXT)


@pytest.mark.parametrize(
    ("keys", "now", "due"),
    [
        ([NEXT, ACTIVE], NOW + LIFETIME_S, NEXT),
        ([NEXT, ACTIVE], NOW + LIFETIME_S - 1, None),
        ([ACTIVE], NOW + LIFETIME_S, None),
        ([NEXT], NOW + LIFETIME_S, None),
        ([], NOW, None),
        ([key("n", KeyState.NEXT, created_at=NOW + LIFETIME_S), ACTIVE], NOW + LIFETIME_S, None),
        ([NEXT, ACTIVE], NOW - LIFETIME_S, None),
    ],
)
def test_who_signs_next_and_when(keys, now, due):
    assert successor_due(keys, now=now, key_lifetime_s=LIFETIME_S) == due


def test_what_is_known_and_what_is_forgotten():
    assert is_known(NEXT, now=NOW + HOUR_S)
    assert not is_known(NEXT, now=NOW + HOUR_S - 1)
    retired = key("r", KeyState.RETIRED, retired_at=NOW)
    assert forgettable([ACTIVE, retired], now=NOW + 11, kept_s=10)
    assert not forgettable([ACTIVE, retired], now=NOW + 10, kept_s=10)
    assert not forgettable([ACTIVE, NEXT], now=NOW + 10**9, kept_s=10)


def test_of_two_steps_at_once_none_brings_back_what_the_other_has_replaced(
    stores, custodian, monkeypatch
):
    before = custodian.start(now=NOW).signing.kid
    read, go_on = threading.Event(), threading.Event()
    keys_of = type(stores.signing_keys).keys

    def slowly(signing_keys):
        found = keys_of(signing_keys)
        if threading.current_thread() is slow:
            read.set()
            go_on.wait(0.3)
        return found

    monkeypatch.setattr(type(stores.signing_keys), "keys", slowly)
    slow = threading.Thread(target=custodian.tick, kwargs={"now": NOW + HOUR_S})
    slow.start()
    read.wait()
    after = custodian.rotate(now=NOW + HOUR_S)
    go_on.set()
    slow.join()
    assert after.signing.kid != before
    assert custodian.ring.signing.kid == after.signing.kid
