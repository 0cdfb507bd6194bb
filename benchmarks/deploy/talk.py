"""What a gateway in a container or on a machine of a trial says when it is asked for everything."""

import json
from typing import Any

from benchmarks.deploy.engine import Engine, Failed

CALLED = "the note one"
"""What the trial's tool returns."""


def ask(engine: Engine, container: str, *python: str) -> dict[str, Any]:
    """Run `inside.py` in `container`, and return what it has found."""
    words = (*(python or ("python",)), "/opt/trial/inside.py", "/etc/douane/douane.yaml")
    try:
        said = engine.podman("exec", container, *words)
    except Failed as error:
        logged = engine.podman("logs", "--tail", "5", container, accept=True)
        raise Failed(f"{error}; {logged[-400:]}") from error
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


def wrong(found: dict[str, Any], *, jails: bool) -> list[str]:
    """Return what of it is not as it has to be."""
    ready, problems = found["ready"], []
    if ready["status"] != "ready":
        problems.append(f"/readyz says {ready}")
    if found["call"] != CALLED:
        problems.append(f"a call through the gateway returned {found['call'][:200]!r}")
    if jails and ready.get("programs") != "jailed":
        problems.append(f"programs: {ready.get('programs')}")
    if jails and '"value":42' not in found.get("program", "").replace(" ", ""):
        problems.append(f"a program returned {found.get('program', '')[:200]!r}")
    return problems
