"""An engine for each test that wants one, and a canary in our own environment."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.domain.programs import SandboxLimits
from gateway.sandbox.monty import MontyEngine, monty_engine
from tests.sandbox.attempting import SECRET

LIMITS = SandboxLimits(wall_s=10.0, interpreter_s=1.0)


@pytest.fixture
def canary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOX_CANARY", SECRET)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[MontyEngine]:
    async with monty_engine(LIMITS, tmp_path, warm=1) as running:
        yield running
