"""The person's own credential is shown to the upstream, and never what the client showed to us."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from aiohttp import web

from gateway.domain.calls import Form
from gateway.domain.tools import Profile, UpstreamId
from gateway.errors import CredentialRequired
from gateway.upstream.crawler import Crawler
from gateway.upstream.http import HttpUpstream
from gateway.upstream.personal import People
from gateway.upstream.settings import HeaderCredential, UpstreamSettings
from gateway.upstream.watched import CrawlStatus
from tests.servers.raw import answers, raw_upstream
from tests.upstream.permits import INBOUND_TOKEN, permit_for
from tests.upstream.sinks import Catalog
from tests.upstream.speaking import RAW, crawling

Fields = Sequence[tuple[str, str]]


@dataclass
class Credentials:
    """Gives `token-1`, then `token-2`; after that the person has to connect."""

    asked: list[tuple[str, str, str]] = field(default_factory=list)
    refused: list[tuple[str, str, int, str]] = field(default_factory=list)

    async def headers(
        self, server: str, user_id: str, principal_key: str, *, verb: str = "POST"
    ) -> Fields:
        self.asked.append((server, user_id, principal_key))
        return (("authorization", "Bearer token-1"),)

    async def rejected(
        self,
        server: str,
        user_id: str,
        *,
        shown: Fields,
        status: int,
        challenge: str,
        nonce: str = "",
        verb: str = "POST",
    ) -> Fields:
        ((_, text),) = shown
        self.refused.append((user_id, text, status, challenge))
        if text == "Bearer token-2":
            raise CredentialRequired("connect", url="https://douane.test/connect/raw")
        return (("authorization", "Bearer token-2"),)


def wants(*tokens: str, status: int = 401, challenge: str = "Bearer"):
    """Answer whoever shows one of `tokens`, and challenge everybody else."""

    async def script(request: web.Request) -> web.Response:
        if request.headers.get("authorization", "") in {f"Bearer {token}" for token in tokens}:
            return web.json_response({})
        return web.Response(status=status, headers={"WWW-Authenticate": challenge})

    return script


def personal(permit, user_id="u_emma"):
    return replace(permit, principal=replace(permit.principal, user_id=user_id))


async def forwarded(script, *permits):
    """Forward `permits`; return what was asked for, and the credentials that the server saw."""
    credentials = Credentials()
    async with raw_upstream(script) as server:
        settings = UpstreamSettings(server=UpstreamId("raw"), url=server.url, per_person=True)
        upstream = HttpUpstream(settings, credentials)
        try:
            for permit in permits:
                await upstream.forward(permit)
        finally:
            await upstream.aclose()
            seen = [one.headers.get("authorization") for one in server.seen]
            assert all(INBOUND_TOKEN not in str(one) for one in server.seen)
    return credentials, seen


async def test_every_message_carries_the_persons_own_token():
    permits = [
        permit_for(),
        permit_for("notifications/initialized", form=Form.NOTIFICATION, profile=Profile.LEGACY),
        permit_for("GET", form=Form.STREAM, profile=Profile.LEGACY, session="s"),
        permit_for("DELETE", form=Form.END, profile=Profile.LEGACY, session="s"),
    ]
    credentials, seen = await forwarded(wants("token-1"), *map(personal, permits))
    assert seen == ["Bearer token-1"] * 4
    assert credentials.asked == [("raw", "u_emma", permits[0].principal.key)] * 4


async def test_a_clients_token_never_arrives():
    smuggled = (("authorization", f"Bearer {INBOUND_TOKEN}"), ("cookie", INBOUND_TOKEN))
    _, seen = await forwarded(wants("token-1"), personal(permit_for(headers=smuggled)))
    assert seen == ["Bearer token-1"]


async def test_a_token_that_is_refused_is_replaced_once():
    permit = personal(permit_for())
    credentials, seen = await forwarded(wants("token-2", challenge='Bearer error="x"'), permit)
    assert seen == ["Bearer token-1", "Bearer token-2"]
    assert credentials.refused == [("u_emma", "Bearer token-1", 401, 'Bearer error="x"')]


@pytest.mark.parametrize("status", [401, 403])
async def test_after_that_the_person_has_to_connect(status):
    with pytest.raises(CredentialRequired) as required:
        await forwarded(wants("token-3", status=status), personal(permit_for()))
    assert required.value.url == "https://douane.test/connect/raw"


async def test_messages_of_our_own_carry_it_too():
    credentials = Credentials()
    async with raw_upstream(answers("", status=202)) as server:
        settings = UpstreamSettings(server=UpstreamId("raw"), url=server.url, per_person=True)
        upstream = HttpUpstream(settings, credentials)
        permit = personal(permit_for(profile=Profile.LEGACY, session="s"))
        await upstream.cancel(permit)
        await upstream.reject(permit, b"{}")
        await upstream.aclose()
        seen = [one.headers.get("authorization") for one in server.seen]
    assert seen == ["Bearer token-1"] * 2


def test_credentials_are_for_servers_that_want_a_persons():
    one = UpstreamSettings(server=UpstreamId("raw"), url="http://127.0.0.1:1/mcp")
    with pytest.raises(ValueError, match="per person"):
        HttpUpstream(one, Credentials())
    with pytest.raises(ValueError, match="per person"):
        HttpUpstream(replace(one, per_person=True))


def test_what_is_per_person_is_not_crawled_without_people():
    one = UpstreamSettings(server=RAW, url="http://127.0.0.1:1/mcp", per_person=True)
    with pytest.raises(ValueError, match="per person"):
        Crawler([one], sink=Catalog(), clock=lambda: 1.0)


async def test_a_server_that_waits_for_people_is_not_failing():
    people = People(Credentials())
    async with crawling(wants("nobody"), settings={"per_person": True}, people=people) as (
        crawler,
        catalog,
        server,
    ):
        await crawler.crawl(RAW)
        assert crawler.status() == (
            CrawlStatus(server=RAW, seen_at=None, error="", profiles=frozenset(), waits=True),
        )
        assert len(server.seen) == 1
    assert catalog.times == 0


async def test_a_server_with_our_own_credential_is_failing_when_it_refuses_it():
    credential = HeaderCredential(name="Authorization", value="Bearer ours")
    async with crawling(wants("nobody"), settings={"credential": credential}) as (crawler, _, _):
        with pytest.raises(CredentialRequired):
            await crawler.crawl(RAW)
        assert not crawler.status()[0].waits
