"""A policy's files: read from a folder, or from a bundle that OPA has verified and unpacked."""

import hashlib
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from gateway.domain._value import value
from gateway.domain.document import canonical
from gateway.errors import ConfigError
from gateway.policy.opa import Opa, require
from gateway.policy.settings import PolicySettings

DATA_NAMES = frozenset({"data.json", "data.yaml", "data.yml"})
"""The only names that OPA reads data from in a bundle."""

ASIDE = frozenset({"input.schema.json"})
_ASIDE_FOLDER = "cases"
_TEST_SUFFIX = "_test.rego"
_LARGEST_BYTES = 32 * 1024**2
_FETCH_SECONDS = 20


@value
class Sources:
    """Rego and data documents by their path, which decides where data goes."""

    files: Mapping[str, bytes]

    @property
    def rego(self) -> tuple[str, ...]:
        """The paths of what decides: all Rego but the tests."""
        return tuple(p for p in sorted(self.files) if p.endswith(".rego") and not _is_test(p))

    @property
    def has_tests(self) -> bool:
        """Tell whether there is a `*_test.rego`."""
        return any(map(_is_test, self.files))

    def write(self, folder: Path, *, tests: bool) -> None:
        """Lay the files out below `folder`, with or without the tests."""
        for path, content in self.files.items():
            if tests or not _is_test(path):
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)

    def digest(self, config: Mapping[str, Any]) -> str:
        """Return `sha256:...` over every file that decides and over the gateway's own data."""
        total = hashlib.sha256()
        for path, content in sorted(self.files.items()):
            if not _is_test(path):
                total.update(f"{len(path)}:{path}{len(content)}:".encode())
                total.update(content)
        total.update(canonical(dict(config)))
        return f"sha256:{total.hexdigest()}"


def _is_test(path: str) -> bool:
    return path.endswith(_TEST_SUFFIX)


def read_sources(settings: PolicySettings, opa: Opa) -> Sources:
    """Read the policy that `settings` name.

    Raises:
        ConfigError: It is not there, not signed by whom it must be, or holds a file that a policy
            would seem to have and not use.

    """
    if settings.path.startswith("https://"):
        with tempfile.TemporaryDirectory(prefix="douane-policy-") as folder:
            fetched = Path(folder) / "bundle.tar.gz"
            fetched.write_bytes(_fetch(settings.path))
            return _from_bundle(fetched, settings, opa)
    path = Path(settings.path)
    if path.is_file() or settings.verification_key is not None:
        return _from_bundle(path, settings, opa)
    if not path.is_dir():
        raise ConfigError("the policy is neither a folder nor a bundle", problems=[str(path)])
    return read_folder(path)


def _fetch(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_FETCH_SECONDS) as response:  # noqa: S310 - https only
            if not response.url.startswith("https://"):
                raise ConfigError("the policy bundle's address led away from https")
            content: bytes = response.read(_LARGEST_BYTES + 1)
    except (urllib.error.URLError, OSError) as error:
        raise ConfigError(
            "the policy bundle could not be fetched", problems=[str(error)]
        ) from error
    if len(content) > _LARGEST_BYTES:
        raise ConfigError("the policy bundle is far too large")
    return content


def read_folder(folder: Path) -> Sources:
    """Read the policy in `folder`.

    Raises:
        ConfigError: As `read_sources`.

    """
    files: dict[str, bytes] = {}
    problems: list[str] = []
    size = 0
    for path in _walk(folder):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".rego" or path.name in DATA_NAMES:
            files[name] = path.read_bytes()
            size += len(files[name])
        elif path.suffix in {".json", ".yaml", ".yml"} and not _is_aside(name):
            problems.append(f"{name}:1: data is read from files named data.yaml or data.json only")
    if size > _LARGEST_BYTES:
        raise ConfigError("the policy is far too large")
    if problems:
        raise ConfigError("the policy folder holds data that would not be used", problems=problems)
    return Sources(files=files)


def _walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _walk(path)
        elif path.is_file():
            yield path


def _is_aside(name: str) -> bool:
    return name in ASIDE or PurePosixPath(name).parts[0] == _ASIDE_FOLDER


def _from_bundle(bundle: Path, settings: PolicySettings, opa: Opa) -> Sources:
    """Have OPA verify and unpack a bundle, or a folder with the signatures of one."""
    with tempfile.TemporaryDirectory(prefix="douane-policy-") as folder:
        unpacked = Path(folder) / "unpacked.tar.gz"
        ran = opa.run(
            "build",
            "-b",
            bundle.name,
            "-o",
            str(unpacked),
            *_verification(settings),
            cwd=bundle.absolute().parent,
        )
        require(ran, "OPA does not accept the policy bundle")
        # OPA names what it unpacks by where it found it, which is no part of the policy.
        return Sources(
            files={
                path.removeprefix(f"{bundle.name}/"): content
                for path, content in _members(unpacked)
            }
        )


def _verification(settings: PolicySettings) -> tuple[str, ...]:
    key = settings.verification_key
    if key is None:
        return ()
    algorithm = settings.signing_algorithm
    return ("--verification-key", str(key.absolute()), "--signing-alg", algorithm)


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(archive) as tar:
        for member in tar:
            path = PurePosixPath(member.name.lstrip("/"))
            content = tar.extractfile(member)
            if content is None or ".." in path.parts:
                continue
            if path.suffix == ".rego" or path.name in DATA_NAMES:
                yield path.as_posix(), content.read()
