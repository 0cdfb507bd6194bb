"""Builds all of a release into dist/: wheel, requirements, chart, image, bills, signed provenance.

`make release KEY=release.pem [IMAGE=localhost/douane:local]`. Without a key nothing is signed.
"""
# ruff: noqa: INP001, T201 - a program of its own, in no package

import argparse
import json
import platform
import shutil
import subprocess
import sys
import tomllib
import zipfile
from hashlib import file_digest
from pathlib import Path

from deploy.chart import archive
from deploy.provenance import envelope, public_pem, signing_key, statement
from deploy.sbom import bom, debian

_ROOT = Path(__file__).resolve().parent.parent
_LOCKS = ("requirements.txt", "requirements-build.txt")
_DEBIAN = "${binary:Package}\\t${Version}\\t${Architecture}\\n"

_RECORD = "import importlib.metadata as m; print(m.distribution('douane').read_text('RECORD'))"


class Refused(Exception):
    """No release is made of this."""


def wheel(target: Path) -> Path:
    """Build the wheel of this checkout into `target`; equal files give an equal wheel."""
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(words, cwd=_ROOT, check=True, capture_output=True)  # noqa: S603 - no shell
    (built,) = target.glob("*.whl")
    return built


def requirements(built: str, digest: str, lock: str) -> str:
    """Return what pip installs a wheel from, it and all it needs by their hashes."""
    return f"./{built} --hash=sha256:{digest}\n{lock}"


def digest_of(file: Path) -> str:
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def unlike(wheel: str, image: str) -> list[str]:
    """Return which files of a wheel an image has otherwise or not at all, by the records of both."""
    there = set(image.splitlines())
    named = (line for line in wheel.splitlines() if line not in there)
    return [line.split(",")[0] for line in named if not line.endswith(",,")]


def _image(tag: str, stem: str, dist: Path, lock: str, version: str) -> None:
    (built,) = dist.glob("*.whl")
    record = zipfile.ZipFile(built).read(f"{stem}.dist-info/RECORD").decode()
    inside = ("--entrypoint", "python", "--network", "none", tag, "-c", _RECORD)
    if other := unlike(record, _said("podman", "run", "--rm", *inside)):
        raise Refused(f"{tag} was not built of this commit: {', '.join(other[:3])}")
    archive = dist / f"{stem}.oci.tar"
    _said("podman", "save", "--format", "oci-archive", "-o", str(archive), tag)
    entry = ("--entrypoint", "dpkg-query", "--network", "none", tag, "-W", "-f", _DEBIAN)
    packages = debian(_said("podman", "run", "--rm", *entry))
    _write_json(dist / f"{stem}.oci.cdx.json", bom(lock, version, packages))


def _said(*words: str) -> str:
    done = subprocess.run(words, cwd=_ROOT, check=False, capture_output=True, text=True)  # noqa: S603 - no shell
    if done.returncode:
        raise Refused(f"{' '.join(words[:2])}: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()


def _write_json(file: Path, content: object) -> None:
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def release(dist: Path, *, key: Path | None, image: str) -> list[Path]:
    """Build all of it into `dist`, which is emptied first, and return the files.

    Raises:
        Refused: The checkout differs from its commit, or the image was not built of it or cannot be
            had.

    """
    if changed := _said("git", "status", "--porcelain"):
        raise Refused(f"the checkout is not what was committed:\n{changed}")
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    lock = (_ROOT / "requirements.txt").read_text(encoding="utf-8")
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stem = f"douane-{project['version']}"
    built = wheel(dist)
    text = requirements(built.name, digest_of(built), lock)
    (dist / f"{stem}.requirements").write_text(text, encoding="utf-8")
    _write_json(dist / f"{stem}.cdx.json", bom(lock, project["version"]))
    (dist / f"{stem}.chart.tgz").write_bytes(archive(_ROOT / "deploy" / "helm" / "douane"))
    if image:
        _image(image, stem, dist, lock, project["version"])
    _attest(dist, stem, key, image)
    return sorted(dist.iterdir())


def _attest(dist: Path, stem: str, key: Path | None, image: str) -> None:
    content = statement(
        {file.name: digest_of(file) for file in dist.iterdir()},
        commit=_said("git", "rev-parse", "HEAD"),
        materials={name: digest_of(_ROOT / name) for name in _LOCKS},
        parameters={"python": platform.python_version(), "image": image},
    )
    if key is None:
        _write_json(dist / f"{stem}.intoto.unsigned.json", content)
        return
    secret = signing_key(key.read_bytes())
    _write_json(dist / f"{stem}.intoto.json", envelope(content, secret))
    (dist / f"{stem}.pub").write_bytes(public_pem(secret.public_key()))


def main() -> int:
    """Build a release, and print what is in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--key", type=Path, help="an Ed25519 key, as PEM")
    parser.add_argument("--image", default="", help="an image that podman has")
    given = parser.parse_args()
    try:
        files = release(_ROOT / "dist", key=given.key, image=given.image)
    except (Refused, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    for file in files:
        print(f"{digest_of(file)}  {file.relative_to(_ROOT)}")
    if given.key is None:
        print("not signed: give the key of releases with KEY=")
    if not given.image:
        print("without an image: build one, and name it with IMAGE=")
    return 0


if __name__ == "__main__":
    sys.exit(main())
