"""Real clients sign a person in, go on by themselves, and ask again when they need more."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from mcp.client.auth import OAuthFlowError

from tests.cases import sampled
from tests.signin_e2e import node_clients, python_client
from tests.signin_e2e.browser import Chromium, Person
from tests.signin_e2e.house import House
from tests.signin_e2e.journeys import COMPLETE, Journey, Site

Client = Callable[[Site, Person, Path], Awaitable[Journey]]
CLIENTS = [
    python_client.by_registration,
    python_client.by_document,
    node_clients.typescript_v1,
    node_clients.typescript_v2,
    node_clients.inspector_by_registration,
    node_clients.inspector_by_document,
    node_clients.mcp_remote,
]
STAND_FOR_OTHERS = {
    *(python_client.by_registration, node_clients.typescript_v2),
    *(node_clients.inspector_by_document, node_clients.mcp_remote),
}


@pytest.mark.parametrize(
    "client", sampled(CLIENTS, STAND_FOR_OTHERS.__contains__), ids=lambda client: client.__name__
)
async def test_a_client_signs_in_refreshes_and_steps_up(
    gateway: House, emma: Person, tmp_path: Path, client: Client
) -> None:
    assert await client(gateway.site, emma, tmp_path) == COMPLETE


@pytest.mark.parametrize(
    "client", [python_client.by_document, node_clients.typescript_v2], ids=["python", "typescript"]
)
async def test_a_client_goes_the_whole_way_over_https(
    secure_gateway: House, browser: Chromium, tmp_path: Path, client: Client
) -> None:
    with secure_gateway.emma(browser) as emma:
        assert await client(secure_gateway.site, emma, tmp_path) == COMPLETE


async def test_a_client_is_told_that_the_person_refused(
    gateway: House, emma: Person, tmp_path: Path
) -> None:
    emma.answer = "deny"
    with pytest.raises(BaseExceptionGroup) as raised:
        async with python_client.program(gateway.site, emma, tmp_path):
            pytest.fail("it is connected")
    assert raised.group_contains(OAuthFlowError, match="No authorization code received")
    assert emma.clicks == ["sign in", "deny"]
