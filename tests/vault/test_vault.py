"""Secrets at rest: bound to their row, and worth nothing without a key that is not there."""

import base64
import itertools
import os
import secrets
from contextlib import closing

import pytest

from gateway.errors import ConfigError, Unsealable
from gateway.storage.identity.store import IdentityStores
from gateway.storage.kek import KekFile, new_key
from gateway.vault import KeyEncryptionKey, Vault
from tests.storage.identity.identities import NOW, Hand

ROW = "connections:u_emma:mail"
SECRET = b"canary-refresh-token"
DAY_S = 86_400


def text_of(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).decode()


def kek() -> KeyEncryptionKey:
    return KeyEncryptionKey.parse(new_key(), named="kek.key")


KEK = kek()


@pytest.fixture
def clock():
    return Hand()


@pytest.fixture
def stores(tmp_path, clock):
    with closing(IdentityStores.open(tmp_path, clock=clock)) as opened:
        yield opened


@pytest.fixture
def unlock(stores, clock):
    def unlocked(*keks: KeyEncryptionKey, random=os.urandom) -> Vault:
        return Vault.unlock(stores.data_keys, keks or [KEK], random=random, clock=clock)

    return unlocked


def test_what_was_sealed_opens_for_its_row_also_after_a_restart(unlock):
    sealed = unlock().seal(SECRET, ROW)
    assert unlock().open(sealed, ROW) == SECRET
    assert sealed.isascii()
    assert unlock().open(unlock().seal(b"", ""), "") == b""


def test_the_text_names_its_version_and_data_key_and_shows_no_secret(stores, unlock):
    sealed = unlock().seal(SECRET, ROW)
    version, key_id, text = sealed.split(".")
    assert (version, key_id) == ("v1", stores.data_keys.data_keys()[0].id)
    assert len(base64.urlsafe_b64decode(text + "==")) == 12 + len(SECRET) + 16
    assert b"canary" not in base64.urlsafe_b64decode(text + "==")


def test_no_nonce_is_used_twice(unlock):
    vault = unlock()
    texts = {vault.seal(SECRET, ROW) for _ in range(100)}
    nonces = {base64.urlsafe_b64decode(text.split(".")[2] + "==")[:12] for text in texts}
    assert len(texts) == len(nonces) == 100


@pytest.mark.parametrize(
    "row", ["connections:u_ada:mail", "connections:u_emma:web", "registrations:u_emma:mail", ""]
)
def test_a_text_in_another_row_does_not_open(unlock, row):
    vault = unlock()
    with pytest.raises(Unsealable, match="cannot be opened"):
        vault.open(vault.seal(SECRET, ROW), row)


def test_a_text_with_one_character_changed_does_not_open(unlock):
    vault = unlock()
    sealed = vault.seal(SECRET, ROW)
    for position in range(len("v1.0123456789abcdef."), len(sealed) - 1):
        other = "A" if sealed[position] != "A" else "B"
        with pytest.raises(Unsealable):
            vault.open(f"{sealed[:position]}{other}{sealed[position + 1 :]}", ROW)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "canary",
        "v1..",
        "v2.0123456789abcdef.AAAA",
        "v1.0123456789abcdef.AAAA",
        "v1.0123456789ABCDEF.AAAA",
        "v1.../../kek.key.AAAA",
        "v1.0123456789abcdef.A",
        "v1.0123456789abcdef.AAAA\n",
    ],
)
def test_what_is_no_sealed_text_of_ours_does_not_open_and_is_not_quoted(unlock, text):
    with pytest.raises(Unsealable) as refused:
        unlock().open(text, ROW)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "A", "AAAA", "AAAAAAAAAAAAAAAAAAAAAA"])
def test_a_text_that_is_too_short_does_not_open(stores, unlock, text):
    vault = unlock()
    with pytest.raises(Unsealable):
        vault.open(f"v1.{stores.data_keys.data_keys()[0].id}.{text}", ROW)


def test_another_vaults_text_does_not_open(tmp_path, clock, unlock):
    (tmp_path / "other").mkdir()
    with closing(IdentityStores.open(tmp_path / "other", clock=clock)) as others:
        foreign = Vault.unlock(others.data_keys, [KEK], random=os.urandom, clock=clock)
        with pytest.raises(Unsealable):
            unlock().open(foreign.seal(SECRET, ROW), ROW)


