"""Refresh tokens: each used once; what a second use means is told by when it comes and who goes on."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.identity import AuthMethod, ClientKind
from gateway.errors import Unauthenticated
from gateway.oauth.protocol import Reuse, token_hash
from gateway.storage.identity.statements import Statements
from tests.oauth.assertions import EC_KEY, signed
from tests.oauth.issuing import ALICE, APP, OTHER, Issuer, basic, form
from tests.oauth.world import MAIL_URI, NOW, PUBLIC_URL

INVALID = {"error": "invalid_grant", "error_description": "the refresh token is not valid"}
HOUR = 3600
DAY = 24 * HOUR


@pytest.fixture
def strict(tmp_path):
    """An issuer to which every second use is a thief's."""
    issuer = Issuer(tmp_path, grace_s=0, lost_s=0, reuse=Reuse.REVOKE)
    yield issuer
    issuer.stores.close()


async def test_a_refresh_gives_a_new_access_token_and_a_new_refresh_token(issuer):
    first = await issuer.signed_in(id="grant-1")
    issuer.clock.now = NOW + 600
    status, second = await issuer.refresh(first["refresh_token"])
    assert status == 200
    assert second["refresh_token"] != first["refresh_token"]
    assert second["scope"] == first["scope"]
    old, new = issuer.read(first), issuer.read(second)
    assert new == replace(
        old, issued_at=int(NOW) + 600, expires_at=int(NOW) + 1500, token_id=new.token_id
    )
    assert new.token_id != old.token_id
    await issuer.admit(first)
    await issuer.admit(second)


async def test_a_client_on_a_persons_machine_may_have_its_tokens_for_longer(tmp_path):
    lives = {}
    for name, uri in (("here", "http://127.0.0.1/callback"), ("far", "https://app.test/callback")):
        (folder := tmp_path / name).mkdir()
        issuer = Issuer(folder, replace(APP, redirect_uris=(uri,)), device_s=HOUR)
        token = issuer.read(await issuer.signed_in())
        lives[name] = token.expires_at - token.issued_at
        issuer.stores.close()
    assert lives == {"here": HOUR, "far": 900}


async def test_a_chain_goes_on_as_long_as_its_last_token_is_used(issuer):
    token = (await issuer.signed_in())["refresh_token"]
    for round_ in range(1, 6):
        issuer.clock.now = NOW + round_ * DAY
        status, body = await issuer.refresh(token)
        assert status == 200
        token = body["refresh_token"]


async def test_a_second_use_ends_the_family_and_its_live_access_tokens(strict):
    first = await strict.signed_in()
    _, second = await strict.refresh(first["refresh_token"])
    await strict.admit(first)
    await strict.admit(second)
    assert await strict.refresh(first["refresh_token"]) == (400, INVALID)
    assert "is revoked" in strict.reason
    for body in (first, second):
        with pytest.raises(Unauthenticated):
            await strict.admit(body)
        assert (await strict.refresh(body["refresh_token"]))[0] == 400
    assert strict.families() == 0


async def test_a_replay_ends_its_own_family_and_no_other(strict):
    first, other = await strict.signed_in(), await strict.signed_in()
    await strict.refresh(first["refresh_token"])
    await strict.refresh(first["refresh_token"])
    await strict.admit(other)
    assert (await strict.refresh(other["refresh_token"]))[0] == 200


async def test_without_grace_no_successor_is_kept(strict):
    first = await strict.signed_in()
    await strict.refresh(first["refresh_token"])
    assert _column(strict, "SELECT successor FROM refresh_tokens") == ["", ""]


async def test_within_the_grace_the_same_successor_comes_back(issuer):
    first = await issuer.signed_in()
    _, second = await issuer.refresh(first["refresh_token"])
    issuer.clock.now = NOW + 30
    status, again = await issuer.refresh(first["refresh_token"])
    assert status == 200
    assert again["refresh_token"] == second["refresh_token"]
    assert again["access_token"] != second["access_token"]
    assert (await issuer.refresh(second["refresh_token"]))[0] == 200


