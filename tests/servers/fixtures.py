"""Fixtures of real upstream servers, one process each for a whole test session.

A suite uses them by importing them into its `conftest.py`. What the servers print is kept in the
session's temporary folder, which pytest keeps when a test fails.
"""

from collections.abc import Iterator

import pytest

from tests.servers import process
from tests.servers.process import RunningServer


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with process.everything(tmp_path_factory.mktemp("everything")) as server:
        yield server


@pytest.fixture(scope="session")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Shared by the session: a test that changes it changes it back, or uses `own_notes`."""
    with process.notes(tmp_path_factory.mktemp("notes")) as server:
        yield server


@pytest.fixture
def own_notes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A notes server that no other test sees; two seconds to start."""
    with process.notes(tmp_path_factory.mktemp("own-notes")) as server:
        yield server
