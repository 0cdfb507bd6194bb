"""Podman and buildah with storage, settings and limits of the trials' own."""

import json
import os
import resource
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.deploy.tools import limits

_LONG_S = 1800
_SHORT_S = 300


class Failed(Exception):
    """A command that should have worked did not; the text is what it said."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Container tools that share nothing with those of the machine."""

    folder: Path
    environment: dict[str, str]

    def run(self, *words: str, within_s: float = _SHORT_S, accept: bool = False) -> str:
        """Run a command, and return what it said; if it fails, its last words are the error."""
        try:
            done = subprocess.run(
                words,
                env={**os.environ, **self.environment},
                capture_output=True,
                text=True,
                check=False,
                timeout=within_s,
            )
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{words[0]}: did not end within {within_s:g} s") from error
        with (self.folder / "log").open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(words)}\n{done.stdout}{done.stderr}\n")
        if done.returncode and not accept:
            said = (done.stderr or done.stdout).strip()[-500:]
            raise Failed(f"{' '.join(words[:3])}: {said}")
        return done.stdout.strip()

    def build(self, file: str, tag: str, *options: str) -> str:
        """Build an image of this checkout, without namespaces of its own."""
        return self.run(
            *("buildah", "build", "--layers", "--isolation", "chroot", "--format", "docker"),
            *("-f", file, "-t", tag, *options, "."),
            within_s=_LONG_S,
        )

    def podman(self, *words: str, within_s: float = _SHORT_S, accept: bool = False) -> str:
        return self.run("podman", *words, within_s=within_s, accept=accept)


def engine(folder: Path) -> Engine:
    """Return tools whose storage is in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    storage, settings = folder / "storage.conf", folder / "containers.conf"
    storage.write_text(
        f'[storage]\ndriver = "overlay"\nrunroot = "{folder}/run"\ngraphroot = "{folder}/store"\n'
    )
    settings.write_text(
        '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
        f"[containers]\ndefault_ulimits = {json.dumps(_limits())}\n"
    )
    named = {"CONTAINERS_STORAGE_CONF": str(storage), "CONTAINERS_CONF": str(settings)}
    return Engine(folder=folder, environment=named)


def _limits() -> list[str]:
    hard = {
        "nofile": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        "nproc": resource.getrlimit(resource.RLIMIT_NPROC)[1],
    }
    pid_max = int(Path("/proc/sys/kernel/pid_max").read_text())
    return limits(Path("/proc/self/status").read_text(), hard, pid_max)


def until(holds: Callable[[], bool], *, within_s: float, what: str) -> None:
    """Wait for what another process does; it is asked again every half second."""
    end = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {within_s:g} s")
        time.sleep(0.5)
