"""The public conformance suite, as a client of the authorization server."""

from pathlib import Path

from benchmarks.oauth import conformance
from tests.signin_e2e.browser import Person
from tests.signin_e2e.house import House


async def test_the_public_suite_finds_nothing_wrong_with_the_authorization_server(
    gateway: House, emma: Person, tmp_path: Path
) -> None:
    score = await conformance.judge(gateway.url, gateway.site.endpoint, emma, tmp_path / "suite")
    assert (score.passed, score.failed, score.conforms) == (3, 0, True)
