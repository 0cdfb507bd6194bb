"""The image alone, with nothing that it can do without, and a jail in it."""

from pathlib import Path
from typing import Any

from benchmarks.deploy.engine import Engine
from benchmarks.deploy.image import IMAGE
from benchmarks.deploy.talk import ask
from benchmarks.report import ROOT

_NAME = "douane-trial-alone"
HARDENED = (
    *("--user", "65532:65532", "--read-only", "--cap-drop", "ALL", "--pids-limit", "256"),
    *("--security-opt", "no-new-privileges", "--tmpfs", "/tmp:size=256m,mode=1777"),
    *("--network", "none", "-m", "2g"),
)
JAILS = ("--security-opt", "unmask=/proc/*")
"""What jails in a container need: a /proc of which nothing is hidden or read-only."""


def mounts(engine: Engine, data: str) -> list[str]:
    """Return the arguments that show a trial's files where the unit and the image look for them."""
    here = Path(__file__).parent
    written = engine.folder / "trial.yaml"
    shipped = (here / "trial.yaml").read_text()
    written.write_text(shipped.replace("data_dir: /data", f"data_dir: {data}"))
    shown = {
        here: "/opt/trial",
        written: "/etc/douane/douane.yaml",
        ROOT / "policies": "/etc/douane/policies",
    }
    return [word for path, name in shown.items() for word in ("-v", f"{path}:{name}:ro")]


def tried(engine: Engine) -> dict[str, Any]:
    """Run it, make a call and run a program; and say why there is no jail without `JAILS`."""
    engine.podman("rm", "-f", "-i", _NAME)
    words = ("run", "-d", "--name", _NAME, "--no-healthcheck", *HARDENED, *JAILS)
    try:
        engine.podman(*words, *mounts(engine, "/data"), IMAGE)
        found = ask(engine, _NAME)
    finally:
        engine.podman("rm", "-f", "-i", _NAME)
    check = (
        "run",
        "--rm",
        "--no-healthcheck",
        *HARDENED,
        *mounts(engine, "/data"),
        "--tmpfs",
        "/data:mode=0777",
    )
    said = engine.podman(*check, IMAGE, "check", "--offline", accept=True)
    found["masked"] = next((line for line in said.splitlines() if "without a jail" in line), "")
    return found
