"""`make demo` plays its story to the end."""

import subprocess
import sys

from tests.servers.process import ROOT

AS_IN_A_RUN = """\
import runpy

from tests import forks

forks.begin()
runpy.run_module("tests.demo.story", run_name="__main__", alter_sys=True)
"""
"""The program of `make demo`; what it starts is forked, as for every test (`tests.forks`)."""


def test_every_step_of_the_story_does_what_it_says() -> None:
    played = subprocess.run(
        [sys.executable, "-c", AS_IN_A_RUN],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert played.returncode == 0, played.stdout + played.stderr
    assert played.stdout.endswith("Every step did what it says.\n")
