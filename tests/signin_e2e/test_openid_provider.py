"""People of a company sign in at its OpenID provider; the gateway knows them by issuer and subject."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.process import RunningServer
from tests.signin_e2e import python_client
from tests.signin_e2e.abroad import AT_A_PROVIDER, Abroad, federated
from tests.signin_e2e.authority import Authority
from tests.signin_e2e.browser import Chromium
from tests.signin_e2e.documents import Documents
from tests.signin_e2e.house import READ


@pytest.fixture(scope="module")
def federation(
    tmp_path_factory: pytest.TempPathFactory,
    notes: RunningServer,
    published: Documents,
    authority: Authority,
) -> Iterator[Abroad]:
    folder = tmp_path_factory.mktemp("federation")
    with federated(folder, notes, published, authority) as running:
        yield running


async def test_a_client_calls_for_somebody_who_signed_in_at_their_company(
    federation: Abroad, browser: Chromium, tmp_path: Path
) -> None:
    at = federation.house
    with browser.person("sec-carol", "any") as carol:
        async with python_client.program(at.site, carol, tmp_path) as program:
            assert await program.call(READ)
            assert await program.desk.visits() == (AT_A_PROVIDER,)
    (row,) = at.running.rows("users", "list")
    assert (row["user"], row["name"], set(row["groups"])) == (
        f"{federation.provider.issuer}|sec-carol",
        "Person sec-carol",
        {"users", "security"},
    )
    calls = at.running.rows("audit", "query", "--where", "kind = outcome")
    named = {row["principal"] for row in calls if row["method"] == "tools/call"}
    assert named == {f"{federation.provider.issuer}|sec-carol"}


async def test_nobody_has_a_password_here(federation: Abroad, browser: Chromium) -> None:
    with browser.person() as somebody:
        text = await somebody.sign_in(f"{federation.house.url}/sign-in")
        assert federation.provider.issuer in somebody.seen[-1].url
        assert "Password" not in text
