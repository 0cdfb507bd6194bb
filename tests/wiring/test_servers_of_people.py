"""A server that wants a credential of each person is crawled in people's names."""

import pytest

from gateway.domain.tools import Kind, Profile
from gateway.policy import reload
from tests.policy.test_policy_saved_meanwhile import nothing_is_told
from tests.servers.process import nobodys_port
from tests.upstream.permits import permit_for
from tests.wiring.test_saved_while_a_reload_builds import MAIL, Place, running


async def test_a_server_of_people_is_crawled_in_their_names(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload, "awatch", nothing_is_told)
    place = Place(tmp_path)
    url = f"http://127.0.0.1:{nobodys_port()}/mcp"
    place.write(servers={"mail": {"url": url, "credential": {"kind": "oauth"}}})
    async with running(place) as gateway:
        crawler = gateway._tenure.runtime.crawler
        # Who has connected nothing is shown nothing, and the server is not even asked.
        await crawler.refresh(MAIL, Profile.MODERN, Kind.TOOL, permit_for().principal)
