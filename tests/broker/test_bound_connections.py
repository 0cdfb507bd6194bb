"""Tokens for upstreams that are bound to a key of ours: proven for each request, and good for nobody else."""

import base64
import json
from typing import Any

import pytest
from aiohttp import web

from gateway.broker import Broker
from gateway.domain.identity import Proof
from gateway.errors import CredentialRequired, UpstreamFailed
from gateway.oauth.proofs import Shown, judge
from tests.broker.world import EMMA, FINN, World, refused, tokens

BOUND: dict[str, Any] = {"token_type": "DPoP"}
WANTS = 'DPoP error="use_dpop_nonce"'


def bound(world: World) -> Broker:
    """Return a broker whose tokens are bound; its authorization server does so."""
    world.provider.gives = lambda _: tokens(len(world.provider.forms), **BOUND)
    return world.broker(world.settings(is_bound=True))


def proven(
    world: World, text: str, url: str, *, verb: str = "POST", token: str | None = None
) -> Proof:
    """Return what a proof proves to whoever judges it as we would."""
    shown = Shown(method=verb, urls=(url,), token=token)
    return judge(text, shown, window_s=60.0, now=world.clock.now)


def said(proof: str) -> Any:
    claims = proof.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))


async def test_a_token_is_asked_for_and_shown_with_proofs_of_one_key(world: World) -> None:
    broker = bound(world)
    await world.connected(broker)
    asked = proven(world, world.provider.dpop[0], f"{world.provider.url}/token")
    uses = set()
    for verb in ("POST", "GET", "POST"):
        fields = dict(await broker.headers("mail", EMMA.id, "key", verb=verb))
        assert fields["authorization"] == "DPoP at-1"
        proof = proven(world, fields["dpop"], world.provider.resource, verb=verb, token="at-1")
        assert proof.key == asked.key
        uses.add(proof.use)
    assert len(uses) == 3


async def test_each_person_has_a_key_of_their_own(world: World) -> None:
    broker = bound(world)
    for person in (EMMA, FINN):
        await world.connected(broker, person=person)
    keys = {proven(world, one, f"{world.provider.url}/token").key for one in world.provider.dpop}
    assert len(keys) == 2


async def test_a_token_is_renewed_with_the_key_that_it_is_bound_to(world: World) -> None:
    broker = bound(world)
    await world.connected(broker)
    world.clock.now += 3600
    fields = dict(await broker.headers("mail", EMMA.id, "key"))
    assert fields["authorization"] == "DPoP at-2"
    first, second = world.provider.dpop
    assert said(first)["jti"] != said(second)["jti"]
    token_url = f"{world.provider.url}/token"
    key = proven(world, second, token_url).key
    assert proven(world, fields["dpop"], world.provider.resource, token="at-2").key == key
    world.clock.now -= 3600
    assert proven(world, first, token_url).key == key


async def test_a_token_that_is_good_for_whoever_has_it_is_not_taken(world: World) -> None:
    broker = world.broker(world.settings(is_bound=True))
    with pytest.raises(UpstreamFailed):
        await world.connected(broker)
    with pytest.raises(CredentialRequired):
        await broker.headers("mail", EMMA.id, "key")


async def test_a_bound_token_is_not_taken_where_nobody_wanted_one(world: World) -> None:
    world.provider.gives = lambda _: tokens(1, **BOUND)
    with pytest.raises(UpstreamFailed):
        await world.connected(world.broker())
    assert world.provider.dpop == [""]


async def test_a_nonce_that_the_token_endpoint_wants_is_brought_once(world: World) -> None:
    broker = bound(world)

    def wants(_: dict[str, str]) -> web.Response:
        answer = refused("use_dpop_nonce")
        answer.headers["DPoP-Nonce"] = f"nonce-{len(world.provider.forms)}"
        if len(world.provider.forms) == 2:
            return tokens(2, **BOUND)
        return answer

    world.provider.gives = wants
    await world.connected(broker)
    first, second = map(said, world.provider.dpop)
    assert ("nonce" in first, second["nonce"]) == (False, "nonce-1")
    assert first["jti"] != second["jti"]


async def test_who_wants_another_nonce_each_time_is_asked_no_third_time(world: World) -> None:
    broker = bound(world)

    def wants(_: dict[str, str]) -> web.Response:
        answer = refused("use_dpop_nonce")
        answer.headers["DPoP-Nonce"] = f"nonce-{len(world.provider.forms)}"
        return answer

    world.provider.gives = wants
    with pytest.raises(UpstreamFailed):
        await world.connected(broker)
    assert len(world.provider.forms) == 2


async def test_a_nonce_that_the_upstream_wants_is_brought_with_the_same_token(
    world: World,
) -> None:
    broker = bound(world)
    await world.connected(broker)
    shown = await broker.headers("mail", EMMA.id, "key")
    again = dict(
        await broker.rejected(
            "mail", EMMA.id, shown=shown, status=401, challenge=WANTS, nonce="n-1", verb="GET"
        )
    )
    assert (again["authorization"], said(again["dpop"])["nonce"]) == ("DPoP at-1", "n-1")
    url = world.provider.resource
    assert proven(world, again["dpop"], url, verb="GET", token="at-1").use
    assert said(dict(await broker.headers("mail", EMMA.id, "key"))["dpop"])["nonce"] == "n-1"
    assert world.provider.refreshes() == 0


@pytest.mark.parametrize("nonce", ["", "two words", 'a"quote', "n" * 1025, "ä"])
async def test_what_is_no_nonce_goes_into_no_proof(world: World, nonce: str) -> None:
    broker = bound(world)
    await world.connected(broker)
    shown = await broker.headers("mail", EMMA.id, "key")
    with pytest.raises(CredentialRequired):
        await broker.rejected(
            "mail", EMMA.id, shown=shown, status=401, challenge=WANTS, nonce=nonce
        )
    assert "nonce" not in said(dict(await broker.headers("mail", EMMA.id, "key"))["dpop"])


async def test_a_connection_of_before_is_made_anew(world: World) -> None:
    await world.connected(world.broker())
    with pytest.raises(CredentialRequired):
        await world.broker(world.settings(is_bound=True)).headers("mail", EMMA.id, "key")


async def test_a_key_is_nowhere_but_sealed(world: World) -> None:
    broker = bound(world)
    await world.connected(broker)
    stored = world.stores.connections.connection(EMMA.id, "mail")
    assert stored is not None
    assert '"d"' not in stored.sealed
    assert "at-1" not in world.recorded()
    assert world.provider.dpop[0] not in world.recorded()
    (header, _, _) = world.provider.dpop[0].split(".")
    jwk = json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))["jwk"]
    assert set(jwk) == {"kty", "crv", "x", "y"}
