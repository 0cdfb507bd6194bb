"""`make demo` plays its story to the end."""

import subprocess
import sys

from tests.servers.process import ROOT

AS_IN_A_RUN = """\
import sys

from tests import forks
from tests.demo import story
from tests.running import rules_in

forks.begin()
sys.exit(story.main(rules_in))
"""
"""What `make demo` plays. All that it starts is forked, as for every test (`tests.forks`), and the tests
of the policies, which others run, are not run once more for the rule that it adds."""


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
