"""A world for every test that asks for one."""

import pytest

from tests.broker.world import a_world


@pytest.fixture
async def world(tmp_path):
    async with a_world(tmp_path) as made:
        yield made
