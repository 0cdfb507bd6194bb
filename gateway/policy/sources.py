"""A policy's files: read from a folder, or from a bundle that OPA has verified and unpacked."""

import hashlib
import http.client
import re
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from gateway.domain._value import value
from gateway.domain.document import canonical
from gateway.errors import ConfigError
from gateway.policy.in_words import in_words
from gateway.policy.opa import Opa, require
from gateway.policy.settings import PolicySettings

POLICY_FOLDER = "policy"
"""Where a policy lies in the folder it is laid out in; not part of the paths that are told."""

DATA_NAMES = frozenset({"data.json", "data.yaml", "data.yml"})
"""The only names that OPA reads data from in a bundle."""

ASIDE = frozenset({"input.schema.json"})
_ASIDE_FOLDER = "cases"
_OF_BUNDLES = frozenset({".manifest", ".signatures.json"})
_DATA = frozenset({".json", ".yaml", ".yml"})
_FETCHED = "bundle.tar.gz"
_TEST_SUFFIX = "_test.rego"
_CODE = re.compile(r'"code":\s*"([A-Za-z0-9_.-]{1,64})"')
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


def codes_in(rego: bytes) -> list[str]:
    """Return the codes that a file's rules give as they stand there, in their order.

    A code that a rule puts together is not among them.
    """
    found = _CODE.findall(rego.decode(errors="replace"))
    return list(dict.fromkeys(found))


def _is_test(path: str) -> bool:
    return path.endswith(_TEST_SUFFIX)


@value
class Snapshot:
    """What lay there at one moment: a policy's bytes, and the key that has to have signed them.

    What is built of a snapshot is built of nothing else, whatever is saved meanwhile.
    """

    name: str
    """Of the folder or the file, as OPA tells it."""
    files: Mapping[str, bytes]
    """By their path below the folder; of a bundle the one file, without a path."""
    key: bytes | None = None

    @property
    def fingerprint(self) -> str:
        """Return what is another text whenever anything of it is; its tests count, too."""
        total = hashlib.sha256()
        for path, content in sorted(self.files.items()):
            total.update(f"{len(path)}:{path}{len(content)}:".encode(errors="surrogateescape"))
            total.update(content)
        total.update(b"" if self.key is None else b"key:" + self.key)
        return total.hexdigest()


def read_sources(settings: PolicySettings, opa: Opa) -> Sources:
    """Read the policy that `settings` name, as it is now.

    Raises:
        ConfigError: It is not there, not signed by whom it must be, or holds a file that a policy
            would seem to have and not use.

    """
    return sources_of(take(settings), settings, opa)


def take(settings: PolicySettings) -> Snapshot:
    """Take the bytes of the policy that `settings` name. Nothing of them is judged yet.

    Raises:
        ConfigError: They are not there, or far too many.

    """
    with in_words("the policy cannot be read"):
        return _snapshot(settings)


def _snapshot(settings: PolicySettings) -> Snapshot:
    try:
        key = None if settings.verification_key is None else settings.verification_key.read_bytes()
    except OSError as error:
        problem = f"{settings.verification_key}: {error.strerror}"
        raise ConfigError("the policy's key cannot be read", problems=[problem]) from error
    if settings.path.startswith("https://"):
        return Snapshot(name=_FETCHED, files={"": _fetch(settings.path)}, key=key)
    path = Path(settings.path)
    if not path.is_file() and not path.is_dir():
        problem = f"policy.path: nothing is at {path}; `douane init` writes the shipped policies"
        raise ConfigError("the policy is neither a folder nor a bundle", problems=[problem])
    try:
        files = _taken(path, signed=key is not None)
    except OSError as error:
        problem = f"{error.filename}: {error.strerror}"
        raise ConfigError("the policy cannot be read", problems=[problem]) from error
    if sum(map(len, files.values())) > _LARGEST_BYTES:
        raise ConfigError("the policy is far too large")
    return Snapshot(name=path.absolute().name, files=files, key=key)


def sources_of(snapshot: Snapshot, settings: PolicySettings, opa: Opa) -> Sources:
    """Return the policy in `snapshot`.

    Raises:
        ConfigError: As `read_sources`.

    """
    _require_names(snapshot.files)
    if "" in snapshot.files or snapshot.key is not None:
        found = _from_bundle(snapshot, settings, opa)
        _require_names(found.files)
        return found
    return _of_folder(snapshot.files)