async def test_an_answer_that_was_lost_is_given_again_hours_later(issuer):
    first = await issuer.signed_in()
    _, second = await issuer.refresh(first["refresh_token"])
    issuer.clock.now = NOW + 6 * HOUR
    status, again = await issuer.refresh(first["refresh_token"])
    assert (status, again["refresh_token"]) == (200, second["refresh_token"])
    assert issuer.record.fields["reasons"][0]["code"] == "refresh_given_again"
    # So it is when that answer is lost, too, and its client tries again: nobody else goes on.
    issuer.clock.now = NOW + 12 * HOUR
    _, again = await issuer.refresh(first["refresh_token"])
    assert (await issuer.refresh(again["refresh_token"]))[0] == 200


async def test_an_answer_that_is_known_to_be_lost_is_on_record_as_that(issuer):
    first = await issuer.signed_in()
    given = await issuer.ask(grant_type="refresh_token", refresh_token=first["refresh_token"])
    await issuer.endpoint.missed(given)
    issuer.clock.now += HOUR
    again = await issuer.ask(grant_type="refresh_token", refresh_token=first["refresh_token"])
    assert again.body["refresh_token"] == given.body["refresh_token"]
    assert issuer.record.fields["reasons"][0]["code"] == "refresh_lost"
    # What is known does not excuse it: whoever lets answers drop is no less a second holder.
    await issuer.refresh(again.body["refresh_token"])
    await issuer.endpoint.missed(again)
    issuer.clock.now += HOUR
    assert await issuer.refresh(again.body["refresh_token"]) == (400, INVALID)
    assert "in turns" in issuer.reason


async def test_who_waits_with_others_has_lost_nothing(issuer):
    first = await issuer.signed_in()
    form = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
    answers = await asyncio.gather(*(issuer.ask(**form) for _ in range(3)))
    assert {given.used for given in answers} == {""}
    assert (await issuer.ask(**form)).used == token_hash(first["refresh_token"])


async def test_a_lost_answer_is_given_again_across_a_restart(tmp_path, issuer):
    first = await issuer.signed_in()
    _, second = await issuer.refresh(first["refresh_token"])
    issuer.clock.now = NOW + HOUR
    issuer.stores.close()
    anew = Issuer(tmp_path, clock=issuer.clock)
    anew.server.stores = replace(anew.server.stores, sealer=issuer.vault)
    _, again = await anew.refresh(first["refresh_token"])
    assert again["refresh_token"] == second["refresh_token"]
    anew.stores.close()


async def test_what_is_lost_for_too_long_is_refused(issuer):
    first = await issuer.signed_in()
    _, second = await issuer.refresh(first["refresh_token"])
    issuer.clock.now = NOW + DAY + 1
    assert await issuer.refresh(first["refresh_token"]) == (400, INVALID)
    assert (await issuer.refresh(second["refresh_token"]))[0] == 200


async def test_whoever_is_slower_than_two_others_gets_an_access_token_and_no_chain(issuer):
    first = await issuer.signed_in()
    _, second = await issuer.refresh(first["refresh_token"])
    issuer.clock.now = NOW + 1
    _, third = await issuer.refresh(second["refresh_token"])
    issuer.clock.now = NOW + 120
    status, raced = await issuer.refresh(first["refresh_token"])
    assert (status, "refresh_token" in raced) == (200, False)
    await issuer.admit(raced)
    _, wrong = await issuer.refresh(first["refresh_token"], resource=PUBLIC_URL + "/mcp/web")
    assert wrong["error"] == "invalid_target"
    await issuer.refresh(first["refresh_token"])
    assert issuer.record.fields["reasons"][0]["code"] == "refresh_raced"
    assert (await issuer.refresh(third["refresh_token"]))[0] == 200


async def test_a_race_may_be_for_an_answer_that_was_lost(issuer):
    first = await issuer.signed_in()
    await issuer.refresh(first["refresh_token"])
    issuer.clock.now += HOUR
    _, again = await issuer.refresh(first["refresh_token"])
    await issuer.refresh(again["refresh_token"])
    issuer.clock.now += 120
    status, raced = await issuer.refresh(first["refresh_token"])
    assert (status, "refresh_token" in raced) == (200, False)


