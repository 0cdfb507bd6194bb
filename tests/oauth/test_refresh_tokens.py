"""Refresh tokens: each used once; a second use ends the family, but for a moment's grace."""

import asyncio
import sqlite3
from dataclasses import replace

import pytest

from gateway.errors import Unauthenticated
from tests.oauth.issuing import ALICE, APP, Issuer
from tests.oauth.world import MAIL_URI, NOW, PUBLIC_URL

INVALID = {"error": "invalid_grant", "error_description": "the refresh token is not valid"}
DAY = 86400


@pytest.fixture
def strict(tmp_path):
    """An issuer without grace."""
    issuer = Issuer(tmp_path, grace_s=0)
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


async def test_after_the_grace_a_replay_ends_the_family(issuer):
    first = await issuer.signed_in()
    _, second = await issuer.refresh(first["refresh_token"])
    issuer.clock.now = NOW + 30.1
    assert await issuer.refresh(first["refresh_token"]) == (400, INVALID)
    assert (await issuer.refresh(second["refresh_token"]))[0] == 400
    assert issuer.families() == 0


async def test_once_the_successor_was_used_a_replay_ends_the_family_also_within_the_grace(issuer):
    first = await issuer.signed_in()
    _, second = await issuer.refresh(first["refresh_token"])
    _, third = await issuer.refresh(second["refresh_token"])
    assert await issuer.refresh(first["refresh_token"]) == (400, INVALID)
    assert (await issuer.refresh(third["refresh_token"]))[0] == 400
    assert issuer.families() == 0


async def test_of_many_at_once_within_the_grace_all_get_the_one_successor(issuer):
    first = await issuer.signed_in()
    answers = await asyncio.gather(*(issuer.refresh(first["refresh_token"]) for _ in range(8)))
    assert [status for status, _ in answers] == [200] * 8
    assert len({body["refresh_token"] for _, body in answers}) == 1


async def test_whoever_comes_a_moment_too_late_gets_what_the_other_got(issuer, monkeypatch):
    first = await issuer.signed_in()
    rotate, others = issuer.stores.grants.rotate, []

    def second(token_hash, successor, *, sealed, at):
        monkeypatch.undo()
        others.append(asyncio.run(issuer.refresh(first["refresh_token"])))
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
    elsewhere.stores.close()


async def test_of_many_at_once_without_grace_one_wins_and_then_nobody(strict):
    first = await strict.signed_in()
    answers = await asyncio.gather(*(strict.refresh(first["refresh_token"]) for _ in range(8)))
    assert sorted(status for status, _ in answers) == [200] + [400] * 7
    assert strict.families() == 0


async def test_another_clients_use_is_refused_and_changes_nothing(issuer):
    first = await issuer.signed_in()
    assert await issuer.refresh(first["refresh_token"], client_id="other") == (400, INVALID)
    assert issuer.record.fields["client"] == "other"
    _, second = await issuer.refresh(first["refresh_token"])
    issuer.clock.now = NOW + 60
    # Used, and by now beyond the grace: the right client would end the family.
    assert await issuer.refresh(first["refresh_token"], client_id="other") == (400, INVALID)
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


def _column(issuer: Issuer, statement: str) -> list[str]:
    return [
        text
        for (text,) in issuer.stores.database.read(
            lambda connection: connection.execute(statement).fetchall()
        )
    ]


def _change(issuer: Issuer, statement: str, text: str) -> None:
    def job(connection: sqlite3.Connection) -> None:
        connection.execute(statement, (text,))

    issuer.stores.database.write(job)
