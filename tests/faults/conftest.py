"""One gateway for all faults that leave it as it was; the others start one of their own."""

from collections.abc import Iterator

import pytest

from tests.faults.scene import Scene, scene


@pytest.fixture(scope="session")
def session_scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("faults")) as at:
        yield at


@pytest.fixture
def at(session_scene: Scene) -> Iterator[Scene]:
    """The session's gateway in front of an upstream that behaves; it carries calls afterwards."""
    session_scene.raw.forget()
    yield session_scene
    session_scene.raw.forget()
    after = session_scene.call()
    assert (after.code, after.text) == (None, f'{{"text": "{after.trace}"}}')
    assert session_scene.readiness == (200, {})