def _fetch(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_FETCH_SECONDS) as response:  # noqa: S310 - https only
            if not response.url.startswith("https://"):
                raise ConfigError("the policy bundle's address led away from https")
            content: bytes = response.read(_LARGEST_BYTES + 1)
    except http.client.HTTPException as error:
        # How much of it came is another number each time, and it is one thing to tell.
        problem = f"no whole answer: {type(error).__name__}"
        raise ConfigError("the policy bundle could not be fetched", problems=[problem]) from error
    except OSError as error:
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
    files = _taken(folder, signed=False)
    _require_names(files)
    if sum(map(len, files.values())) > _LARGEST_BYTES:
        raise ConfigError("the policy is far too large")
    return _of_folder(files)


def _taken(path: Path, *, signed: bool) -> dict[str, bytes]:
    """Return the bytes of a bundle, or of what counts in a folder; of one that is signed all."""
    if path.is_file():
        return {"": path.read_bytes()}
    files: dict[str, bytes] = {}
    size = 0
    for one in _walk(path):
        name = one.relative_to(path).as_posix()
        if signed or _decides(one):
            files[name] = one.read_bytes()
        elif one.name not in _OF_BUNDLES and one.suffix in _DATA and not _is_aside(name):
            files[name] = b""
        size += len(files.get(name, b""))
        if size > _LARGEST_BYTES:
            break
    return files


def _require_names(files: Mapping[str, bytes]) -> None:
    """Return if the name of each file can be told, in a digest and to people."""
    told = [(name, name.encode(errors="backslashreplace").decode()) for name in sorted(files)]
    problems = [f"{one}:1: the file's name is not UTF-8" for name, one in told if name != one]
    if problems:
        raise ConfigError("the policy has a file whose name cannot be told", problems=problems)


def _of_folder(files: Mapping[str, bytes]) -> Sources:
    wrong = [name for name in files if not _decides(PurePosixPath(name))]
    if wrong:
        problems = [
            f"{name}:1: data is read from files named data.yaml or data.json only" for name in wrong
        ]
        raise ConfigError("the policy folder holds data that would not be used", problems=problems)
    return Sources(files=files)


def _decides(path: PurePath) -> bool:
    return path.suffix == ".rego" or path.name in DATA_NAMES


def _walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") and path.name not in _OF_BUNDLES:
            continue
        if path.is_dir():
            yield from _walk(path)
        elif path.is_file():
            yield path


def _is_aside(name: str) -> bool:
    return name in ASIDE or PurePosixPath(name).parts[0] == _ASIDE_FOLDER


def _from_bundle(snapshot: Snapshot, settings: PolicySettings, opa: Opa) -> Sources:
    """Have OPA verify and unpack a bundle, or a folder with the signatures of one."""
    with tempfile.TemporaryDirectory(prefix="douane-policy-") as place:
        folder = Path(place)
        _lay_out(snapshot, folder / "given" / snapshot.name)
        unpacked = folder / "unpacked.tar.gz"
        ran = opa.run(
            "build",
            "-b",
            snapshot.name,
            "-o",
            str(unpacked),
            *_verification(snapshot.key, settings, folder / "key.pem"),
            cwd=folder / "given",
        )
        require(ran, "OPA does not accept the policy bundle")
        # OPA names what it unpacks by where it found it, which is no part of the policy.
        return Sources(
            files={
                path.removeprefix(f"{snapshot.name}/"): content
                for path, content in _members(unpacked)
            }
        )


def _lay_out(snapshot: Snapshot, place: Path) -> None:
    for path, content in snapshot.files.items():
        target = place / path if path else place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _verification(key: bytes | None, settings: PolicySettings, place: Path) -> tuple[str, ...]:
    if key is None:
        return ()
    place.write_bytes(key)
    algorithm = settings.signing_algorithm
    return ("--verification-key", str(place), "--signing-alg", algorithm)


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(archive) as tar:
        for member in tar:
            path = PurePosixPath(member.name.lstrip("/"))
            content = tar.extractfile(member)
            if content is None or ".." in path.parts:
                continue
            if path.suffix == ".rego" or path.name in DATA_NAMES:
                yield path.as_posix(), content.read()
