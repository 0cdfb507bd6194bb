"""Every test of the command line gets a site of its own."""

from pathlib import Path

import pytest

from tests.cli.world import Site, wire


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path)
    wire(made, monkeypatch)
    return made
