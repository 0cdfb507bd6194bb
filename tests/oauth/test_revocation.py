"""Revocation: a client gives back what it was given, and learns nothing of others' (RFC 7009)."""

import pytest

from gateway.domain.audit import RecordKind
from gateway.errors import Unauthenticated
from gateway.oauth.keys import KeyRing
from gateway.oauth.records import TokenRequest
from gateway.oauth.revocation import ASKED_A_MINUTE
from gateway.oauth.tokens import mint
from tests.oauth.issuing import APP, Issuer, form
from tests.oauth.world import KEYS, NOW, access_token, client, new_key

HINTS = ["", "access_token", "refresh_token", "id_token"]


@pytest.mark.parametrize("hint", HINTS)
@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
async def test_either_token_ends_the_whole_family_whatever_the_hint(issuer, kind, hint):
    body, other = await issuer.signed_in(id="grant-1"), await issuer.signed_in()
    _, second = await issuer.refresh(body["refresh_token"])
    answer = await issuer.revoke(second[kind], token_type_hint=hint)
    assert (answer.status, answer.headers, answer.body) == (
        200,
        (("cache-control", "no-store"),),
        {},
    )
    for revoked in (body, second):
        with pytest.raises(Unauthenticated, match="revoked"):
            await issuer.admit(revoked)
    assert (await issuer.refresh(second["refresh_token"]))[0] == 400
    await issuer.admit(other)


async def test_a_used_refresh_token_ends_the_family_as_well(issuer):
    body = await issuer.signed_in()
    await issuer.refresh(body["refresh_token"])
    await issuer.revoke(body["refresh_token"])
    assert issuer.families() == 0


async def test_what_was_revoked_is_recorded_by_name(issuer):
    body = await issuer.signed_in(id="grant-1")
    await issuer.revoke(body["access_token"])
    assert issuer.record.kind is RecordKind.TOKEN
    assert issuer.record.fields == {
        "client": APP.id,
        "method": "oauth/revoke",
        "source_ip": "192.0.2.7",
        "token_id": issuer.read(body).token_id,
        "verdict": "allow",
        "reasons": [{"code": "revoked", "message": "grant grant-1"}],
    }


async def test_a_clients_own_token_is_revoked_alone(tmp_path):
    new = client()
    issuer = Issuer(tmp_path, new.client)
    proven = {"client_id": new.client.id, "client_secret": new.secret}
    _, one = await issuer.answer(grant_type="client_credentials", **proven)
    _, two = await issuer.answer(grant_type="client_credentials", **proven)
    assert (await issuer.revoke(one["access_token"], **proven)).status == 200
    assert issuer.reason == "one access token"
    with pytest.raises(Unauthenticated, match="revoked"):
        await issuer.admit(one)
    await issuer.admit(two)
    issuer.stores.close()


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
async def test_another_clients_token_stays_good_and_is_answered_like_none(issuer, kind):
    body = await issuer.signed_in()
    foreign = await issuer.revoke(body[kind], client_id="other")
    unknown = await issuer.revoke("x" * len(body[kind]), client_id="other")
    assert (foreign.status, foreign.headers, foreign.body) == (
        unknown.status,
        unknown.headers,
        unknown.body,
    )
    assert foreign.status == 200
    assert issuer.reason == "no token of its own"
    await issuer.admit(body)
    assert (await issuer.refresh(body["refresh_token"]))[0] == 200


async def test_a_forged_token_revokes_nothing(issuer):
    body = await issuer.signed_in(id="grant-1")
    forged = access_token(APP, scopes=frozenset({"tools:call"}), grant_id="grant-1")
    for text in (mint(forged, KeyRing([new_key()])), mint(forged, KEYS)[:-4] + "AAAA"):
        assert (await issuer.revoke(text)).body == {}
    await issuer.admit(body)


async def test_an_expired_token_revokes_nothing(issuer):
    body = await issuer.signed_in()
    issuer.clock.now = NOW + 900
    await issuer.revoke(body["access_token"])
    assert issuer.families() == 1


async def test_whoever_is_no_client_revokes_nothing(issuer):
    body = await issuer.signed_in()
    for client_id in ("", "nobody"):
        answer = await issuer.revoke(body["access_token"], client_id=client_id)
        assert (answer.status, answer.body["error"]) == (401, "invalid_client")
    await issuer.admit(body)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(form({}), id="no token"),
        pytest.param(
            TokenRequest(body=b"client_id=app&token=x&token=y", source_ip="192.0.2.7"), id="two"
        ),
        pytest.param(
            TokenRequest(body=b"client_id=app", query=b"token=x", source_ip="192.0.2.7"), id="query"
        ),
    ],
)
async def test_a_request_without_one_token_in_its_form_is_refused(issuer, request_):
    answer = await issuer.revocation.answer(request_)
    assert (answer.status, answer.body["error"]) == (400, "invalid_request")


async def test_what_cannot_be_recorded_is_not_answered(issuer):
    body = await issuer.signed_in()
    issuer.log.failure = "no disk"
    assert (await issuer.revoke(body["access_token"])).status == 503


async def test_one_address_asks_so_often_and_no_more(issuer):
    for _ in range(ASKED_A_MINUTE):
        assert (await issuer.revoke("no token")).status == 200
    answer = await issuer.revoke("no token")
    assert (answer.status, answer.body["error"]) == (429, "rate_limited")
