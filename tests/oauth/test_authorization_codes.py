"""Authorization codes: one family each, once, for whoever has everything that belongs to one."""

import asyncio
from dataclasses import replace

import pytest

from gateway.domain.identity import AuthMethod
from gateway.errors import Unauthenticated
from gateway.oauth.tokens import AccessToken
from tests.oauth.issuing import ALICE, APP, CALLBACK, SCOPES, VERIFIER, Issuer
from tests.oauth.world import MAIL, MAIL_URI, NOW, PUBLIC_URL, client

WEB_URI = PUBLIC_URL + "/mcp/web"
INVALID = {
    "error": "invalid_grant",
    "error_description": "the authorization code is not valid",
}
CONFIDENTIAL = client(seed=3, scopes=frozenset({"tools:list", "tools:call", "tools:write"}))


async def test_a_code_becomes_an_access_token_and_a_refresh_token(issuer):
    answer = await issuer.ask(
        grant_type="authorization_code",
        code=issuer.code(id="grant-1"),
        redirect_uri=CALLBACK,
        code_verifier=VERIFIER,
        resource=MAIL_URI,
    )
    assert answer.status == 200
    assert answer.headers == (("cache-control", "no-store"),)
    body = dict(answer.body)
    token = issuer.read(body)
    assert len(body.pop("refresh_token")) == 43
    assert {**body, "access_token": ""} == {
        "access_token": "",
        "token_type": "Bearer",
        "expires_in": 900,
        "scope": "tools:list tools:call",
    }
    assert token == AccessToken(
        issuer=PUBLIC_URL,
        subject=ALICE.id,
        audience=MAIL_URI,
        client_id=APP.id,
        client_name=APP.name,
        scopes=SCOPES,
        groups=frozenset(),
        issued_at=int(NOW),
        expires_at=int(NOW) + 900,
        token_id=token.token_id,
        grant_id="grant-1",
    )
    principal = await issuer.admit(body)
    assert (principal.subject, principal.user_id) == ("alice", ALICE.id)


async def test_an_issued_family_is_recorded_by_its_names(issuer):
    body = await issuer.signed_in(id="grant-1")
    assert issuer.record.fields == {
        "principal": "alice",
        "client": "app",
        "endpoint": MAIL,
        "method": "oauth/token",
        "source_ip": "192.0.2.7",
        "token_id": issuer.read(body).token_id,
        "verdict": "allow",
        "reasons": [
            {"code": "issued", "message": "scope tools:list tools:call, for 900 s, grant grant-1"}
        ],
    }


async def test_a_code_is_good_for_one_family_and_its_replay_ends_it(issuer):
    code = issuer.code()
    _, body = await issuer.redeem(code)
    await issuer.admit(body)
    assert await issuer.redeem(code) == (400, INVALID)
    assert "is revoked" in issuer.reason
    with pytest.raises(Unauthenticated):
        await issuer.admit(body)
    status, refused = await issuer.refresh(body["refresh_token"])
    assert (status, refused["error"]) == (400, "invalid_grant")
    assert issuer.families() == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"code_verifier": "x" * 43},
        {"code_verifier": ""},
        {"redirect_uri": CALLBACK + "/"},
        {"redirect_uri": ""},
        {"resource": WEB_URI},
        {"client_id": "other"},
        {"client_id": "nobody"},
    ],
    ids=str,
)
async def test_a_replay_that_is_wrong_in_something_ends_nothing(issuer, wrong):
    code = issuer.code()
    _, body = await issuer.redeem(code)
    status, _ = await issuer.redeem(code, **wrong)
    assert status in {400, 401}
    await issuer.admit(body)
    assert issuer.families() == 1


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"code_verifier": ""}, "invalid_request"),
        ({"code_verifier": "x" * 42}, "invalid_request"),
        ({"code_verifier": "x" * 129}, "invalid_request"),
        ({"code_verifier": VERIFIER + "="}, "invalid_request"),
        ({"code_verifier": "x" * 43}, "invalid_grant"),
        ({"code_verifier": VERIFIER.lower()}, "invalid_grant"),
        ({"code_verifier": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "invalid_grant"),
        ({"redirect_uri": ""}, "invalid_request"),
        ({"redirect_uri": CALLBACK + "/"}, "invalid_grant"),
        ({"redirect_uri": CALLBACK.replace("33418", "33419")}, "invalid_grant"),
        ({"redirect_uri": CALLBACK.upper()}, "invalid_grant"),
        ({"client_id": "other"}, "invalid_grant"),
        ({"client_id": "nobody"}, "invalid_client"),
        ({"client_id": ""}, "invalid_client"),
        ({"code": ""}, "invalid_request"),
        ({"code": "x"}, "invalid_grant"),
        ({"resource": WEB_URI}, "invalid_target"),
        ({"resource": MAIL_URI + "//"}, "invalid_target"),
        ({"resource": MAIL_URI + "/x"}, "invalid_target"),
        ({"resource": PUBLIC_URL}, "invalid_target"),
        ({"resource": "mail"}, "invalid_target"),
    ],
    ids=str,
)
async def test_what_is_wrong_in_something_gets_no_token_and_burns_no_code(issuer, wrong, error):
    code = issuer.code()
    status, body = await issuer.redeem(code, **{"code": code, **wrong})
    assert (status, body["error"]) == (401 if error == "invalid_client" else 400, error)
    assert (await issuer.redeem(code))[0] == 200


async def test_a_resource_may_end_with_a_slash_and_the_token_is_for_the_same(issuer):
    status, body = await issuer.redeem(issuer.code(), resource=MAIL_URI + "/")
    assert status == 200
    assert issuer.read(body).audience == MAIL_URI


