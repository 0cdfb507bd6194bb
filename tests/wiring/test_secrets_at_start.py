"""Which key opens the identity database when the gateway starts, and how one takes over."""

import asyncio
import base64
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from gateway.config import Config, load
from gateway.errors import ConfigError, IdentityUnavailable
from gateway.oauth.keys import KeyRing
from gateway.storage.files import private_directory
from gateway.storage.identity.store import IdentityStores
from gateway.storage.kek import KekFile, new_key
from gateway.vault import Vault
from gateway.wiring.foundation import now, open_store
from gateway.wiring.identity import Identity, unlocked

ROW = "tests:row:sealed"


def config(folder: Path, auth: str = "{}") -> Config:
    path = folder / "douane.yaml"
    path.write_text(
        f"version: 1\npublic_url: http://127.0.0.1:1\ndata_dir: {folder / 'data'}\nauth: {auth}\n"
    )
    return load(path, os.environ)


@asynccontextmanager
async def opened(settings: Config) -> AsyncIterator[Identity]:
    async with open_store(settings) as store:
        yield await Identity.open(settings, store)


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    first, second = new_key(), new_key()
    monkeypatch.setenv("KEK_ONE", first)
    monkeypatch.setenv("KEK_TWO", second)
    return first, second


async def sealed_in(settings: Config) -> str:
    async with opened(settings) as identity:
        return identity.vault.seal(b"a token", ROW)


async def test_the_first_start_makes_a_key_beside_the_database(tmp_path: Path) -> None:
    sealed = await sealed_in(config(tmp_path))
    assert (tmp_path / "data" / "kek.key").stat().st_mode & 0o777 == 0o600
    async with opened(config(tmp_path)) as identity:
        assert identity.vault.open(sealed, ROW) == b"a token"


async def test_a_lost_key_is_said_and_nothing_is_made_anew(tmp_path: Path) -> None:
    await sealed_in(config(tmp_path))
    (tmp_path / "data" / "kek.key").rename(tmp_path / "kek.key")
    with pytest.raises(ConfigError, match="restore it from a backup"):
        await sealed_in(config(tmp_path))
    (tmp_path / "kek.key").rename(tmp_path / "data" / "kek.key")
    await sealed_in(config(tmp_path))


@pytest.mark.usefixtures("keys")
async def test_an_operators_key_takes_over_from_the_files(tmp_path: Path) -> None:
    sealed = await sealed_in(config(tmp_path))
    operators = config(tmp_path, "{key_encryption_key: 'env:KEK_ONE'}")
    async with opened(operators) as identity:
        assert identity.vault.open(sealed, ROW) == b"a token"
    assert not (tmp_path / "data" / "kek.key").exists()
    async with opened(operators) as identity:
        assert identity.vault.open(sealed, ROW) == b"a token"
        with pytest.raises(ConfigError, match="is yours"):
            await identity.kek()


@pytest.mark.usefixtures("keys")
async def test_an_operators_new_key_takes_over_with_the_help_of_the_former(tmp_path: Path) -> None:
    sealed = await sealed_in(config(tmp_path, "{key_encryption_key: 'env:KEK_ONE'}"))
    with pytest.raises(ConfigError, match="not the key that wraps"):
        await sealed_in(config(tmp_path, "{key_encryption_key: 'env:KEK_TWO'}"))
    both = "{key_encryption_key: 'env:KEK_TWO', former_key_encryption_key: 'env:KEK_ONE'}"
    await sealed_in(config(tmp_path, both))
    async with opened(config(tmp_path, "{key_encryption_key: 'env:KEK_TWO'}")) as identity:
        assert identity.vault.open(sealed, ROW) == b"a token"


