"""A person's identity is traded for a token: by our word about them, never by a client's token."""

import asyncio
import base64

import pytest
from aiohttp import web

from gateway.broker import TokenExchange
from gateway.errors import CredentialRequired, UpstreamFailed
from tests.broker.world import EMMA, FINN, PUBLIC_URL, refused, tokens


def exchange(world, **changes):
    fields = {
        "server": "mail",
        "url": world.provider.resource,
        "token_url": f"{world.provider.url}/token",
        "client_id": "douane",
        "client_secret": "s3cret",
        **changes,
    }
    return TokenExchange(**fields)


def rejecting(broker, shown, *, status=401):
    fields = (("authorization", f"Bearer {shown}"),)
    return broker.rejected("mail", EMMA.id, shown=fields, status=status, challenge="Bearer")


async def test_the_gateway_vouches_for_the_person(world):
    broker = world.broker(exchange(world, audience="mail-api", scopes=("read", "write")))
    assert await world.token(broker) == "at-1"
    assert world.provider.forms == [
        {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token": "assertion-1",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "audience": "mail-api",
            "resource": world.provider.resource,
            "scope": "read write",
        }
    ]
    basic = base64.b64encode(b"douane:s3cret").decode()
    assert world.provider.proofs == [f"Basic {basic}"]
    (claims,) = world.signer.signed
    assert claims == {
        "iss": PUBLIC_URL,
        "sub": EMMA.id,
        "aud": f"{world.provider.url}/token",
        "iat": int(world.clock.now),
        "exp": int(world.clock.now) + 60,
        "jti": claims["jti"],
        "sub_id": {"format": "iss_sub", "iss": EMMA.issuer, "sub": EMMA.subject},
    }


async def test_it_is_traded_on_its_servers_word(world):
    await world.token(world.broker(exchange(world)))
    assert world.fetcher.named_by == ["mail"]


async def test_what_need_not_be_said_is_not(world):
    await world.token(world.broker(exchange(world, sends_resource=False)))
    assert world.provider.forms[0].keys().isdisjoint({"audience", "resource", "scope"})


async def test_a_token_is_kept_for_its_person_until_it_ends_and_nowhere_else(world):
    broker = world.broker(exchange(world))
    both = [await world.token(broker, person=person) for person in (EMMA, FINN, EMMA, FINN)]
    assert both == ["at-1", "at-2", "at-1", "at-2"]
    world.clock.now += 3571
    assert await world.token(broker) == "at-3"
    assert world.stores.connections.connections() == []
    assert await world.token(world.broker(exchange(world))) == "at-4"


async def test_a_token_of_unknown_length_is_not_kept_for_long(world):
    world.provider.gives = lambda _: tokens(len(world.provider.forms), expires_in=None)
    broker = world.broker(exchange(world))
    assert await world.token(broker) == "at-1"
    world.clock.now += 31
    assert await world.token(broker) == "at-2"


async def test_as_many_tokens_are_kept_as_there_is_room_for(world, monkeypatch):
    monkeypatch.setattr("gateway.broker.exchange._MOST", 1)
    broker = world.broker(exchange(world))
    kept = [await world.token(broker, person=person) for person in (EMMA, FINN, FINN, EMMA)]
    assert kept == ["at-1", "at-2", "at-2", "at-3"]


async def test_many_callers_trade_once(world):
    broker = world.broker(exchange(world))
    shown = await asyncio.gather(*(world.token(broker) for _ in range(20)))
    assert (set(shown), len(world.provider.forms)) == ({"at-1"}, 1)


async def test_a_token_that_is_refused_is_traded_anew_once(world):
    broker = world.broker(exchange(world))
    await world.token(broker)
    world.clock.now += 60
    assert list(await rejecting(broker, "at-1")) == [("authorization", "Bearer at-2")]
    assert list(await rejecting(broker, "at-1")) == [("authorization", "Bearer at-2")]
    with pytest.raises(CredentialRequired) as required:
        await rejecting(broker, "at-2")
    assert (required.value.url, len(world.provider.forms)) == ("", 2)


async def test_a_403_is_not_mended_by_another_token(world):
    broker = world.broker(exchange(world))
    await world.token(broker)
    world.clock.now += 60
    with pytest.raises(CredentialRequired):
        await rejecting(broker, "at-1", status=403)
    assert len(world.provider.forms) == 1


async def test_a_refusal_is_for_an_operator(world):
    world.provider.gives = lambda _: refused("invalid_target")
    with pytest.raises(CredentialRequired) as required:
        await world.token(world.broker(exchange(world)))
    assert required.value.url == ""


async def test_no_answer_is_a_fault(world):
    world.provider.gives = lambda _: web.Response(status=503)
    with pytest.raises(UpstreamFailed):
        await world.token(world.broker(exchange(world)))


async def test_an_endpoint_where_the_gateway_must_not_go_is_a_fault(world):
    with pytest.raises(UpstreamFailed):
        await world.token(world.broker(exchange(world, token_url="https://10.0.0.1/token")))


async def test_nobody_is_vouched_for_who_is_not_known(world):
    broker = world.broker(exchange(world))
    world.stores.users.change(FINN.id, disabled=True, at=world.clock.now)
    for user_id in ("", "u_nobody", FINN.id):
        with pytest.raises(CredentialRequired):
            await broker.headers("mail", user_id, "key")
    assert world.signer.signed == []