async def test_a_token_that_is_two_behind_is_refused_and_ends_nothing(issuer):
    last = await _left_behind(issuer)
    assert issuer.record.fields["reasons"][0]["code"] == "refresh_reused"
    await issuer.admit(last)
    assert (await issuer.refresh(last["refresh_token"]))[0] == 200


async def test_it_ends_all_where_the_operator_wants_that(tmp_path):
    issuer = Issuer(tmp_path, reuse=Reuse.REVOKE)
    await _left_behind(issuer)
    assert issuer.record.fields["reasons"][0]["code"] == "refresh_revoked"
    assert issuer.families() == 0
    issuer.stores.close()


@pytest.mark.parametrize(
    ("uris", "reuse", "families"),
    [
        (("https://app.example/cb",), None, 0),
        (("https://app.example/cb",), Reuse.REFUSE, 1),
        (("https://app.example/cb", "http://127.0.0.1/cb"), None, 1),
        (("app.example:/cb",), None, 1),
    ],
    ids=str,
)
async def test_without_a_word_it_ends_all_of_a_client_that_is_on_no_persons_machine(
    tmp_path, uris, reuse, families
):
    issuer = Issuer(tmp_path, replace(APP, redirect_uris=uris), reuse=reuse)
    first = text = await _begun(issuer)
    for _ in range(3):
        issuer.clock.now += HOUR
        text = (await issuer.refresh(text))[1]["refresh_token"]
    assert await issuer.refresh(first) == (400, INVALID)
    assert issuer.families() == families
    issuer.stores.close()


async def test_two_holders_who_go_on_in_turns_are_a_theft(issuer):
    owner = thief = (await issuer.signed_in())["refresh_token"]
    issuer.clock.now += 600
    owner = (await issuer.refresh(owner))[1]["refresh_token"]
    issuer.clock.now += 300
    thief = (await issuer.refresh(thief))[1]["refresh_token"]
    issuer.clock.now += 300
    owner = (await issuer.refresh(owner))[1]["refresh_token"]
    issuer.clock.now += 300
    assert await issuer.refresh(thief) == (400, INVALID)
    assert "in turns" in issuer.reason
    assert (await issuer.refresh(owner))[0] == 400
    assert issuer.families() == 0


async def test_a_lost_answer_now_and_then_is_no_theft(issuer):
    token = (await issuer.signed_in())["refresh_token"]
    for _ in range(4):
        issuer.clock.now += HOUR
        await issuer.refresh(token)
        issuer.clock.now += HOUR
        _, again = await issuer.refresh(token)
        issuer.clock.now += HOUR
        token = (await issuer.refresh(again["refresh_token"]))[1]["refresh_token"]
    assert issuer.families() == 1


async def test_a_chain_that_ran_far_ahead_of_its_access_tokens_is_a_thiefs(issuer):
    first = (await issuer.signed_in())["refresh_token"]
    token = first
    for _ in range(5):
        token = (await issuer.refresh(token))[1]["refresh_token"]
        issuer.clock.now += 1
    issuer.clock.now += 600
    assert await issuer.refresh(first) == (400, INVALID)
    assert issuer.families() == 0


async def test_a_chain_that_went_on_for_hours_is_not_far_ahead(issuer):
    first = (await issuer.signed_in())["refresh_token"]
    token = first
    for _ in range(10):
        token = (await issuer.refresh(token))[1]["refresh_token"]
        issuer.clock.now += 900
    assert await issuer.refresh(first) == (400, INVALID)
    assert (await issuer.refresh(token))[0] == 200