async def test_a_key_that_anybody_could_guess_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O15: a default or empty secret is no secret."""
    guessable = base64.urlsafe_b64encode(b"A" * 32).decode().rstrip("=")
    monkeypatch.setenv("KEK_ONE", guessable)
    with pytest.raises(ConfigError, match="not drawn at random"):
        await sealed_in(config(tmp_path, "{key_encryption_key: 'env:KEK_ONE'}"))


async def test_the_files_key_is_replaced_and_a_cut_in_the_middle_loses_nothing(
    tmp_path: Path,
) -> None:
    settings = config(tmp_path)
    async with opened(settings) as identity:
        sealed = identity.vault.seal(b"a token", ROW)
        before = identity.vault.kek.id
        told = await identity.kek()
        assert told["id"] != before
    # Cut short after the successor was kept and before anything was wrapped with it.
    KekFile(tmp_path / "data").propose(new_key())
    async with opened(settings) as identity:
        assert identity.vault.open(sealed, ROW) == b"a token"
        assert identity.vault.kek.id == told["id"]
    assert not (tmp_path / "data" / "kek.key.next").exists()


async def test_of_two_who_replace_the_files_key_at_once_neither_loses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = await sealed_in(config(tmp_path))
    propose = KekFile.propose
    under_way: list[str] = []
    at_once = []

    def counted(file: KekFile, key: str) -> None:
        under_way.append(key)
        at_once.append(len(under_way))
        propose(file, key)

    settle = KekFile.settle

    def settled(file: KekFile, key: str) -> None:
        settle(file, key)
        under_way.remove(key)

    async with opened(config(tmp_path)) as identity:
        monkeypatch.setattr(KekFile, "propose", counted)
        monkeypatch.setattr(KekFile, "settle", settled)
        await asyncio.gather(*(identity.kek() for _ in range(4)))
    monkeypatch.undo()
    assert at_once == [1, 1, 1, 1]
    async with opened(config(tmp_path)) as identity:
        assert identity.vault.open(sealed, ROW) == b"a token"


async def test_a_data_key_is_replaced_and_what_it_sealed_still_opens(tmp_path: Path) -> None:
    async with opened(config(tmp_path)) as identity:
        sealed = identity.vault.seal(b"a token", ROW)
        await identity.data()
        assert identity.vault.open(sealed, ROW) == b"a token"
        assert identity.vault.seal(b"a token", ROW).split(".")[1] != sealed.split(".")[1]


async def test_whoever_uses_the_signing_keys_is_told_of_a_rotation(tmp_path: Path) -> None:
    async with opened(config(tmp_path)) as identity:
        told: list[KeyRing] = []
        end = identity.on_rotation(told.append)
        assert told == [identity.ring]
        with pytest.raises(ValueError, match="not been published"):
            await identity.signing()
        assert len(told) == 1
        end()


async def test_what_another_process_seals_with_is_used_here(tmp_path: Path) -> None:
    settings = config(tmp_path)
    async with opened(settings) as identity:
        before = identity.vault.seal(b"a token", ROW).split(".")[1]
        watching = asyncio.create_task(identity.watch())
        with closing(IdentityStores.open(settings.data_dir, clock=now)) as stores:
            vault = Vault.unlock(
                stores.data_keys, [identity.vault.kek], random=os.urandom, clock=now
            )
            vault.add_data_key()
        async with asyncio.timeout(60):
            while identity.vault.seal(b"a token", ROW).split(".")[1] == before:
                await asyncio.sleep(0.01)
        watching.cancel()


async def test_what_could_not_be_followed_at_once_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(config(tmp_path)) as identity:
        tries: list[None] = []

        def follow() -> None:
            tries.append(None)
            if len(tries) == 1:
                raise IdentityUnavailable("not now")

        monkeypatch.setattr(identity.vault, "follow", follow)
        watching = asyncio.create_task(identity.watch())
        await asyncio.sleep(0)
        identity.store.identity.epoch.turn()
        async with asyncio.timeout(60):
            while len(tries) < 2:
                await asyncio.sleep(0.01)
        watching.cancel()


async def test_what_another_process_revokes_is_seen_here(tmp_path: Path) -> None:
    settings = config(tmp_path)
    async with opened(settings) as identity:
        grants = identity.store.identity.grants
        watching = asyncio.create_task(identity.watch())
        other = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _REVOKE, str(settings.data_dir))
        )
        assert await other.wait() == 0
        async with asyncio.timeout(60):
            while not grants.is_revoked("", "t1"):
                await asyncio.sleep(0.01)
        watching.cancel()


_REVOKE = """
import sys, time
from pathlib import Path
from gateway.storage.files import private_directory
from gateway.storage.identity.store import IdentityStores
stores = IdentityStores.open(Path(sys.argv[1]), clock=time.time)
stores.grants.revoke_token("t1", until=time.time() + 60)
stores.close()
"""


async def test_what_is_shared_leaves_the_key_of_a_folder_alone(
    tmp_path: Path, keys: tuple[str, str]
) -> None:
    data_dir = private_directory(tmp_path / "data")
    KekFile(data_dir).read(make=True)
    text = (data_dir / "kek.key").read_bytes()
    auth = "{key_encryption_key: env:KEK_ONE}\nstorage: {kind: postgres, url: env:KEK_TWO}"
    with closing(IdentityStores.open(private_directory(tmp_path / "other"), clock=now)) as stores:
        vault = unlocked(config(tmp_path, auth), stores)
    assert vault.kek.text == keys[0]
    assert (data_dir / "kek.key").read_bytes() == text
