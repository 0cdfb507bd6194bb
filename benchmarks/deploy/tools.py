"""What the trials are made with: which of it is here, in which version, and what is missing."""

import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_VERSION = re.compile(r"\d+(?:\.\d+)+|\b\d{3}\b")
_CAP_SYS_RESOURCE = 1 << 24
PACKAGES: Mapping[str, str] = {
    "aardvark-dns": "aardvark-dns",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "initdb": "postgresql",
    "netavark": "netavark",
    "podman": "podman",
    "podman-compose": "podman-compose",
    "runc": "runc",
}
"""Programs, and Debian's packages of them."""
_ASIDE = ":".join(["/usr/lib/podman", *map(str, Path("/usr/lib/postgresql").glob("*/bin"))])
"""Where podman and PostgreSQL keep programs that nobody types."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One trial: what it is called, what it needs, and what has to have been done before."""

    name: str
    needs: Sequence[str]
    after: Sequence[str] = ()


STEPS: Sequence[Step] = (
    Step(name="base", needs=("debootstrap", "podman")),
    Step(name="image", needs=("buildah", "podman"), after=("base",)),
    Step(name="container", needs=("podman", "runc"), after=("image",)),
    Step(name="charted", needs=("podman", "runc", "initdb"), after=("image",)),
    Step(
        name="compose",
        needs=("podman", "runc", "podman-compose", "netavark", "aardvark-dns"),
        after=("image",),
    ),
    Step(name="unit", needs=("buildah", "podman", "runc"), after=("image",)),
)


def here() -> frozenset[str]:
    """Return which of the programs are on this machine."""
    return frozenset(name for name in PACKAGES if _path(name))


def _path(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=_ASIDE)


def refused(step: Step, found: Iterable[str], done: Iterable[str], uid: int) -> str:
    """Return why `step` cannot be tried; empty if it can."""
    lacking = [PACKAGES[name] for name in step.needs if name not in set(found)]
    if lacking:
        return f"not here: {', '.join(lacking)}"
    if uid != 0:
        return "needs root"
    before = [name for name in step.after if name not in set(done)]
    return f"needs {', '.join(before)}" if before else ""


def versions(found: Iterable[str]) -> dict[str, str]:
    """Return the versions of the programs that are here, and of the kernel."""
    told = {"linux": platform.release()}
    for name in sorted(found):
        said = subprocess.run(
            [_path(name) or name, "--version"], capture_output=True, text=True, check=False
        )
        told[name] = version_in(said.stdout + said.stderr, name)
    return told


def version_in(text: str, name: str) -> str:
    """Return the version that a program says of itself, in the line that names it."""
    lines = text.splitlines()
    named = [line for line in lines if name in line.replace("composer", "compose")]
    for line in (*named[::-1], *lines):
        if found := _VERSION.search(line):
            return found[0]
    return "?"


def limits(status: str, hard: Mapping[str, int], pid_max: int) -> list[str]:
    """Return the limits that containers must be given here, as podman's settings take them.

    Podman raises them, for which root of some machines lacks the capability; `status` is that of
    a process of ours. It lowers its own number of processes to `pid_max` first.
    """
    (line,) = re.findall(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    if int(line, 16) & _CAP_SYS_RESOURCE:
        return []
    bounded = {**hard, "nproc": min(hard["nproc"], pid_max)}
    return [f"{name}={number}:{number}" for name, number in sorted(bounded.items())]
