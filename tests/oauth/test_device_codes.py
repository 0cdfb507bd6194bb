"""Devices without a browser: a code for the device, another for its person (RFC 8628)."""

import asyncio
import re
from dataclasses import replace

import pytest

from gateway.domain.grants import DeviceRequest, DeviceStatus
from gateway.errors import Unauthenticated
from gateway.oauth.device import ALPHABET
from gateway.oauth.protocol import token_hash
from tests.oauth.issuing import ALICE, APP, SCOPES, Issuer
from tests.oauth.world import MAIL, MAIL_URI, NOW, PUBLIC_URL, client

PENDING = {
    "error": "authorization_pending",
    "error_description": "the person has not answered yet",
}
SLOW_DOWN = {"error": "slow_down", "error_description": "wait longer before asking again"}
INVALID = {"error": "invalid_grant", "error_description": "the device code is not valid"}


async def begun(issuer: Issuer, **parameters: str) -> str:
    """Return the device code of a new request."""
    answer = await issuer.begin_device(**parameters)
    assert answer.status == 200
    return str(answer.body["device_code"])


async def test_a_device_gets_two_codes_and_the_address_to_show(issuer):
    answer = await issuer.begin_device(scope="tools:list tools:call")
    body = dict(answer.body)
    device_code, user_code = body.pop("device_code"), body.pop("user_code")
    assert (answer.status, answer.headers) == (200, (("cache-control", "no-store"),))
    assert len(device_code) == 43
    assert re.fullmatch(f"[{ALPHABET}]{{4}}-[{ALPHABET}]{{4}}", user_code)
    assert body == {
        "verification_uri": PUBLIC_URL + "/device",
        "verification_uri_complete": f"{PUBLIC_URL}/device?user_code={user_code}",
        "expires_in": 600,
        "interval": 5,
    }
    typed = user_code.replace("-", "")
    assert issuer.stores.grants.device_of(typed, now=NOW) == DeviceRequest(
        device_hash=token_hash(device_code),
        user_code=typed,
        client_id=APP.id,
        endpoint=MAIL,
        scopes=SCOPES,
        expires_at=NOW + 600,
        interval_s=5,
    )


async def test_a_user_code_has_no_letter_that_reads_as_another_or_makes_a_word():
    assert ALPHABET == "BCDFGHJKLMNPQRSTVWXZ"


async def test_octets_that_would_favour_some_letters_are_not_used(issuer):
    drawn = iter([bytes(32), bytes(range(240, 256)), bytes(range(232, 248)), bytes(16)])
    issuer.server.random = lambda _: next(drawn)
    answer = await issuer.begin_device()
    assert answer.body["user_code"] == "QRST-VWXZ"


async def test_a_user_code_that_another_device_waits_under_is_not_given(issuer):
    issuer.server.random = bytes
    assert (await issuer.begin_device()).status == 200
    answer = await issuer.begin_device()
    assert (answer.status, answer.body["error"]) == (503, "temporarily_unavailable")


async def test_the_codes_are_recorded_by_their_client_only(issuer):
    answer = await issuer.begin_device()
    assert issuer.record.fields == {
        "client": APP.id,
        "endpoint": MAIL,
        "method": "oauth/device_authorization",
        "source_ip": "192.0.2.7",
        "verdict": "allow",
        "reasons": [
            {
                "code": "device_waits",
                "message": "scope prompts resources tools:call tools:list tools:write",
            }
        ],
    }
    told = repr(issuer.log.records)
    assert answer.body["device_code"] not in told
    assert answer.body["user_code"].replace("-", "") not in told.replace("-", "")


@pytest.mark.parametrize(
    ("changes", "status", "error"),
    [
        ({"client_id": "nobody"}, 401, "invalid_client"),
        ({"client_id": ""}, 401, "invalid_client"),
        ({"scope": "everything"}, 400, "invalid_scope"),
        ({"scope": "admin"}, 400, "invalid_scope"),
        ({"resource": PUBLIC_URL + "/mcp/none"}, 400, "invalid_target"),
        ({"resource": PUBLIC_URL + "/api/v1"}, 400, "invalid_target"),
    ],
    ids=str,
)
async def test_what_a_client_may_not_have_is_not_waited_for(issuer, changes, status, error):
    answer = await issuer.begin_device(**changes)
    assert (answer.status, answer.body["error"]) == (status, error)
    assert issuer.record.fields["code"] == error


async def test_one_address_begins_thirty_a_minute(issuer):
    for _ in range(30):
        assert (await issuer.begin_device()).status == 200
    issuer.clock.now = NOW + 10
    answer = await issuer.begin_device()
    assert (answer.status, answer.body["error"]) == (429, "rate_limited")
    assert ("retry-after", "50") in answer.headers
    issuer.clock.now = NOW + 60
    assert (await issuer.begin_device()).status == 200


async def test_a_client_without_the_grant_begins_nothing_and_polls_for_nothing(tmp_path, issuer):
    code = await begun(issuer)
    issuer.stores.clients.remove(APP.id)
    issuer.stores.clients.add(replace(APP, grants=("authorization_code",)))
    answer = await issuer.begin_device()
    assert (answer.status, answer.body["error"]) == (400, "unauthorized_client")
    status, body = await issuer.poll(code)
    assert (status, body["error"]) == (400, "unauthorized_client")


