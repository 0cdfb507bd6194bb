"""Sessions, sign-ins under way and consents: in time, once, and of the right browser."""

from dataclasses import replace

import pytest

from tests.storage.identity.identities import (
    NOW,
    REQUEST,
    consent,
    grant,
    session,
    transaction,
    user,
)


@pytest.fixture(autouse=True)
def _people(stores):
    stores.users.add(user())
    stores.users.add(user("ada"))


@pytest.mark.parametrize(
    "made",
    [
        transaction(),
        transaction(request=None, purpose="connect", detail="mail", secrets="sealed"),
        transaction(request=replace(REQUEST, state=None), provider="idp"),
    ],
)
def test_a_sign_in_under_way_is_found_whole_until_its_time(stores, elsewhere, made):
    stores.browsers.begin(made)
    assert elsewhere.browsers.transaction("x", now=NOW + 599) == made
    assert elsewhere.browsers.transaction("x", now=NOW + 600) is None
    assert elsewhere.browsers.transaction("y", now=NOW) is None


def test_what_changed_of_a_sign_in_is_stored_but_neither_its_browser_nor_its_end(stores):
    stores.browsers.begin(transaction())
    changed = transaction(
        request=None, detail="d", user_id="u_emma", provider="idp", secrets="sealed"
    )
    assert stores.browsers.update(replace(changed, purpose="account", expires_at=NOW + 9999))
    assert stores.browsers.transaction("x", now=NOW) == changed
    assert not stores.browsers.update(replace(changed, browser_hash="another", user_id="u_ada"))
    assert not stores.browsers.update(replace(changed, id="y"))
    assert stores.browsers.transaction("x", now=NOW) == changed


def test_a_sign_in_is_finished_once_and_never_changes_after(stores, elsewhere):
    stores.browsers.begin(transaction())
    assert elsewhere.browsers.finish("x", now=NOW)
    assert not stores.browsers.finish("x", now=NOW)
    assert not stores.browsers.update(transaction(user_id="u_ada"))
    assert stores.browsers.transaction("x", now=NOW) is None


def test_a_sign_in_is_not_finished_after_its_time(stores):
    stores.browsers.begin(transaction())
    assert not stores.browsers.finish("x", now=NOW + 600)


def test_a_session_is_found_whole_until_its_time(stores, elsewhere, clock):
    stores.browsers.open_session(session())
    assert elsewhere.browsers.session("s", now=NOW + 99) == session()
    assert elsewhere.browsers.session("s", now=NOW + 100) is None
    assert elsewhere.browsers.session("S", now=NOW) is None
    assert stores.browsers.sessions() == [session()]
    clock.now = NOW + 100
    assert stores.browsers.sessions() == []


def test_sessions_are_listed_and_ended_by_person(stores):
    newest = session("s3", created_at=NOW + 1)
    for made in (session("s1"), session("s2", of="u_ada"), newest):
        stores.browsers.open_session(made)
    assert stores.browsers.sessions("u_emma") == [newest, session("s1")]
    assert len(stores.browsers.sessions()) == 3
    assert stores.browsers.end_session("s2")
    assert not stores.browsers.end_session("s2")
    assert stores.browsers.end_sessions("u_emma") == 2
    assert stores.browsers.sessions() == []


def test_a_person_has_their_newest_sessions_and_no_others(stores, elsewhere):
    stores.browsers.open_session(session("other", of="u_ada"))
    for number in range(53):
        stores.browsers.open_session(session(f"s{number}", created_at=NOW + number % 52))
    kept = [made.id_hash for made in elsewhere.browsers.sessions("u_emma")]
    assert len(kept) == 50
    assert {"s0", "s1", "s2"}.isdisjoint(kept)
    assert "s52" in kept
    assert elsewhere.browsers.session("s1", now=NOW) is None
    assert len(stores.browsers.sessions("u_ada")) == 1


def test_a_consent_is_remembered_for_its_four_and_its_scopes_are_replaced(stores):
    stores.browsers.consent(consent())
    wider = consent(scopes=frozenset({"tools:list", "tools:call"}), given_at=NOW + 1)
    stores.browsers.consent(wider)
    others = [
        consent("c_2"),
        consent(of="u_ada"),
        consent(endpoint="/mcp/web"),
        consent(redirect_uri="https://app.test/other"),
    ]
    for other in others:
        stores.browsers.consent(other)
    assert stores.browsers.consents()[0] == wider
    assert set(stores.browsers.consents()) == {wider, *others}
    assert len(stores.browsers.consents()) == 5
    assert stores.browsers.consents("u_ada") == [others[1]]


def test_nobody_has_no_session_and_no_consent(stores):
    with pytest.raises(LookupError, match="no such person"):
        stores.browsers.open_session(session(of="u_nobody"))
    with pytest.raises(LookupError, match="no such person"):
        stores.browsers.consent(consent(of="u_nobody"))


def test_withdrawing_forgets_the_consents_and_revokes_the_grants_of_those_two(stores, elsewhere):
    for made in (consent(), consent(endpoint="/mcp/web"), consent("c_2"), consent(of="u_ada")):
        stores.browsers.consent(made)
    stores.grants.begin_family(grant("g1"), None)
    stores.grants.begin_family(grant("g2", client_id="c_2"), None)
    stores.grants.begin_family(grant("g3", user_id="u_ada"), None)
    assert stores.browsers.withdraw("u_emma", "c_1", at=NOW + 1) == 3
    assert stores.browsers.withdraw("u_emma", "c_1", at=NOW + 2) == 0
    elsewhere.follow()
    for each in (stores, elsewhere):
        assert [each.grants.is_revoked(name, "") for name in ("g1", "g2", "g3")] == [
            True,
            False,
            False,
        ]
    assert stores.grants.grant("g1") == grant("g1", revoked_at=NOW + 1, reason="withdrawn")
    assert len(stores.browsers.consents()) == 2