async def test_whoever_was_refused_and_signs_in_anew_ends_what_refused_them(issuer):
    other = await issuer.signed_in(endpoint="/mcp/web")
    thiefs = await _left_behind(issuer)
    issuer.stores.clients.add(replace(APP, id="again"))
    issuer.stores.users.add(replace(ALICE, id="b0b", subject="bob"))
    for begun in ({"user_id": "b0b"}, {"endpoint": "/mcp"}, {"client_id": OTHER.id}):
        await issuer.redeem(
            issuer.code(**begun), client_id=begun.get("client_id", APP.id), resource=""
        )
    await issuer.admit(thiefs)
    # Registered anew, as clients do that have lost everything.
    await issuer.redeem(issuer.code(client_id="again"), client_id="again")
    with pytest.raises(Unauthenticated):
        await issuer.admit(thiefs)
    assert (await issuer.refresh(thiefs["refresh_token"]))[0] == 400
    assert (await issuer.refresh(other["refresh_token"]))[0] == 200


async def test_a_grant_that_refused_nobody_outlives_another_sign_in(issuer):
    first = await issuer.signed_in()
    await issuer.signed_in()
    await issuer.admit(first)


async def test_a_client_with_a_key_keeps_its_refresh_token(tmp_path):
    keyed = replace(
        APP,
        kind=ClientKind.DYNAMIC,
        auth_methods=frozenset({AuthMethod.PRIVATE_KEY_JWT}),
        jwks=json.dumps({"keys": [EC_KEY.as_dict(private=False)]}),
    )
    issuer = Issuer(tmp_path, keyed, refresh_s=DAY)
    token = await _begun(issuer, **_proof(0))
    for number in range(1, 4):
        issuer.clock.now += DAY - 1
        status, body = await issuer.refresh(token, **_proof(issuer.clock.now - NOW))
        assert (status, "refresh_token" in body) == (200, False), (number, body)
    issuer.clock.now += DAY
    assert (await issuer.refresh(token, **_proof(issuer.clock.now - NOW)))[0] == 400
    issuer.stores.close()


async def test_of_many_at_once_within_the_grace_all_get_the_one_answer(issuer):
    first = await issuer.signed_in()
    before = len(issuer.log.records)
    answers = await asyncio.gather(*(issuer.refresh(first["refresh_token"]) for _ in range(8)))
    assert [status for status, _ in answers] == [200] * 8
    assert len({(body["refresh_token"], body["access_token"]) for _, body in answers}) == 1
    # It is one refresh: one token, one row, one record.
    assert len(issuer.log.records) == before + 1
    assert _column(issuer, "SELECT count(*) FROM refresh_tokens") == [2]


async def test_an_answer_is_for_those_who_ask_the_same_from_the_same_place(issuer):
    first = await issuer.signed_in()
    text = first["refresh_token"]
    before = len(issuer.log.records)
    asked = [form({"grant_type": "refresh_token", "refresh_token": text})] * 2
    asked.append(replace(asked[0], source_ip="192.0.2.8"))
    asked.append(replace(asked[0], body=asked[0].body + b"&scope=tools%3Acall"))
    answers = await asyncio.gather(*map(issuer.endpoint.answer, asked))
    assert [given.status for given in answers] == [200] * 4
    tokens = [given.body["access_token"] for given in answers]
    assert (tokens[0] == tokens[1], len(set(tokens))) == (True, 3)
    assert len(issuer.log.records) == before + 3


async def test_who_hangs_up_takes_the_answer_from_nobody_who_waits_with_them(issuer):
    text = (await issuer.signed_in())["refresh_token"]
    one, two = (asyncio.ensure_future(issuer.refresh(text)) for _ in range(2))
    await asyncio.sleep(0)
    one.cancel()
    assert (await two)[0] == 200
    with pytest.raises(asyncio.CancelledError):
        await one


async def test_what_proves_its_sender_is_looked_at_each_time(issuer):
    first = await issuer.signed_in()
    form_ = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
    before = len(issuer.log.records)
    for proven in ({"client_secret": "guess"}, {"client_assertion": "guess"}):
        await asyncio.gather(*(issuer.ask(**form_, **proven) for _ in range(2)))
    basic_ = replace(form(form_), authorization=(basic(APP.id, "guess"),))
    await asyncio.gather(*(issuer.endpoint.answer(basic_) for _ in range(2)))
    bound = replace(form(form_), proofs=("a proof",))
    await asyncio.gather(*(issuer.endpoint.answer(bound) for _ in range(2)))
    assert len(issuer.log.records) == before + 8


