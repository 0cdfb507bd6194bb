"""What tests of what is stored share."""

import pytest

from gateway.storage import writer


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database takes up what is in the journal when it must, and not before."""
    monkeypatch.setattr(writer, "_LATER_S", 3600.0)