def test_another_key_encryption_key_is_refused_at_the_start_and_nothing_is_overwritten(
    stores, unlock
):
    sealed = unlock().seal(SECRET, ROW)
    before = stores.data_keys.data_keys()
    with pytest.raises(ConfigError, match=r"kek\.key is not the key that wraps"):
        unlock(kek())
    assert stores.data_keys.data_keys() == before
    assert unlock().open(sealed, ROW) == SECRET


def test_a_data_key_that_was_changed_or_exchanged_is_refused_at_the_start(stores, unlock):
    unlock().add_data_key()
    first, second = stores.data_keys.data_keys()
    statement = "UPDATE data_keys SET wrapped = ? WHERE id = ?"
    for wrapped in (second.wrapped, "", "AAAA", first.wrapped[:-2] + "AA"):
        stores.database.write(lambda to, put=wrapped: to.execute(statement, (put, first.id)))
        with pytest.raises(ConfigError, match=f"the data key {first.id} .* is damaged"):
            unlock()


def test_a_new_data_key_seals_from_now_on_and_the_old_ones_still_open(stores, unlock):
    vault = unlock()
    before = vault.seal(SECRET, ROW)
    vault.add_data_key()
    after = vault.seal(SECRET, ROW)
    assert before.split(".")[1] != after.split(".")[1]
    assert vault.open(before, ROW) == vault.open(after, ROW) == SECRET
    assert unlock().open(before, ROW) == SECRET
    assert len(stores.data_keys.data_keys()) == 2


def test_the_newest_data_key_seals_whatever_the_clock_says(unlock, clock):
    vault = unlock()
    used = [vault.seal(SECRET, ROW).split(".")[1]]
    for moment in (NOW, NOW, NOW - 9999):
        clock.now = moment
        vault.add_data_key()
        used.append(vault.seal(SECRET, ROW).split(".")[1])
    assert len(set(used)) == 4


def test_a_data_key_that_another_process_added_opens_here_too_and_seals_next(unlock, clock):
    here, there = unlock(), unlock()
    clock.now += 1
    there.add_data_key()
    theirs = there.seal(SECRET, ROW)
    assert here.open(theirs, ROW) == SECRET
    assert here.seal(SECRET, ROW).split(".")[1] == theirs.split(".")[1]


def test_whoever_follows_seals_with_what_another_process_has_added(unlock, clock):
    here, there = unlock(), unlock()
    clock.now += 1
    there.add_data_key()
    assert here.seal(SECRET, ROW).split(".")[1] != there.seal(SECRET, ROW).split(".")[1]
    here.follow()
    assert here.seal(SECRET, ROW).split(".")[1] == there.seal(SECRET, ROW).split(".")[1]


def test_a_key_under_a_key_encryption_key_that_is_not_known_here_is_passed_over(unlock, clock):
    """During a rolling replacement: what was known stays in use, what is new is not opened."""
    late, vault = unlock(), unlock()
    sealed = late.seal(SECRET, ROW)
    vault.rewrap(kek())
    clock.now += 1
    vault.add_data_key()
    late.follow()
    assert vault.open(late.seal(SECRET, ROW), ROW) == late.open(sealed, ROW) == SECRET
    with pytest.raises(Unsealable):
        late.open(vault.seal(SECRET, ROW), ROW)


def test_a_data_key_gets_a_successor_when_it_has_sealed_for_long(stores, unlock, clock):
    sealed = unlock().seal(SECRET, ROW)
    clock.now = NOW + 90 * DAY_S - 1
    unlock()
    assert len(stores.data_keys.data_keys()) == 1
    clock.now = NOW + 90 * DAY_S
    vault = unlock()
    unlock()
    assert len(stores.data_keys.data_keys()) == 2
    assert vault.open(sealed, ROW) == SECRET
    assert vault.seal(SECRET, ROW).split(".")[1] != sealed.split(".")[1]


def test_a_new_key_encryption_key_rewraps_the_data_keys_and_touches_no_secret(stores, unlock):
    vault, new = unlock(), kek()
    vault.add_data_key()
    sealed = vault.seal(SECRET, ROW)
    before = stores.data_keys.data_keys()
    vault.rewrap(new)
    assert vault.kek == new
    after = stores.data_keys.data_keys()
    assert [key.id for key in after] == [key.id for key in before]
    assert {key.kek_id for key in after} == {new.id}
    assert not {key.wrapped for key in after} & {key.wrapped for key in before}
    assert unlock(new).open(sealed, ROW) == vault.open(sealed, ROW) == SECRET
    with pytest.raises(ConfigError, match="is not the key that wraps"):
        unlock(KEK)
    assert unlock(KEK, new).kek == new


