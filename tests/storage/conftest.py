"""What tests of what is stored share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.storage import writer
from tests.storage.placed import PLACES, Place, placed


@pytest.fixture(params=PLACES)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """Where the state is that a test is about."""
    async with placed(request, tmp_path) as found:
        yield found


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database takes up what is in the journal when it must, and not before."""
    monkeypatch.setattr(writer, "_LATER_S", 3600.0)