async def test_a_chain_grows_by_one_a_second_and_who_is_faster_is_let_in(issuer):
    first = await issuer.signed_in()
    # Not the first one: nothing came before it that it could be too soon after.
    _, second = await issuer.refresh(first["refresh_token"])
    for _ in range(3):
        issuer.clock.now += 0.2
        status, body = await issuer.refresh(second["refresh_token"])
        assert (status, "refresh_token" in body) == (200, False)
        await issuer.admit(body)
        assert issuer.record.fields["reasons"][0]["code"] == "refresh_paced"
    issuer.clock.now = NOW + 1
    _, third = await issuer.refresh(second["refresh_token"])
    assert third["refresh_token"] != second["refresh_token"]
    assert _column(issuer, "SELECT max(generation) FROM refresh_tokens") == [2]


async def test_a_clock_that_was_set_back_holds_no_chain_up(issuer):
    first = await issuer.signed_in()
    _, second = await issuer.refresh(first["refresh_token"])
    issuer.clock.now = NOW - HOUR
    assert "refresh_token" in (await issuer.refresh(second["refresh_token"]))[1]


async def test_without_grace_nobody_is_let_in_who_is_too_fast(strict):
    first = await strict.signed_in()
    _, second = await strict.refresh(first["refresh_token"])
    assert "refresh_token" in (await strict.refresh(second["refresh_token"]))[1]


async def test_whoever_comes_a_moment_too_late_gets_what_the_other_got(issuer, monkeypatch):
    first = await issuer.signed_in()
    rotate, others = issuer.stores.grants.rotate, []

    def second(token_hash, successor, *, sealed, at):
        monkeypatch.undo()
        # Not the same request: that one would get the other's answer without being looked at.
        again = issuer.refresh(first["refresh_token"], resource=MAIL_URI)
        others.append(asyncio.run(again))
        return rotate(token_hash, successor, sealed=sealed, at=at)

    monkeypatch.setattr(issuer.stores.grants, "rotate", second)
    status, body = await issuer.refresh(first["refresh_token"])
    assert (status, others[0][0]) == (200, 200)
    assert body["refresh_token"] == others[0][1]["refresh_token"]
    assert (await issuer.refresh(body["refresh_token"]))[0] == 200


async def test_a_revoked_family_gives_no_successor_again(issuer):
    first = await issuer.signed_in(id="grant-1")
    await issuer.refresh(first["refresh_token"])
    issuer.stores.grants.revoke_grant("grant-1", "test", at=NOW)
    status, body = await issuer.refresh(first["refresh_token"])
    assert (status, body["error"]) == (400, "invalid_grant")


async def test_of_two_processes_that_refresh_at_once_both_get_the_one_successor(tmp_path, issuer):
    elsewhere = Issuer(tmp_path, clock=issuer.clock)
    token = (await issuer.signed_in())["refresh_token"]
    for _ in range(10):
        answers = await asyncio.gather(issuer.refresh(token), elsewhere.refresh(token))
        assert [status for status, _ in answers] == [200, 200]
        (token,) = {body["refresh_token"] for _, body in answers}
        issuer.clock.now += 1
    elsewhere.stores.close()


async def test_of_many_at_once_without_grace_one_wins_and_then_nobody(strict):
    first = await strict.signed_in()
    answers = await asyncio.gather(*(strict.refresh(first["refresh_token"]) for _ in range(8)))
    assert sorted(status for status, _ in answers) == [200] + [400] * 7
    assert strict.families() == 0


async def test_another_clients_use_ends_the_family(issuer):
    first = await issuer.signed_in()
    assert await issuer.refresh(first["refresh_token"], client_id="other") == (400, INVALID)
    assert issuer.record.fields["client"] == "other"
    assert (await issuer.refresh(first["refresh_token"]))[0] == 400
    with pytest.raises(Unauthenticated):
        await issuer.admit(first)


