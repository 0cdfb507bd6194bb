"""`.ci/system` installs what is missing, and waits for whoever else installs something just now."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.servers.process import ROOT

MISSING = "no-such-package-anywhere"
HELD = {
    "lists": "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 4 (apt-get)",
    "archives": "E: Unable to lock directory /var/cache/apt/archives/",
}


def installed(folder: Path, *refusals: str) -> tuple["subprocess.CompletedProcess[str]", list[str]]:
    """Run it where apt refuses so often with these words; also return what was asked of apt."""
    for number, said in enumerate(refusals):
        (folder / f"refusal{number}").write_text(said)
    told = folder / "told"
    for name, script in {
        "id": "echo 0",
        "sleep": f'echo "sleep $*" >> {told}',
        "apt-get": (
            f'echo "$*" >> {told}\n'
            f"for refusal in {folder}/refusal*; do\n"
            '  [ -e "$refusal" ] || break\n  cat "$refusal" >&2; rm "$refusal"; exit 100\ndone'
        ),
    }.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [ROOT / ".ci/system", MISSING],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done, told.read_text().splitlines()


@pytest.mark.parametrize("lock", HELD)
def test_another_installation_is_waited_for(tmp_path: Path, lock: str) -> None:
    done, told = installed(tmp_path, HELD[lock], HELD[lock])
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[0] for line in told] == [
        "update",
        "sleep",
        "update",
        "sleep",
        "update",
        "install",
    ]
    assert all("DPkg::Lock::Timeout=600" in line for line in told if "sleep" not in line)
    assert told[-1].endswith(MISSING)


def test_what_apt_cannot_do_is_told_at_once(tmp_path: Path) -> None:
    done, told = installed(tmp_path, "E: Unable to fetch some archives")
    assert (done.returncode, done.stderr) == (1, "E: Unable to fetch some archives\n")
    assert len(told) == 1
