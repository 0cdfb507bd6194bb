"""`make demo` plays its story to the end."""

import subprocess
import sys

from tests.servers.process import ROOT


def test_every_step_of_the_story_does_what_it_says() -> None:
    played = subprocess.run(
        [sys.executable, "-m", "tests.demo.story"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert played.returncode == 0, played.stdout + played.stderr
    assert played.stdout.endswith("Every step did what it says.\n")