async def test_another_clients_use_of_a_used_token_ends_the_family_too(issuer):
    first = await issuer.signed_in()
    _, second = await issuer.refresh(first["refresh_token"])
    assert await issuer.refresh(first["refresh_token"], client_id="other") == (400, INVALID)
    with pytest.raises(Unauthenticated):
        await issuer.admit(second)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"resource": PUBLIC_URL + "/mcp/web"}, "invalid_target"),
        ({"resource": PUBLIC_URL + "/mcp"}, "invalid_target"),
        ({"resource": "mail"}, "invalid_target"),
        ({"scope": "tools:write"}, "invalid_scope"),
        ({"scope": "tools:call tools:write"}, "invalid_scope"),
        ({"scope": "tools:call  tools:list"}, "invalid_scope"),
        ({"scope": "TOOLS:CALL"}, "invalid_scope"),
        ({"client_id": "nobody"}, "invalid_client"),
    ],
    ids=str,
)
async def test_what_the_grant_does_not_cover_is_refused_and_uses_nothing_up(issuer, wrong, error):
    first = await issuer.signed_in()
    _, body = await issuer.refresh(first["refresh_token"], **wrong)
    assert body["error"] == error
    _, second = await issuer.refresh(first["refresh_token"])
    # Alike within the grace, where nothing is used up either.
    _, body = await issuer.refresh(first["refresh_token"], **wrong)
    assert body["error"] == error
    assert (await issuer.refresh(second["refresh_token"], resource=MAIL_URI))[0] == 200


async def test_a_resource_may_end_with_a_slash(issuer):
    first = await issuer.signed_in()
    status, second = await issuer.refresh(first["refresh_token"], resource=MAIL_URI + "/")
    assert status == 200
    assert issuer.read(second).audience == MAIL_URI


async def test_a_token_may_carry_less_and_the_rest_is_not_lost(issuer):
    first = await issuer.signed_in()
    _, second = await issuer.refresh(first["refresh_token"], scope="tools:call")
    assert second["scope"] == "tools:call"
    assert issuer.read(second).scopes == frozenset({"tools:call"})
    _, third = await issuer.refresh(second["refresh_token"])
    assert third["scope"] == "tools:list tools:call"


async def test_a_token_that_waits_for_too_long_is_refused(tmp_path):
    issuer = Issuer(tmp_path, refresh_s=DAY)
    first = await issuer.signed_in()
    issuer.clock.now = NOW + DAY
    assert await issuer.refresh(first["refresh_token"]) == (400, INVALID)
    assert issuer.reason == "unused for too long"
    issuer.stores.close()


async def test_a_chain_ends_with_its_grant_however_often_it_is_used(issuer):
    first = await issuer.signed_in(expires_at=NOW + DAY)
    issuer.clock.now = NOW + DAY - 100
    _, second = await issuer.refresh(first["refresh_token"])
    assert second["expires_in"] == 100
    issuer.clock.now = NOW + DAY
    status, body = await issuer.refresh(second["refresh_token"])
    assert (status, body["error"]) == (400, "invalid_grant")


async def test_a_disabled_person_gets_no_token(issuer):
    first = await issuer.signed_in()
    issuer.stores.users.change(ALICE.id, disabled=True, at=NOW)
    status, body = await issuer.refresh(first["refresh_token"])
    assert (status, body["error"]) == (400, "invalid_grant")
    issuer.stores.users.change(ALICE.id, disabled=False, at=NOW)
    assert (await issuer.refresh(first["refresh_token"]))[0] == 400


async def test_a_removed_client_gets_no_token(issuer):
    first = await issuer.signed_in()
    issuer.stores.clients.remove(APP.id)
    status, body = await issuer.refresh(first["refresh_token"])
    assert (status, body["error"]) == (401, "invalid_client")


