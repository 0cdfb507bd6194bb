"""The data directory: its keys, its lock, its files, and one process at a time."""

import os
import stat

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gateway.errors import ConfigError
from gateway.storage.earlier_key import earlier_signing_key, forget_earlier_signing_key
from gateway.storage.files import DirectoryLock, FileIdentity, write_atomically
from gateway.storage.keys import Keys, audit_key
from gateway.storage.store import Store
from tests.storage.suite import NOW, event

DATABASE_FILES = ["", "-wal", "-shm"]
KEY_FILES = ["audit.key", "hmac.key", "seal.key"]


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def comparable(keys):
    return (
        keys.audit.private_bytes_raw(),
        keys.hmac,
        keys.seal,
    )


async def test_everything_in_it_is_its_owners_alone(tmp_path):
    before = os.umask(0)
    try:
        store = await Store.open(tmp_path / "deep" / "var", clock=lambda: NOW)
        await store.audit.append(event("e"))
        found = {path.name: mode(path) for path in (tmp_path / "deep" / "var").iterdir()}
        await store.close()
    finally:
        os.umask(before)
    assert mode(tmp_path / "deep" / "var") == 0o700
    databases = [f"{name}.db{part}" for name in ("douane", "identity") for part in DATABASE_FILES]
    assert found == dict.fromkeys([*KEY_FILES, "lock", "journal", "checkpoint", *databases], 0o600)


def test_a_directory_that_is_there_is_closed_to_others(tmp_path):
    (tmp_path / "var").mkdir(mode=0o755)
    Keys.open(tmp_path / "var")
    assert mode(tmp_path / "var") == 0o700


def test_keys_are_made_once_and_differ(tmp_path):
    keys = Keys.open(tmp_path)
    assert comparable(Keys.open(tmp_path)) == comparable(keys)
    assert len(keys.hmac) == len(keys.seal) == 32
    assert keys.hmac != keys.seal
    assert audit_key(tmp_path).private_bytes_raw() == keys.audit.private_bytes_raw()
    assert comparable(Keys.open(tmp_path / "other")) != comparable(keys)


def test_keys_are_not_shown(tmp_path):
    assert repr(Keys.open(tmp_path)) == "Keys()"


@pytest.mark.parametrize("name", KEY_FILES)
@pytest.mark.parametrize("others", [0o640, 0o604, 0o620, 0o610])
def test_a_key_that_others_can_reach_is_refused(tmp_path, name, others):
    Keys.open(tmp_path)
    (tmp_path / name).chmod(others)
    with pytest.raises(ConfigError, match=f"chmod 600 {tmp_path / name}"):
        Keys.open(tmp_path)


@pytest.mark.parametrize("name", KEY_FILES)
def test_what_is_no_key_is_refused_and_not_replaced_or_quoted(tmp_path, name):
    Keys.open(tmp_path)
    (tmp_path / name).write_bytes(b"hunter2")
    with pytest.raises(ConfigError, match=f"{name} is not a") as refused:
        Keys.open(tmp_path)
    assert "hunter2" not in str(refused.value)
    assert (tmp_path / name).read_bytes() == b"hunter2"


def pem_of(key):
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def test_a_key_of_another_kind_is_refused(tmp_path):
    Keys.open(tmp_path)
    (tmp_path / "audit.key").write_bytes(pem_of(ec.generate_private_key(ec.SECP384R1())))
    with pytest.raises(ConfigError, match=r"audit\.key is not a"):
        Keys.open(tmp_path)


def written_privately(path, content):
    path.write_bytes(content)
    path.chmod(0o600)


def test_the_signing_key_from_before_is_read_once_and_never_made(tmp_path):
    Keys.open(tmp_path)
    assert earlier_signing_key(tmp_path) is None
    key = ec.generate_private_key(ec.SECP256R1())
    written_privately(tmp_path / "signing.key", pem_of(key))
    found = earlier_signing_key(tmp_path)
    assert found is not None
    assert found.private_numbers() == key.private_numbers()
    forget_earlier_signing_key(tmp_path)
    forget_earlier_signing_key(tmp_path)
    assert earlier_signing_key(tmp_path) is None