async def test_a_confidential_client_proves_itself_here_as_well(tmp_path):
    new = client(seed=4)
    grants = ("urn:ietf:params:oauth:grant-type:device_code",)
    issuer = Issuer(tmp_path, replace(new.client, grants=grants))
    answer = await issuer.begin_device(client_id=new.client.id)
    assert answer.status == 401
    answer = await issuer.begin_device(client_id=new.client.id, client_secret=new.secret)
    assert answer.status == 200
    issuer.stores.close()


async def test_an_approved_device_gets_its_tokens_once(issuer):
    code = await begun(issuer)
    assert await issuer.poll(code) == (400, PENDING)
    issuer.clock.now = NOW + 5
    grant = issuer.approve(code)
    status, body = await issuer.poll(code)
    assert status == 200
    token = issuer.read(body)
    assert (token.subject, token.grant_id, token.scopes) == (ALICE.id, grant.id, SCOPES)
    assert (await issuer.refresh(body["refresh_token"]))[0] == 200


async def test_a_second_use_of_a_device_code_ends_the_family(issuer):
    code = await begun(issuer)
    issuer.approve(code)
    _, body = await issuer.poll(code)
    assert await issuer.poll(code) == (400, INVALID)
    with pytest.raises(Unauthenticated):
        await issuer.admit(body)
    assert issuer.families() == 0


async def test_of_many_polls_at_once_one_gets_the_tokens(issuer):
    code = await begun(issuer)
    issuer.approve(code)
    answers = await asyncio.gather(*(issuer.poll(code) for _ in range(6)))
    assert sorted(status for status, _ in answers) == [200] + [400] * 5


async def test_a_device_code_that_was_redeemed_a_moment_ago_is_a_replay(issuer, monkeypatch):
    code, redeem = await begun(issuer), issuer.stores.grants.redeem_device
    issuer.approve(code)

    def second(device_hash, first, *, at):
        assert redeem(device_hash, None, at=at)
        return redeem(device_hash, first, at=at)

    monkeypatch.setattr(issuer.stores.grants, "redeem_device", second)
    assert await issuer.poll(code) == (400, INVALID)
    assert issuer.families() == 0


async def test_a_device_that_asks_too_often_has_to_wait_longer_for_good(issuer):
    code = await begun(issuer)
    polls = [(0, PENDING), (4, SLOW_DOWN), (13, SLOW_DOWN), (28, PENDING), (42, SLOW_DOWN)]
    for second, expected in polls:
        issuer.clock.now = NOW + second
        assert await issuer.poll(code) == (400, expected)


async def test_a_poll_before_the_answer_is_neither_a_yes_nor_a_no(issuer):
    code = await begun(issuer)
    for expected in ("authorization_pending", "slow_down"):
        await issuer.poll(code)
        assert issuer.record.fields["code"] == expected
        assert "verdict" not in issuer.record.fields


async def test_a_denied_device_is_told_so(issuer):
    code = await begun(issuer)
    assert issuer.stores.grants.answer_device(token_hash(code), DeviceStatus.DENIED, None, now=NOW)
    status, body = await issuer.poll(code)
    assert (status, body["error"]) == (400, "access_denied")


@pytest.mark.parametrize("approved", [False, True])
async def test_an_expired_device_is_told_so(issuer, approved):
    code = await begun(issuer)
    if approved:
        issuer.approve(code)
    issuer.clock.now = NOW + 600
    status, body = await issuer.poll(code)
    assert (status, body["error"]) == (400, "expired_token")


async def test_another_clients_device_code_is_none_and_stays_good(issuer):
    code = await begun(issuer)
    issuer.approve(code)
    assert await issuer.poll(code, client_id="other") == (400, INVALID)
    assert await issuer.poll("x") == (400, INVALID)
    assert (await issuer.poll(code))[0] == 200
    assert await issuer.poll(code, client_id="other") == (400, INVALID)
    assert issuer.families() == 1


async def test_a_device_that_names_another_resource_at_the_end_gets_nothing(issuer):
    code = await begun(issuer)
    issuer.approve(code)
    status, body = await issuer.poll(code, resource=PUBLIC_URL + "/mcp/web")
    assert (status, body["error"]) == (400, "invalid_target")
    assert (await issuer.poll(code))[0] == 200


async def test_a_resource_may_end_with_a_slash(issuer):
    slash = MAIL_URI + "/"
    code = await begun(issuer, resource=slash)
    issuer.approve(code)
    status, body = await issuer.poll(code, resource=slash)
    assert status == 200
    assert issuer.read(body).audience == MAIL_URI


async def test_a_person_who_was_disabled_meanwhile_approves_nothing(issuer):
    code = await begun(issuer)
    issuer.approve(code)
    issuer.stores.users.change(ALICE.id, disabled=True, at=NOW)
    status, body = await issuer.poll(code)
    assert (status, body["error"]) == (400, "invalid_grant")


async def test_without_a_device_code_there_is_nothing_to_poll_for(issuer):
    status, body = await issuer.poll("")
    assert (status, body["error"]) == (400, "invalid_request")


async def test_the_command_line_waits_for_the_admin_api_without_naming_it(issuer):
    answer = await issuer.begin_device(client_id="douane-cli", resource="", scope="admin")
    device = issuer.stores.grants.device(token_hash(answer.body["device_code"]))
    assert device is not None
    assert (device.endpoint, device.scopes) == ("/api/v1", frozenset({"admin"}))
