"""Codes, refresh tokens and devices: used once, in time, and never after their grant was revoked."""

from dataclasses import replace

import pytest
from sqlite_utils import Database

from gateway.domain.grants import DeviceStatus
from gateway.storage.identity import schema
from gateway.storage.identity.expiry import GRANT_KEPT_S
from tests.storage.identity.identities import NOW, code, device, grant, session, token, user


def test_a_code_and_its_grant_are_found_whole(stores, elsewhere):
    stores.grants.issue_code(grant(), code())
    assert elsewhere.grants.code("code") == code()
    assert elsewhere.grants.grant("g") == grant()
    assert elsewhere.grants.code("CODE") is None
    assert elsewhere.grants.grant("G") is None


def test_a_code_is_used_once_and_begins_its_familys_chain(stores, elsewhere):
    stores.grants.issue_code(grant(), code())
    assert elsewhere.grants.redeem_code("code", token("t1"), at=NOW + 1)
    assert not stores.grants.redeem_code("code", token("t2"), at=NOW + 1)
    assert stores.grants.code("code") == code(used_at=NOW + 1)
    assert stores.grants.refresh_token("t1") == token("t1")
    assert stores.grants.refresh_token("t2") is None


def test_a_code_that_brings_no_refresh_token_is_used_up_all_the_same(stores):
    stores.grants.issue_code(grant(), code())
    assert stores.grants.redeem_code("code", None, at=NOW)
    assert not stores.grants.redeem_code("code", None, at=NOW)


@pytest.mark.parametrize(
    ("issued", "at"),
    [
        ((grant(), code()), NOW + 60),
        ((grant(expires_at=NOW + 10), code()), NOW + 10),
    ],
    ids=["the code has expired", "the grant has expired"],
)
def test_a_code_is_worth_nothing_after_its_time(stores, issued, at):
    stores.grants.issue_code(*issued)
    assert not stores.grants.redeem_code("code", token(), at=at)
    assert stores.grants.refresh_token("t1") is None
    assert stores.grants.redeem_code("code", token(), at=at - 1)


def test_a_code_of_a_revoked_grant_is_worth_nothing(stores, elsewhere):
    stores.grants.issue_code(grant(), code())
    elsewhere.grants.revoke_grant("g", "test", at=NOW)
    assert not stores.grants.redeem_code("code", token(), at=NOW)
    assert stores.grants.refresh_token("t1") is None


def test_an_unknown_code_or_token_is_worth_nothing(stores):
    assert not stores.grants.redeem_code("code", None, at=NOW)
    assert not stores.grants.rotate("t1", token("t2"), sealed="", at=NOW)
    assert not stores.grants.redeem_device("d", None, at=NOW)


def test_a_refresh_token_is_used_once_and_keeps_its_successor_sealed(stores, elsewhere):
    stores.grants.begin_family(grant(), token("t1"))
    second = token("t2", parent_hash="t1", issued_at=NOW + 1)
    assert elsewhere.grants.rotate("t1", second, sealed="sealed", at=NOW + 1)
    assert not stores.grants.rotate("t1", token("t3"), sealed="other", at=NOW + 2)
    assert stores.grants.refresh_token("t1") == token("t1", used_at=NOW + 1, successor="sealed")
    assert stores.grants.refresh_token("t2") == second
    assert stores.grants.refresh_token("t3") is None


@pytest.mark.parametrize(
    ("begun", "at"),
    [
        ((grant(), token()), NOW + 500),
        ((grant(expires_at=NOW + 10), token()), NOW + 10),
    ],
    ids=["the token has expired", "the grant has expired"],
)
def test_a_refresh_token_is_worth_nothing_after_its_time(stores, begun, at):
    stores.grants.begin_family(*begun)
    assert not stores.grants.rotate("t1", token("t2"), sealed="", at=at)
    assert stores.grants.rotate("t1", token("t2"), sealed="", at=at - 1)


def test_a_refresh_token_of_a_revoked_grant_is_worth_nothing(stores, elsewhere):
    stores.grants.begin_family(grant(), token())
    elsewhere.grants.revoke_grant("g", "test", at=NOW)
    assert not stores.grants.rotate("t1", token("t2"), sealed="", at=NOW)
    assert stores.grants.refresh_token("t2") is None


