"""deploy/douane.service under a systemd that is the first process of its container."""

import re
from typing import Any

from benchmarks.deploy.contained import mounts
from benchmarks.deploy.engine import Engine, Failed, until
from benchmarks.deploy.image import IMAGE
from benchmarks.deploy.talk import ask

_NAME = "douane-trial-unit"
_SYSTEMD = "localhost/douane-systemd:local"
_DROP_IN = "/etc/systemd/system/douane.service.d"
_BOOTED_S = 60


def tried(engine: Engine) -> dict[str, Any]:
    """Start the unit, ask everything of it, reload and stop it; then close it with the drop-in."""
    file = "benchmarks/deploy/systemd.Containerfile"
    engine.build(file, _SYSTEMD, "--build-arg", f"DOUANE={IMAGE}")
    engine.podman("rm", "-f", "-i", "-t", "2", _NAME)
    run = ("run", "-d", "--name", _NAME, "--no-healthcheck", "--systemd=always", "--privileged")
    try:
        engine.podman(*run, "--network", "none", *mounts(engine, "/var/lib/douane"), _SYSTEMD)
        return _asked(engine)
    finally:
        engine.podman("rm", "-f", "-i", "-t", "2", _NAME)


def _asked(engine: Engine) -> dict[str, Any]:
    def there(*words: str, accept: bool = False) -> str:
        return engine.podman("exec", _NAME, *words, accept=accept)

    def booted() -> bool:
        return there("systemctl", "is-system-running", accept=True) in {"running", "degraded"}

    until(booted, within_s=_BOOTED_S, what="systemd")
    there("systemctl", "start", "douane")
    found = ask(engine, _NAME, "/opt/douane/bin/python")
    found["security"] = score(there("systemd-analyze", "security", "--no-pager", "douane"))
    found["systemd"] = there("systemctl", "--version").split()[1]
    there("systemctl", "reload", "douane")
    there("systemctl", "stop", "douane")
    found["stopped"] = there("systemctl", "show", "-P", "Result", "douane")
    there("mkdir", "-p", _DROP_IN)
    there("cp", "/opt/no-jails.conf", _DROP_IN)
    there("systemctl", "daemon-reload")
    there("systemctl", "start", "douane", accept=True)
    found["closed"] = there("systemctl", "show", "-P", "Result", "douane")
    said = there("journalctl", "-o", "cat", "-u", "douane", "-n", "40").splitlines()
    found["closed because"] = [line for line in said if line.startswith("error: ")]
    found["closed security"] = score(there("systemd-analyze", "security", "--no-pager", "douane"))
    if found["stopped"] != "success" or found["closed"] == "success":
        raise Failed(f"the unit did not stop, or its drop-in closes nothing: {found}")
    return found


def score(said: str) -> str:
    """Return the exposure level of `systemd-analyze security`, of 10 at worst."""
    found = re.search(r"Overall exposure level for \S+: (\d+\.\d+)", said)
    return found[1] if found else "?"