async def test_a_code_lives_for_a_minute(issuer):
    early, late = issuer.code(), issuer.code()
    issuer.clock.now = NOW + 59
    assert (await issuer.redeem(early))[0] == 200
    issuer.clock.now = NOW + 60
    assert await issuer.redeem(late) == (400, INVALID)
    assert issuer.reason == "the code has expired"


async def test_of_many_that_bring_one_code_at_once_one_wins_and_then_nobody(issuer):
    code = issuer.code()
    answers = await asyncio.gather(*(issuer.redeem(code) for _ in range(8)))
    assert sorted(status for status, _ in answers) == [200] + [400] * 7
    # All but one are replays with everything right: whoever won may be the thief.
    assert issuer.families() == 0


async def test_a_code_that_was_redeemed_a_moment_ago_is_a_replay(issuer, monkeypatch):
    redeem = issuer.stores.grants.redeem_code

    def second(code_hash, first, *, at):
        assert redeem(code_hash, None, at=at)
        return redeem(code_hash, first, at=at)

    monkeypatch.setattr(issuer.stores.grants, "redeem_code", second)
    assert await issuer.redeem(issuer.code()) == (400, INVALID)
    assert issuer.families() == 0


async def test_of_two_processes_that_redeem_one_code_at_once_one_wins(tmp_path, issuer):
    elsewhere = Issuer(tmp_path, clock=issuer.clock)
    for _ in range(10):
        code = issuer.code()
        answers = await asyncio.gather(issuer.redeem(code), elsewhere.redeem(code))
        assert sorted(status for status, _ in answers) == [200, 400]
    elsewhere.stores.close()


async def test_a_confidential_client_needs_its_secret_and_the_verifier(tmp_path):
    both = replace(CONFIDENTIAL.client, redirect_uris=(CALLBACK,), grants=("authorization_code",))
    issuer = Issuer(tmp_path, both)
    code = issuer.code(client_id=both.id)
    proven = {"client_id": both.id, "client_secret": CONFIDENTIAL.secret}
    status, body = await issuer.redeem(code, client_id=both.id)
    assert (status, body["error"]) == (401, "invalid_client")
    status, body = await issuer.redeem(code, **proven, code_verifier="")
    assert (status, body["error"]) == (400, "invalid_request")
    status, body = await issuer.redeem(code, **proven)
    assert status == 200
    # It is not registered for the grant `refresh_token`.
    assert "refresh_token" not in body
    issuer.stores.close()


@pytest.mark.parametrize("method", [AuthMethod.BASIC, AuthMethod.PRIVATE_KEY_JWT])
async def test_a_client_with_a_proof_is_not_let_in_without_it(tmp_path, method):
    issuer = Issuer(tmp_path, replace(APP, auth_methods=frozenset({method})))
    status, body = await issuer.redeem(issuer.code())
    assert (status, body["error"]) == (401, "invalid_client")
    issuer.stores.close()


async def test_a_client_without_the_grant_gets_no_token(tmp_path):
    issuer = Issuer(tmp_path, replace(APP, grants=("refresh_token",)))
    status, body = await issuer.redeem(issuer.code())
    assert (status, body["error"]) == (400, "unauthorized_client")
    issuer.stores.close()


async def test_a_person_who_was_disabled_meanwhile_gets_nothing(issuer):
    before = issuer.code()
    issuer.stores.users.change(ALICE.id, disabled=True, at=NOW)
    for code in (before, issuer.code()):
        status, body = await issuer.redeem(code)
        assert (status, body["error"]) == (400, "invalid_grant")


async def test_a_grant_that_was_revoked_meanwhile_gives_nothing(issuer):
    code = issuer.code(id="grant-1")
    issuer.stores.grants.revoke_grant("grant-1", "test", at=NOW)
    status, body = await issuer.redeem(code)
    assert (status, body["error"]) == (400, "invalid_grant")


async def test_a_token_never_outlives_its_grant(issuer):
    body = await issuer.signed_in(expires_at=NOW + 100)
    assert body["expires_in"] == 100
    assert issuer.read(body).expires_at == int(NOW) + 100


async def test_a_grant_with_less_than_a_second_left_gives_no_token(issuer):
    status, body = await issuer.redeem(issuer.code(expires_at=NOW + 0.5))
    assert (status, body["error"]) == (400, "invalid_grant")


async def test_a_registered_client_gets_no_more_of_a_grant_than_it_may_have_now(tmp_path):
    now = replace(
        CONFIDENTIAL.client,
        redirect_uris=(CALLBACK,),
        grants=("authorization_code",),
        scopes=frozenset({"tools:list"}),
    )
    issuer = Issuer(tmp_path, now)
    proven = {"client_id": now.id, "client_secret": CONFIDENTIAL.secret}
    _, body = await issuer.redeem(issuer.code(client_id=now.id), **proven)
    assert body["scope"] == "tools:list"
    code = issuer.code(client_id=now.id, scopes=frozenset({"tools:write"}))
    status, body = await issuer.redeem(code, **proven)
    assert (status, body["error"]) == (400, "invalid_scope")
    code = issuer.code(client_id=now.id, endpoint="/mcp/web")
    status, body = await issuer.redeem(code, **proven)
    assert (status, body["error"]) == (400, "invalid_target")
    issuer.stores.close()


async def test_a_token_for_the_admin_api_is_made_by_the_same_rules(issuer):
    code = issuer.code(client_id="douane-cli", endpoint="/api/v1", scopes=frozenset({"admin"}))
    status, body = await issuer.redeem(code, client_id="douane-cli")
    assert status == 200
    principal = await issuer.admit(body, "/api/v1")
    assert (principal.client_name, principal.scopes) == (
        "Douane command line",
        frozenset({"admin"}),
    )
    with pytest.raises(Unauthenticated):
        await issuer.admit(body, MAIL)
