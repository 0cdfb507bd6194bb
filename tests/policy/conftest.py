from pathlib import Path

import pytest

from gateway.policy.opa import Opa
from gateway.policy.toolchain import find_opa
from tests.policy.policy_questions import ONE_RULE


@pytest.fixture(scope="session")
def opa() -> Opa:
    return find_opa()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A policy of one rule: what is called `good` is allowed."""
    path = tmp_path / "policy"
    path.mkdir()
    (path / "decision.rego").write_text(ONE_RULE)
    return path
