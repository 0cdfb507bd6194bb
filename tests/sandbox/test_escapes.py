"""No attempt reaches a file, a socket, the environment, a process or an object of the host's."""

from pathlib import Path

import pytest

from tests.sandbox.attempting import Host, tried, unchecked_engine
from tests.sandbox.escapes import ATTEMPTS, KINDS


@pytest.mark.usefixtures("canary")
@pytest.mark.parametrize("kind", KINDS)
async def test_no_attempt_reaches_the_host(kind: str, tmp_path: Path) -> None:
    secrets = tmp_path / "host"
    secrets.mkdir()
    host = Host(secrets)
    try:
        async with unchecked_engine(tmp_path) as engine:
            mine = [attempt for attempt in ATTEMPTS if attempt.kind == kind]
            wrong = [what for attempt in mine for what in await tried(engine, host, attempt)]
    finally:
        host.listening.close()
    assert wrong == []


def test_there_are_as_many_attempts_as_are_told() -> None:
    names = {(attempt.kind, attempt.name) for attempt in ATTEMPTS}
    assert len(names) == len(ATTEMPTS)
    page = Path(__file__).parents[2] / "docs" / "sandbox.md"
    assert f"makes {len(ATTEMPTS)} attempts" in page.read_text()
