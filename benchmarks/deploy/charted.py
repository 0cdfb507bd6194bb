"""The containers of a pod of deploy/kustomize, in their order, over a real PostgreSQL.

Podman stands in for a kubelet: files and folders belong to whom they would, and what the manifest
forbids is forbidden. Nothing but a socket leads out.
"""

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import yaml

from benchmarks.deploy.contained import HARDENED
from benchmarks.deploy.engine import Engine, Failed, until
from benchmarks.deploy.image import IMAGE
from benchmarks.report import ROOT
from gateway.storage.kek import new_key
from tests.postgres import QUICK, Postgres, running

_BASE = ROOT / "deploy" / "kustomize" / "base"
_NAME = "douane-trial-charted"
_GROUP = 65532
_ASKED = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=5).read().decode())"
_READY = "http://127.0.0.1:8081/readyz"


def tried(engine: Engine) -> dict[str, Any]:
    """Copy the secrets, serve, look at what it says of itself, add a person, and end it."""
    spec = yaml.safe_load((_BASE / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    engine.podman("rm", "-f", "-i", _NAME)
    with tempfile.TemporaryDirectory(prefix="douane-pg-") as place:
        open_to_all = {**QUICK, "unix_socket_permissions": "0777"}
        with running(Path(place), open_to_all) as server:
            Path(place).chmod(0o755)
            try:
                found = _in_order(engine, spec, server)
            finally:
                engine.podman("rm", "-f", "-i", _NAME)
    as_told = (found["answer"]["status"], found["secrets"], found["ended"])
    if as_told != ("ready", "65532 400", "0"):
        raise Failed(f"not as the manifest has it: {as_told}")
    return found


def _in_order(engine: Engine, spec: dict[str, Any], server: Postgres) -> dict[str, Any]:
    volumes = _volumes(engine.folder / "charted", server)
    (first,), (gateway,) = spec["initContainers"], spec["containers"]
    words = ("run", "--rm", *HARDENED, *_mounts(first, volumes))
    copy, *rest = first["command"]
    engine.podman(*words, "--entrypoint", copy, IMAGE, *rest)
    socket = ("-v", f"{server.folder}:/database")
    env = [word for each in gateway["env"] for word in ("-e", f"{each['name']}={each['value']}")]
    words = ("run", "-d", "--name", _NAME, "--no-healthcheck", *HARDENED, *env, *socket)
    engine.podman(*words, *_mounts(gateway, volumes), IMAGE, *gateway["args"])
    until(lambda: bool(_inside(engine, "python", "-c", _ASKED, _READY)), within_s=300, what="ready")
    found: dict[str, Any] = {"answer": json.loads(_inside(engine, "python", "-c", _ASKED, _READY))}
    found["secrets"] = _inside(engine, "stat", "--format=%u %a", "/run/douane/kek")
    found["check"] = engine.podman("exec", _NAME, "douane", "check", "--offline")
    found["person"] = engine.podman("exec", _NAME, "douane", "users", "add", "emma")
    engine.podman("stop", "-t", str(spec["terminationGracePeriodSeconds"]), _NAME)
    found["ended"] = engine.podman("inspect", "-f", "{{.State.ExitCode}}", _NAME)
    return found


def _inside(engine: Engine, *words: str) -> str:
    return engine.podman("exec", _NAME, *words, accept=True)


def _volumes(folder: Path, server: Postgres) -> dict[str, Path]:
    """Return the pod's volumes, as a kubelet lays them out for a group; `/tmp` is every trial's."""
    volumes = {name: folder / name for name in ("config", "given", "secrets", "data")}
    shutil.rmtree(folder, ignore_errors=True)
    for place in volumes.values():
        place.mkdir(parents=True)
        os.chown(place, 0, _GROUP)
        place.chmod(0o2777)
    (volumes["config"] / "douane.yaml").write_text((_BASE / "douane.yaml").read_text())
    address = server.fresh().replace(str(server.folder), "/database")
    for name, text in (("kek", new_key()), ("database", address)):
        file = volumes["given"] / name
        file.write_text(text)
        os.chown(file, 0, _GROUP)
        file.chmod(0o440)
    return volumes


def _mounts(container: dict[str, Any], volumes: dict[str, Path]) -> list[str]:
    shown = [
        f"{volumes[each['name']]}:{each['mountPath']}{':ro' if each.get('readOnly') else ''}"
        for each in container["volumeMounts"]
        if each["name"] in volumes
    ]
    return [word for mount in shown for word in ("-v", mount)]