def test_a_process_that_missed_the_change_adds_no_data_key_under_the_old_one(stores, unlock):
    late, vault = unlock(), unlock()
    sealed = late.seal(SECRET, ROW)
    vault.rewrap(kek())
    before = stores.data_keys.data_keys()
    with pytest.raises(ConfigError, match="another key-encryption key meanwhile"):
        late.add_data_key()
    with pytest.raises(ConfigError):
        late.rewrap(kek())
    assert stores.data_keys.data_keys() == before
    assert late.open(sealed, ROW) == SECRET


def test_two_processes_that_begin_at_once_with_one_key_open_each_others_texts(unlock):
    here, there = unlock(), unlock()
    assert there.open(here.seal(SECRET, ROW), ROW) == SECRET
    assert here.open(there.seal(SECRET, ROW), ROW) == SECRET


def test_no_key_is_shown(unlock):
    vault = unlock()
    shown = f"{KEK!r} {vault!r} {vars(vault)!r} {KEK}"
    assert KEK.text not in shown
    assert "octets" not in shown
    assert repr(KEK) == "KeyEncryptionKey(named='kek.key')"
    assert KEK.id not in KEK.text
    assert KeyEncryptionKey.parse(KEK.text, named="again").id == KEK.id != kek().id


@pytest.mark.parametrize("padding", ["", "="])
def test_a_key_of_32_octets_is_read_padded_or_not(padding):
    octets = secrets.token_bytes(32)
    found = KeyEncryptionKey.parse(text_of(octets).rstrip("=") + padding, named="here")
    assert (found.octets, found.named) == (octets, "here")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        text_of(secrets.token_bytes(31)),
        text_of(secrets.token_bytes(33)),
        secrets.token_bytes(32).hex(),
        text_of(secrets.token_bytes(30)) + "+/+",
        text_of(secrets.token_bytes(32)) + "\n",
        "ä" * 43,
    ],
    ids=itertools.count(),
)
def test_o15_a_key_of_another_length_or_alphabet_is_refused_and_not_quoted(text):
    with pytest.raises(ConfigError, match=r"auth\.key_encryption_key is not a key") as refused:
        KeyEncryptionKey.parse(text, named="auth.key_encryption_key")
    assert not text or text not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    "octets",
    [
        bytes(32),
        b"\xff" * 32,
        bytes(range(32)),
        bytes(range(200, 168, -1)),
        secrets.token_bytes(8) * 4,
        secrets.token_bytes(16) * 2,
        b"change-me!change-me!change-me!ch",
        b"correct horse battery staple 123",
        secrets.token_bytes(10) + bytes(22),
    ],
    ids=[
        "zeros",
        "ones",
        "counting",
        "counting down",
        "eight octets again and again",
        "sixteen octets twice",
        "a word again and again",
        "a sentence",
        "mostly zeros",
    ],
)
def test_o15_a_default_or_guessable_key_is_refused(octets):
    with pytest.raises(ConfigError, match="not drawn at random"):
        KeyEncryptionKey.parse(text_of(octets), named="auth.key_encryption_key")


@pytest.mark.parametrize(
    "text",
    ["thisisaverysecretkeythatnobodyshouldguessss", "THISISAVERYSECRETKEYTHATNOBODYSHOULDGUESSSS"],
)
def test_o15_a_sentence_in_the_alphabet_of_keys_is_refused(text):
    with pytest.raises(ConfigError, match="not drawn at random"):
        KeyEncryptionKey.parse(text, named="auth.key_encryption_key")


def test_random_keys_are_taken():
    for _ in range(2000):
        assert kek().text


def test_nothing_that_is_sealed_is_in_the_files_in_the_clear(stores, unlock, tmp_path):
    sealed = unlock().seal(SECRET, "registrations:mail:https://as.test")
    stores.connections.register("mail", "https://as.test", sealed)
    KekFile(tmp_path).read(make=True)
    written = b"".join(path.read_bytes() for path in tmp_path.glob("identity.db*"))
    assert sealed.encode() in written
    assert SECRET not in written
    assert KEK.octets not in written
    assert KEK.text.encode() not in written


def test_keys_that_were_read_before_another_was_added_bring_no_older_one_back(stores, unlock):
    vault = unlock()
    before = stores.data_keys.data_keys()
    vault.add_data_key()
    newest = stores.data_keys.data_keys()[0].id
    stores.data_keys.data_keys = lambda: before  # what a slower thread has read
    vault.follow()
    assert vault.seal(SECRET, ROW).split(".")[1] == newest
