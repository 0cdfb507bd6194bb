"""What holds for every test of the web room."""

from collections.abc import Iterator

import pytest

from gateway.signin import passwords


@pytest.fixture(scope="module", autouse=True)
def _cheap_passwords() -> Iterator[None]:
    """Passwords are hashed cheaply here too; what they cost is held by `test_passwords.py`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_MEMORY_KIB", 64)
        yield
