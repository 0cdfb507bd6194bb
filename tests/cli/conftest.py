"""Every test of the command line gets a site of its own."""

from pathlib import Path

import pytest

from tests.cli.world import Site, wire


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    made = Site(tmp_path)
    wire(made, monkeypatch)
    return made