@pytest.mark.parametrize(
    "content",
    [
        b"hunter2",
        pem_of(ec.generate_private_key(ec.SECP384R1())),
        pem_of(Ed25519PrivateKey.generate()),
    ],
    ids=["no key", "another curve", "another kind"],
)
def test_a_signing_key_from_before_that_is_none_is_refused_and_not_quoted(tmp_path, content):
    written_privately(tmp_path / "signing.key", content)
    with pytest.raises(ConfigError, match=r"signing\.key is not a") as refused:
        earlier_signing_key(tmp_path)
    assert "hunter2" not in str(refused.value)


def test_a_signing_key_from_before_that_others_can_reach_or_that_is_a_link_is_refused(tmp_path):
    written_privately(tmp_path / "elsewhere", pem_of(ec.generate_private_key(ec.SECP256R1())))
    (tmp_path / "signing.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"signing\.key cannot be read"):
        earlier_signing_key(tmp_path)
    (tmp_path / "signing.key").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "signing.key")
    (tmp_path / "signing.key").chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        earlier_signing_key(tmp_path)


def test_a_key_is_not_read_through_a_link(tmp_path):
    Keys.open(tmp_path)
    (tmp_path / "hmac.key").rename(tmp_path / "elsewhere")
    (tmp_path / "hmac.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"hmac\.key cannot be read"):
        Keys.open(tmp_path)


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"long content")
    write_atomically(path, b"short")
    assert (path.read_bytes(), [found.name for found in tmp_path.iterdir()]) == (b"short", ["file"])


def test_a_file_is_itself_until_it_is_moved_or_replaced(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"")
    identity = FileIdentity.of(str(path))
    assert identity.is_current()
    path.rename(tmp_path / "kept")
    assert not identity.is_current()
    path.write_bytes(b"")
    assert not identity.is_current()


def test_one_process_has_it_at_a_time(tmp_path):
    lock = DirectoryLock(tmp_path)
    with pytest.raises(ConfigError, match=f"in use by process {os.getpid()}: .* stop it"):
        DirectoryLock(tmp_path)
    lock.release()
    DirectoryLock(tmp_path).release()


async def test_a_second_store_is_refused_and_the_first_goes_on(tmp_path):
    store = await Store.open(tmp_path / "var", clock=lambda: NOW)
    with pytest.raises(ConfigError, match="in use by process"):
        await Store.open(tmp_path / "var", clock=lambda: NOW)
    await store.audit.append(event("e"))
    await store.close()
    await store.close()


async def test_what_cannot_be_a_directory_is_refused(tmp_path):
    (tmp_path / "var").write_text("a file")
    with pytest.raises(ConfigError, match=r"data_dir .* cannot be used"):
        await Store.open(tmp_path / "var", clock=lambda: NOW)


async def test_a_database_of_a_newer_version_is_refused(tmp_path):
    store = await Store.open(tmp_path / "var", clock=lambda: NOW)
    await store.writer.run(
        lambda connection: connection.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
            " VALUES ('douane', 'm999_later', '2099')"
        )
    )
    await store.close()
    with pytest.raises(ConfigError, match="newer than this version") as refused:
        await Store.open(tmp_path / "var", clock=lambda: NOW)
    assert refused.value.problems == ("m999_later",)


async def test_what_is_no_database_is_refused(tmp_path):
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "douane.db").write_bytes(b"not a database, but long enough " * 200)
    with pytest.raises(ConfigError, match=r"douane\.db cannot be read: file is not a database"):
        await Store.open(tmp_path / "var", clock=lambda: NOW)


async def test_state_that_cannot_be_read_is_refused_and_the_lock_given_back(tmp_path):
    store = await Store.open(tmp_path / "var", clock=lambda: NOW)
    await store.writer.run(
        lambda connection: connection.execute(
            "INSERT INTO runs VALUES (1, 'r_1', 'o', NULL, 9, 9, 0, 0)"
        )
    )
    await store.close()
    for _ in range(2):
        with pytest.raises(ConfigError, match="9 is not a valid"):
            await Store.open(tmp_path / "var", clock=lambda: NOW)


async def test_what_is_wrong_is_found_out_without_traffic_and_so_is_that_it_is_over(tmp_path):
    data_dir = tmp_path / "var"
    store = await Store.open(data_dir, clock=lambda: NOW)
    assert await store.problem() == ""
    (data_dir / "douane.db").rename(data_dir / "elsewhere")
    assert await store.problem() == "the database file was renamed or deleted"
    (data_dir / "elsewhere").rename(data_dir / "douane.db")
    assert await store.problem() == ""
    await store.close()