def test_a_token_waits_longer_only_while_it_is_unused_and_its_grant_lives(stores, elsewhere):
    stores.grants.begin_family(grant("g1"), token("t1", of="g1"))
    stores.grants.begin_family(grant("g2"), token("t2", of="g2"))
    assert elsewhere.grants.prolong("t1", until=NOW + 900, at=NOW + 499)
    assert stores.grants.refresh_token("t1").expires_at == NOW + 900
    assert not stores.grants.prolong("t1", until=NOW + 2000, at=NOW + 900)
    assert stores.grants.rotate("t1", token("t3", of="g1"), sealed="", at=NOW)
    assert not stores.grants.prolong("t1", until=NOW + 2000, at=NOW)
    stores.grants.revoke_grant("g2", "test", at=NOW)
    assert not stores.grants.prolong("t2", until=NOW + 2000, at=NOW)


def test_the_tokens_of_a_family_that_is_older_than_their_count_are_counted(tmp_path):
    database = Database(tmp_path / "older.db")
    schema.m001_identity(database)
    database.execute("INSERT INTO grants VALUES ('g', 'u', 'c', '/mcp', '[]', 0, 9, NULL, '')")
    for row in (("c", 2, None), ("a", 1, 1), ("b", 1, 2)):
        database.execute("INSERT INTO refresh_tokens VALUES (?, 'g', 'c', NULL, ?, 9, ?, '')", row)
    schema.m003_reuse(database)
    found = database.execute("SELECT token_hash FROM refresh_tokens ORDER BY generation")
    assert [name for (name,) in found.fetchall()] == ["a", "b", "c"]
    database.close()


def test_what_a_code_and_a_token_are_bound_to_is_kept(stores, elsewhere):
    bound = replace(code(), bound_to="a key")
    stores.grants.issue_code(grant(), bound)
    assert elsewhere.grants.code("code") == bound
    held = replace(token("t1"), bound_to="another key")
    stores.grants.begin_family(grant("g2"), replace(held, grant_id="g2"))
    assert elsewhere.grants.refresh_token("t1").bound_to == "another key"


def test_what_is_older_than_keys_is_bound_to_none(tmp_path):
    database = Database(tmp_path / "older.db")
    schema.m001_identity(database)
    database.execute("INSERT INTO grants VALUES ('g', 'u', 'c', '/mcp', '[]', 0, 9, NULL, '')")
    database.execute("INSERT INTO codes VALUES ('h', 'g', 'c', 'u', 'x', 9, NULL)")
    schema.m003_reuse(database)
    schema.m004_bound(database)
    assert database.execute("SELECT bound_to FROM codes").fetchall() == [("",)]
    database.close()


def test_what_of_a_token_was_lost_is_kept(stores, elsewhere):
    stores.grants.begin_family(grant("g1"), token("t1", of="g1"))
    assert elsewhere.grants.refresh_token("t1").lost_at is None
    stores.grants.note_lost("t1", at=NOW + 1)
    assert elsewhere.grants.refresh_token("t1").lost_at == NOW + 1


def test_nothing_is_used_up_if_what_follows_cannot_be_stored(stores):
    stores.grants.issue_code(grant(), code())
    stores.grants.begin_family(grant("g2"), token("t1", of="g2"))
    with pytest.raises(Exception, match="not available"):
        stores.grants.redeem_code("code", token("t1"), at=NOW)
    with pytest.raises(Exception, match="not available"):
        stores.grants.rotate("t1", token("t1"), sealed="", at=NOW)
    assert stores.grants.redeem_code("code", token("t2"), at=NOW)
    assert stores.grants.rotate("t1", token("t3", of="g2"), sealed="", at=NOW)


def test_what_was_granted_is_withdrawn_once_all_of_it_was_revoked(stores):
    def withdrawn():
        return stores.grants.withdrawn("u_1", "c_1")

    assert not withdrawn()
    for name in ("g_1", "g_2"):
        stores.grants.begin_family(grant(name, user_id="u_1", client_id="c_1"), None)
    stores.grants.revoke_grant("g_1", "revoked", at=NOW)
    assert not withdrawn()
    stores.grants.revoke_grant("g_2", "revoked", at=NOW)
    assert withdrawn()
    assert not stores.grants.withdrawn("u_1", "c_2")
    assert not stores.grants.withdrawn("u_2", "c_1")