async def test_a_client_without_the_grant_gets_no_refresh_token_and_can_use_none(tmp_path, issuer):
    first = await issuer.signed_in()
    issuer.stores.clients.remove(APP.id)
    issuer.stores.clients.add(replace(APP, grants=("authorization_code",)))
    assert "refresh_token" not in await issuer.signed_in()
    status, body = await issuer.refresh(first["refresh_token"])
    assert (status, body["error"]) == (400, "unauthorized_client")


@pytest.mark.parametrize(
    ("token", "error"), [("", "invalid_request"), ("x", "invalid_grant"), ('\\"', "invalid_grant")]
)
async def test_what_is_no_refresh_token_is_refused(issuer, token, error):
    status, body = await issuer.refresh(token)
    assert (status, body["error"]) == (400, error)


async def test_an_access_token_is_no_refresh_token_and_a_refresh_token_no_access_token(issuer):
    first = await issuer.signed_in()
    assert await issuer.refresh(first["access_token"]) == (400, INVALID)
    with pytest.raises(Unauthenticated):
        await issuer.admit({"access_token": first["refresh_token"]})


async def test_no_secret_is_in_the_database_as_it_was_given(tmp_path, issuer):
    code = issuer.code()
    _, first = await issuer.redeem(code)
    _, second = await issuer.refresh(first["refresh_token"])
    device = await issuer.begin_device()
    secrets = {
        code,
        device.body["device_code"],
        *(body[name] for body in (first, second) for name in ("access_token", "refresh_token")),
    }
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert not [secret for secret in secrets if secret.encode() in written]


async def test_a_sealed_successor_that_stands_in_another_row_gives_nothing(issuer):
    one, two = await issuer.signed_in(), await issuer.signed_in()
    await issuer.refresh(one["refresh_token"])
    sealed = _column(issuer, "SELECT successor FROM refresh_tokens WHERE successor <> ''")
    await issuer.refresh(two["refresh_token"])
    _change(issuer, "UPDATE refresh_tokens SET successor = ? WHERE successor <> ''", sealed[0])
    status, body = await issuer.refresh(two["refresh_token"])
    assert (status, body["error"]) == (503, "temporarily_unavailable")
    assert (await issuer.refresh(one["refresh_token"]))[0] == 200


async def _left_behind(issuer: Issuer) -> Mapping[str, Any]:
    """Bring a token that two others came after, hours later; return the last tokens."""
    first = await issuer.signed_in()
    _, second = await issuer.refresh(first["refresh_token"])
    issuer.clock.now += 12 * HOUR
    _, third = await issuer.refresh(second["refresh_token"])
    issuer.clock.now += 300
    assert await issuer.refresh(first["refresh_token"]) == (400, INVALID)
    return third


async def _begun(issuer: Issuer, **proof: str) -> str:
    """Return the refresh token of a new family of a client with whichever redirect URIs."""
    client = issuer.stores.clients.find(APP.id)
    assert client is not None
    text, uri = issuer.code(), client.redirect_uris[0]
    _change(issuer, "UPDATE codes SET redirect_uri = ?", uri)
    status, body = await issuer.redeem(text, redirect_uri=uri, **proof)
    assert status == 200, body
    return str(body["refresh_token"])


def _proof(after_s: float) -> dict[str, str]:
    """Return how a client with a key proves itself so long after the beginning."""
    claims = {
        "iss": APP.id,
        "sub": APP.id,
        "aud": PUBLIC_URL,
        "jti": f"proof-{after_s}",
        "iat": int(NOW + after_s),
        "exp": int(NOW + after_s) + 60,
    }
    return {
        "client_id": "",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": signed(claims),
    }


def _column(issuer: Issuer, statement: str) -> list[Any]:
    return [
        text
        for (text,) in issuer.stores.database.read(
            lambda connection: connection.execute(statement).fetchall()
        )
    ]


def _change(issuer: Issuer, statement: str, text: str) -> None:
    def job(connection: Statements) -> None:
        connection.execute(statement, (text,))

    issuer.stores.database.write(job)
