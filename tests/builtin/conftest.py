"""What every test in front of all servers leaves behind is closed."""

from collections.abc import Iterator

import pytest

from tests.builtin.front import FINDERS


@pytest.fixture(autouse=True)
def closing() -> Iterator[None]:
    yield
    while FINDERS:
        FINDERS.pop().close()
