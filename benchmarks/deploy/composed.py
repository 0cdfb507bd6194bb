"""The two services of deploy/compose.yaml, and the server between which nothing else stands."""

import copy
import json
import os
import secrets
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml

from benchmarks.deploy.engine import Engine, Failed, until
from benchmarks.deploy.talk import ask
from benchmarks.report import ROOT
from tests.servers.process import free_port

_FILE = ROOT / "deploy" / "compose.yaml"
_NAME = "douane-trial"
_UID = 65532
_OPA = "http://opa:8181/health"


def for_a_trial(compose: dict[str, Any], *, port: int, token: Path) -> dict[str, Any]:
    """Return the file with the trial's own server, token and port; all else is as shipped."""
    changed = copy.deepcopy(compose)
    services = changed["services"]
    services["gateway"].pop("build")
    services["gateway"]["ports"] = [f"127.0.0.1:{port}:8080"]
    services["gateway"]["volumes"].append(_shown("inside.py"))
    services["notes"] |= {
        "image": services["gateway"]["image"],
        "entrypoint": ["python"],
        "command": ["/opt/trial/notes.py", "--http", "9001"],
        "volumes": [_shown("notes.py")],
    }
    for service in services.values():
        service["volumes"] = [_absolute(volume) for volume in service["volumes"]]
    changed["secrets"]["opa_token"]["file"] = str(token)
    return changed


def _shown(name: str) -> str:
    return f"{Path(__file__).with_name(name)}:/opt/trial/{name}:ro"


def _absolute(volume: str) -> str:
    source, colon, target = volume.partition(":")
    return f"{(_FILE.parent / source).resolve()}{colon}{target}" if source[0] == "." else volume


def tried(engine: Engine) -> dict[str, Any]:
    """Start all three, make a call through the gateway, and see who reaches whom."""
    token = engine.folder / "opa_token"
    token.unlink(missing_ok=True)
    token.write_text(secrets.token_hex(32))
    token.chmod(0o400)
    # The service's user reads it as it is.
    _own(token)
    file = engine.folder / "compose.json"
    port = free_port()
    shipped = yaml.safe_load(_FILE.read_text())
    file.write_text(json.dumps(for_a_trial(shipped, port=port, token=token)))
    engine.environment["DOUANE_TOKEN_SHA256"] = sha256(token.read_bytes()).hexdigest()
    compose = ("podman-compose", "-f", str(file), "-p", _NAME)
    engine.run(*compose, "down", "-v", accept=True)
    try:
        engine.run(*compose, "up", "-d")
        gateway = f"{_NAME}_gateway_1"
        until(lambda: _runs(engine, gateway), within_s=30, what="the gateway's container")
        found = ask(engine, gateway)
        found["opa from notes"] = _reached(engine, f"{_NAME}_notes_1", _OPA)
        found["opa from the gateway"] = _reached(engine, gateway, _OPA)
        if "200" in found["opa from notes"] or found["opa from the gateway"] != "200":
            raise Failed(f"the networks are not as compose says: {found}")
        return found
    finally:
        engine.run(*compose, "down", "-v", accept=True)


def _own(file: Path) -> None:

    os.chown(file, _UID, _UID)


def _runs(engine: Engine, name: str) -> bool:
    return engine.podman("inspect", "-f", "{{.State.Running}}", name, accept=True) == "true"


def _reached(engine: Engine, container: str, url: str) -> str:
    code = (
        "import sys, urllib.request as u, urllib.error as e\n"
        "try: print(u.urlopen(sys.argv[1], timeout=5).status)\n"
        "except OSError as error: print(error)"
    )
    return engine.podman("exec", container, "python", "-c", code, url)
