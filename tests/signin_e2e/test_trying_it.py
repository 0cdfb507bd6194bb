"""docs/sign-in.md, "Try it on one machine": its commands, on other ports, let somebody sign in."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks
from tests.running import wait_until_ready
from tests.servers.process import free_port, free_ports
from tests.signin_e2e.browser import Chromium, NoWayOn


@pytest.fixture
def tried(tmp_path: Path) -> Iterator[str]:
    """Run the page's commands until the test ends; what they write goes to `tmp_path`."""
    (script,) = (text for text in blocks(ROOT / "docs" / "sign-in.md", "sh") if "oidc" in text)
    (gateway, admin), provider = free_ports(), free_port()
    for there, here in (
        ("var/oidc", str(tmp_path)),
        ("../../policies", str(ROOT / "policies")),
        (
            "version: 1\n",
            f"version: 1\nadmin_listen: 127.0.0.1:{admin}\nlisten: 127.0.0.1:{gateway}\n",
        ),
        ("127.0.0.1:8080", f"127.0.0.1:{gateway}"),
        ("9400", str(provider)),
    ):
        assert there in script
        script = script.replace(there, here)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-ec", script], cwd=ROOT, stdout=log, stderr=log, start_new_session=True
        )
        try:
            wait_until_ready(f"http://127.0.0.1:{admin}", process, tmp_path / "log")
            yield f"http://127.0.0.1:{gateway}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(40)


async def test_somebody_signs_in_at_the_provider_that_was_started(
    tried: str, browser: Chromium
) -> None:
    in_ = pytest.raises(NoWayOn, match="You are signed in as Person sec-kim")
    with browser.person("sec-kim", "any") as kim, in_:
        await kim.go_through(f"{tried}/account")  # where nothing is asked for any more
