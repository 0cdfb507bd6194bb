"""The file with the key-encryption key: made once, never made anew, changed without a gap."""

import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway.errors import ConfigError
from gateway.storage.kek import KekFile, new_key
from gateway.vault import KeyEncryptionKey


def test_it_is_made_at_the_first_run_for_its_owner_alone(tmp_path):
    (key,) = KekFile(tmp_path).read(make=True)
    assert KekFile(tmp_path).read(make=True) == KekFile(tmp_path).read(make=False) == [key]
    assert stat.S_IMODE((tmp_path / "kek.key").stat().st_mode) == 0o600
    assert KeyEncryptionKey.parse(key, named="kek.key").text == key
    assert new_key() != new_key()


def test_of_many_that_begin_at_once_all_have_the_same(tmp_path):
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: KekFile(tmp_path).read(make=True), range(8)))
    assert found == [found[0]] * 8


def test_a_lost_one_is_not_made_anew_while_keys_are_wrapped_with_it(tmp_path):
    with pytest.raises(ConfigError, match=r"kek\.key is missing.* restore it"):
        KekFile(tmp_path).read(make=False)
    assert KekFile(tmp_path).found() == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("others", [0o640, 0o604])
def test_one_that_others_can_reach_is_refused(tmp_path, others):
    KekFile(tmp_path).read(make=True)
    (tmp_path / "kek.key").chmod(others)
    with pytest.raises(ConfigError, match="chmod 600"):
        KekFile(tmp_path).read(make=True)


def test_one_that_is_a_link_or_no_text_is_refused_and_not_replaced(tmp_path):
    KekFile(tmp_path).read(make=True)
    (tmp_path / "kek.key").rename(tmp_path / "elsewhere")
    (tmp_path / "kek.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"kek\.key cannot be read"):
        KekFile(tmp_path).read(make=True)
    (tmp_path / "kek.key").unlink()
    (tmp_path / "kek.key").touch(mode=0o600)
    (tmp_path / "kek.key").write_bytes(b"hunter2\xff")
    with pytest.raises(ConfigError, match="is not a key") as refused:
        KekFile(tmp_path).read(make=True)
    assert "hunter2" not in str(refused.value)


def test_a_change_leaves_one_key_and_the_one_in_use(tmp_path):
    file = KekFile(tmp_path)
    (old,) = file.read(make=True)
    new = new_key()
    file.propose(new)
    assert file.read(make=False) == [old, new]
    file.settle(new)
    assert file.read(make=False) == [new]
    assert [path.name for path in tmp_path.iterdir()] == ["kek.key"]


def test_a_change_that_was_cut_short_before_anything_was_wrapped_is_undone(tmp_path):
    file = KekFile(tmp_path)
    (old,) = file.read(make=True)
    file.propose(new_key())
    file.settle(old)
    assert file.read(make=False) == [old]
    file.settle(old)
    assert [path.name for path in tmp_path.iterdir()] == ["kek.key"]


def test_the_one_in_use_is_kept_whatever_else_was_proposed_meanwhile(tmp_path):
    file = KekFile(tmp_path)
    file.read(make=True)
    used, other = new_key(), new_key()
    file.propose(used)
    file.propose(other)
    file.settle(used)
    assert file.found() == [used]