def test_a_family_is_revoked_once(stores, elsewhere):
    stores.grants.begin_family(grant(), None)
    assert not stores.grants.is_revoked("g", "token")
    assert elsewhere.grants.revoke_grant("g", "code replayed", at=NOW + 1)
    assert not stores.grants.revoke_grant("g", "again", at=NOW + 2)
    assert stores.grants.grant("g") == grant(revoked_at=NOW + 1, reason="code replayed")
    assert elsewhere.grants.is_revoked("g", "token")
    assert not stores.grants.revoke_grant("other", "unknown", at=NOW)


def test_one_token_is_revoked_alone(stores, elsewhere):
    stores.grants.revoke_token("j1", until=NOW + 60)
    stores.grants.revoke_token("j1", until=NOW + 30)
    elsewhere.follow()
    for each in (stores, elsewhere):
        assert each.grants.is_revoked("", "j1")
        assert not each.grants.is_revoked("", "j2")
        assert not each.grants.is_revoked("j1", "")
    stores.grants.forget_expired(now=NOW + 59)
    assert stores.grants.is_revoked("", "j1")
    stores.grants.forget_expired(now=NOW + 60)
    assert not stores.grants.is_revoked("", "j1")


def test_live_grants_are_listed_newest_first_by_person_and_client(stores, clock):
    made = [
        grant("g1"),
        grant("g2", created_at=NOW + 1, client_id="c_2"),
        grant("g3", user_id="u_ada", created_at=NOW + 2),
        grant("g4", expires_at=NOW + 5),
    ]
    for each in made:
        stores.grants.begin_family(each, None)
    stores.grants.begin_family(grant("g5"), None)
    stores.grants.revoke_grant("g5", "test", at=NOW)
    clock.now = NOW + 5
    assert stores.grants.grants() == [made[2], made[1], made[0]]
    assert stores.grants.grants(user_id="u_emma") == [made[1], made[0]]
    assert stores.grants.grants(client_id="c_1") == [made[2], made[0]]
    assert stores.grants.grants(user_id="u_emma", client_id="c_1") == [made[0]]


def test_an_assertion_is_used_once_by_issuer(stores, elsewhere):
    assert stores.grants.first_use("https://a.test", "j", until=NOW + 60)
    assert not elsewhere.grants.first_use("https://a.test", "j", until=NOW + 99)
    assert elsewhere.grants.first_use("https://b.test", "j", until=NOW + 60)
    stores.grants.forget_expired(now=NOW + 60)
    assert stores.grants.first_use("https://a.test", "j", until=NOW + 120)


def test_a_device_waits_until_its_time(stores, elsewhere):
    stores.grants.add_device(device())
    assert elsewhere.grants.device("d") == device()
    assert elsewhere.grants.device_of("CODEd", now=NOW + 599) == device()
    assert elsewhere.grants.device_of("CODEd", now=NOW + 600) is None
    assert elsewhere.grants.device_of("coded", now=NOW) is None
    assert elsewhere.grants.device("D") is None


def test_a_user_code_is_one_devices(stores):
    stores.grants.add_device(device())
    with pytest.raises(ValueError, match="another device"):
        stores.grants.add_device(device("d2", user_code="CODEd"))
    assert stores.grants.device("d2") is None


def test_when_a_device_asked_is_noted(stores):
    stores.grants.add_device(device())
    stores.grants.poll_device("d", at=NOW + 3, interval_s=10)
    assert stores.grants.device("d") == device(polled_at=NOW + 3, interval_s=10)


def test_an_approved_device_is_answered_once_and_redeemed_once(stores, elsewhere):
    stores.grants.add_device(device())
    assert elsewhere.grants.answer_device("d", DeviceStatus.APPROVED, grant(), now=NOW)
    assert not stores.grants.answer_device("d", DeviceStatus.DENIED, None, now=NOW)
    assert stores.grants.device_of("CODEd", now=NOW) is None
    assert stores.grants.device("d") == device(status=DeviceStatus.APPROVED, grant_id="g")
    assert stores.grants.grant("g") == grant()
    assert elsewhere.grants.redeem_device("d", token(), at=NOW)
    assert not stores.grants.redeem_device("d", token("t2"), at=NOW)
    assert stores.grants.device("d") == device(status=DeviceStatus.REDEEMED, grant_id="g")
    assert stores.grants.refresh_token("t1") == token()


def test_a_denied_or_pending_device_gets_nothing(stores):
    stores.grants.add_device(device())
    assert not stores.grants.redeem_device("d", token(), at=NOW)
    assert stores.grants.answer_device("d", DeviceStatus.DENIED, None, now=NOW)
    assert not stores.grants.answer_device("d", DeviceStatus.APPROVED, grant(), now=NOW)
    assert not stores.grants.redeem_device("d", token(), at=NOW)
    assert stores.grants.grant("g") is None


