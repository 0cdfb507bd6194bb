"""What every test in front of all servers leaves behind is closed."""

from collections.abc import Iterator

import pytest

from gateway.builtin import waits
from tests.builtin.front import FINDERS


@pytest.fixture(autouse=True)
def closing() -> Iterator[None]:
    yield
    while FINDERS:
        FINDERS.pop().close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No list goes without a part because the machine is busy."""
    monkeypatch.setattr(waits, "_WHOLE_S", 300.0)
