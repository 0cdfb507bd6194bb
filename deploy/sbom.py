"""Writes var/sbom.cdx.json: what a release is made of, as CycloneDX 1.6, from the lock file alone."""
# ruff: noqa: INP001 - a program of its own, in no package

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

from gateway.policy import toolchain

_ROOT = Path(__file__).resolve().parent.parent
_PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_OPA = ".".join(map(str, toolchain.VERSION))
_OPA_RELEASE = f"https://github.com/open-policy-agent/opa/releases/download/v{_OPA}"


def locked(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the name, the version and the SHA-256 digests of each requirement in a lock file.

    Raises:
        ValueError: A requirement has no exact version, or no hash.

    """
    for entry in re.split(r"\n(?=[A-Za-z0-9])", text):
        line = entry.lstrip()
        if not line or line.startswith("#"):
            continue
        pinned, hashes = _PINNED.match(line), sorted(_HASH.findall(entry))
        if pinned is None or not hashes:
            raise ValueError(f"not locked by version and hash: {line.splitlines()[0]}")
        yield pinned[1], pinned[2], hashes


def _library(name: str, version: str, hashes: list[str]) -> dict[str, Any]:
    normal = re.sub(r"[-_.]+", "-", name).lower()
    purl = f"pkg:pypi/{normal}@{version}"
    # One digest a file of the release (source, and a wheel a platform); any of them may be
    # installed, none is the component's own, so they are properties and not its `hashes`.
    properties = [{"name": "douane:locked:sha256", "value": digest} for digest in hashes]
    return {
        "type": "library",
        "bom-ref": purl,
        "name": normal,
        "version": version,
        "purl": purl,
        "properties": properties,
    }


def _opa(system: str, machine: str, build: toolchain.Build) -> dict[str, Any]:
    purl = f"pkg:generic/opa@{_OPA}?checksum=sha256:{build.sha256}&file_name={build.asset}"
    return {
        "type": "application",
        "bom-ref": purl,
        "name": "opa",
        "version": _OPA,
        "description": f"Open Policy Agent for {system}/{machine}",
        "hashes": [{"alg": "SHA-256", "content": build.sha256}],
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "purl": purl,
        "externalReferences": [{"type": "distribution", "url": f"{_OPA_RELEASE}/{build.asset}"}],
    }


def debian(listed: str) -> list[dict[str, Any]]:
    """Return components for what `dpkg-query -W` says of an image: name, version, architecture."""
    components = []
    for line in listed.splitlines():
        named, version, machine = line.split("\t")
        name = named.partition(":")[0]
        purl = f"pkg:deb/debian/{name}@{quote(version)}?arch={machine}"
        part = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
        components.append(part)
    return components


def bom(requirements: str, version: str, more: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return the bill of materials of `version`, whose lock file reads `requirements`.

    `more` are components that an image holds beside.

    Equal input gives equal output: there is no time and no randomness in it.

    Raises:
        ValueError: A requirement is not locked.

    """
    components = [_library(*entry) for entry in locked(requirements)]
    components += [_opa(*machine, build) for machine, build in toolchain.BUILDS.items()]
    components += more
    components.sort(key=lambda component: str(component["bom-ref"]))
    refs = [str(component["bom-ref"]) for component in components]
    product = f"pkg:generic/douane@{version}"
    digest = sha256(json.dumps(components, sort_keys=True).encode()).hexdigest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, f'{product}#{digest}')}",
        "version": 1,
        "metadata": {"component": _product(product, version)},
        "components": components,
        "dependencies": [{"ref": product, "dependsOn": refs}],
    }


def _product(purl: str, version: str) -> dict[str, Any]:
    return {
        "type": "application",
        "bom-ref": purl,
        "name": "douane",
        "version": version,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "purl": purl,
    }


def main() -> int:
    """Write the bill of this checkout, and print where it is."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lock = (_ROOT / "requirements.txt").read_text(encoding="utf-8")
    content = bom(lock, project["version"])
    target = _ROOT / "var" / "sbom.cdx.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    print(f"{target.relative_to(_ROOT)}: {len(content['components'])} components")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