def test_an_answer_or_a_redemption_after_its_time_is_none(stores):
    stores.grants.add_device(device())
    assert not stores.grants.answer_device("d", DeviceStatus.APPROVED, grant(), now=NOW + 600)
    assert stores.grants.grant("g") is None
    assert stores.grants.answer_device("d", DeviceStatus.APPROVED, grant(), now=NOW)
    assert not stores.grants.redeem_device("d", None, at=NOW + 600)
    stores.grants.revoke_grant("g", "test", at=NOW)
    assert not stores.grants.redeem_device("d", None, at=NOW)


@pytest.mark.parametrize(
    ("status", "given"),
    [(DeviceStatus.APPROVED, None), (DeviceStatus.DENIED, grant())],
)
def test_only_an_approval_has_a_grant(stores, status, given):
    stores.grants.add_device(device())
    with pytest.raises(ValueError, match="an approval, and nothing else"):
        stores.grants.answer_device("d", status, given, now=NOW)
    assert stores.grants.device("d") == device()


def test_what_is_past_its_time_is_forgotten_and_nothing_else(stores):
    stores.users.add(user(), link_hash="link", link_until=NOW + 60)
    stores.browsers.open_session(session(expires_at=NOW + 60))
    stores.grants.issue_code(grant("used"), code("used", of="used"))
    stores.grants.redeem_code("used", token("short", of="used", expires_at=NOW + 60), at=NOW)
    stores.grants.rotate("short", token("long", of="used"), sealed="", at=NOW)
    stores.grants.issue_code(grant("unused"), code("unused", of="unused"))
    stores.grants.add_device(device(expires_at=NOW + 60))
    assert stores.grants.forget_expired(now=NOW + 59) == 0
    # The codes, the token, the device, the link, the session, and the grant of the unused code;
    # its code went with it.
    assert stores.grants.forget_expired(now=NOW + 60) == 6
    assert stores.grants.code("used") is stores.grants.code("unused") is None
    assert stores.grants.grant("used") == grant("used")
    assert stores.grants.grant("unused") is None
    assert stores.grants.refresh_token("short") is None
    assert stores.grants.refresh_token("long") == token("long", of="used")
    assert stores.grants.device("d") is None
    assert stores.browsers.session("s", now=NOW) is None
    assert stores.users.link("link", now=NOW) is None
    assert stores.users.find("u_emma") == user()


def test_the_grant_of_a_device_that_never_came_back_is_forgotten(stores):
    for name in ("redeemed", "lost"):
        stores.grants.add_device(device(name))
        stores.grants.answer_device(name, DeviceStatus.APPROVED, grant(name), now=NOW)
    stores.grants.redeem_device("redeemed", None, at=NOW)
    stores.grants.forget_expired(now=NOW + 600)
    assert stores.grants.grant("lost") is None
    assert stores.grants.grant("redeemed") == grant("redeemed")


def test_a_revocation_outlasts_every_token_of_its_family(stores, elsewhere):
    stores.grants.begin_family(grant(), None)
    stores.grants.revoke_grant("g", "test", at=NOW)
    stores.grants.forget_expired(now=NOW + 1000 + 86_399)
    elsewhere.follow()
    assert stores.grants.is_revoked("g", "")
    assert elsewhere.grants.is_revoked("g", "")
    stores.grants.forget_expired(now=NOW + 1000 + 86_400)
    assert not stores.grants.is_revoked("g", "")
    assert stores.grants.grant("g") is None


def test_memory_holds_a_revocation_no_longer_than_a_token_of_it_may_be_valid(stores):
    stores.grants.begin_family(replace(grant(), expires_at=NOW + 10**7), None)
    stores.grants.revoke_grant("g", "test", at=NOW)
    stores.grants.forget_expired(now=NOW + 2 * GRANT_KEPT_S - 1)
    assert stores.grants.is_revoked("g", "")
    stores.grants.forget_expired(now=NOW + 2 * GRANT_KEPT_S)
    assert not stores.grants.is_revoked("g", "")
    assert stores.grants.grant("g").revoked_at == NOW


def test_a_chain_goes_with_its_grant(stores):
    stores.grants.begin_family(grant(), replace(token(), expires_at=NOW + 10**9))
    stores.grants.forget_expired(now=NOW + 10**6)
    assert stores.grants.refresh_token("t1") is None
