"""People at rest: found by issuer and subject alone, and what ends when they do."""

from dataclasses import replace

import pytest

from tests.storage.identity.identities import (
    NOW,
    connection,
    consent,
    grant,
    session,
    transaction,
    user,
)

PASSWORD = "$argon2id$v=19$m=19456,t=2,p=1$salt$hash"


def test_a_person_is_found_whole(stores, elsewhere):
    emma = user(os_user="emma", disabled=True)
    stores.users.add(emma)
    elsewhere.follow()
    for each in (stores, elsewhere):
        assert each.users.find("u_emma") == emma
        assert each.users.by_subject(emma.issuer, emma.subject) == emma
        assert each.users.by_os_user("emma") == emma
        assert each.users.all() == [emma]


def test_nobody_is_found_by_what_is_not_theirs(stores):
    stores.users.add(user())
    assert stores.users.find("u_Emma") is None
    assert stores.users.by_subject("https://other.test", "emma") is None
    assert stores.users.by_subject("https://douane.test", "Emma") is None
    assert stores.users.by_os_user("") is None
    assert stores.users.by_os_user("root") is None


@pytest.mark.parametrize(
    "taken",
    [
        user("emma", id="u_2"),
        user("other", id="u_emma"),
        user("other", os_user="ada"),
    ],
    ids=["subject", "id", "operating system's user"],
)
def test_a_subject_and_an_operating_systems_user_are_taken_once(stores, taken):
    stores.users.add(user(os_user="ada"))
    with pytest.raises(ValueError, match="already"):
        stores.users.add(taken)
    assert stores.users.all() == [user(os_user="ada")]


def test_nobody_becomes_the_first_where_somebody_is(stores, elsewhere):
    stores.users.add(user(), first=True)
    with pytest.raises(ValueError, match="the first person already"):
        elsewhere.users.add(user("other", id="u_2"), first=True)
    elsewhere.follow()
    assert elsewhere.users.all() == [user()]


def test_the_same_subject_of_two_issuers_is_two_people(stores):
    other = user(id="u_2", issuer="https://idp.test")
    stores.users.add(user())
    assert stores.users.signed_in(other) == other
    assert stores.users.by_subject("https://idp.test", "emma") == other
    assert stores.users.by_subject("https://douane.test", "emma") == user()


def test_signing_in_again_brings_the_providers_word_of_today_and_nothing_else(stores):
    first = stores.users.signed_in(user(issuer="https://idp.test"))
    stores.users.change(first.id, os_user="emma", disabled=True, at=NOW)
    again = stores.users.signed_in(
        user(
            id="u_new",
            issuer="https://idp.test",
            name="Emma B.",
            groups=frozenset({"new"}),
            created_at=NOW + 9,
            created_by="idp",
        )
    )
    assert again == replace(
        first,
        name="Emma B.",
        groups=frozenset({"new"}),
        os_user="emma",
        disabled=True,
        disabled_at=NOW,
    )
    assert stores.users.find(first.id) is stores.users.by_subject("https://idp.test", "emma")
    assert stores.users.find(first.id) == again
    assert stores.users.find("u_new") is None


def test_what_is_given_changes_and_the_rest_stays(stores):
    stores.users.add(user(os_user="emma"))
    assert stores.users.change("u_emma", groups=frozenset(), at=NOW) == user(
        os_user="emma", groups=frozenset()
    )
    assert stores.users.change("u_emma", os_user="", at=NOW) == user(groups=frozenset())
    assert stores.users.find("u_emma") == user(groups=frozenset())


def test_an_operating_systems_user_that_is_somebody_elses_is_refused(stores):
    stores.users.add(user(os_user="root"))
    stores.users.add(user("ada"))
    with pytest.raises(ValueError, match="somebody else"):
        stores.users.change("u_ada", groups=frozenset(), os_user="root", at=NOW)
    assert stores.users.find("u_ada") == user("ada")


def settled(stores):
    """Emma and Ada, each with everything that a person can have here."""
    for name in ("emma", "ada"):
        stores.users.add(user(name), link_hash=f"link {name}", link_until=NOW + 10)
        stores.browsers.open_session(session(f"s_{name}", of=f"u_{name}"))
        stores.browsers.begin(transaction(f"x_{name}", user_id=f"u_{name}"))
        stores.browsers.consent(consent(of=f"u_{name}"))
        stores.grants.begin_family(grant(f"g_{name}", user_id=f"u_{name}"), None)
        stores.connections.connect(connection(of=f"u_{name}"))


def test_disabling_ends_sessions_sign_ins_and_grants_of_this_person(stores, elsewhere):
    settled(stores)
    gone = user(disabled=True, disabled_at=NOW + 1)
    assert stores.users.change("u_emma", disabled=True, at=NOW + 1) == gone
    elsewhere.follow()
    for each in (stores, elsewhere):
        assert each.grants.is_revoked("g_emma", "")
        assert not each.grants.is_revoked("g_ada", "")
    assert stores.grants.grant("g_emma") == grant(
        "g_emma", revoked_at=NOW + 1, reason="user disabled"
    )
    assert [found.id_hash for found in stores.browsers.sessions()] == ["s_ada"]
    assert stores.browsers.transaction("x_emma", now=NOW) is None
    assert stores.browsers.transaction("x_ada", now=NOW) is not None
    assert stores.users.link("link emma", now=NOW) is None
    assert stores.users.redeem_link("link emma", PASSWORD, now=NOW) is None
    assert len(stores.browsers.consents("u_emma")) == 1


def test_enabling_again_revives_no_grant_and_no_session(stores):
    settled(stores)
    stores.users.change("u_emma", disabled=True, at=NOW)
    there = user(disabled_at=NOW)  # which stays known
    assert stores.users.change("u_emma", disabled=False, at=NOW + 1) == there
    assert stores.grants.is_revoked("g_emma", "")
    assert stores.browsers.session("s_emma", now=NOW) is None


def test_a_session_of_somebody_disabled_is_none_even_if_it_was_opened_after(stores):
    stores.users.add(user(disabled=True))
    stores.browsers.open_session(session())
    assert stores.browsers.session("s", now=NOW) is None


def test_a_removed_person_is_gone_with_everything_but_the_evidence(stores, elsewhere):
    settled(stores)
    elsewhere.follow()
    assert stores.users.remove("u_emma", at=NOW + 1) == user()
    elsewhere.follow()
    for each in (stores, elsewhere):
        assert each.users.find("u_emma") is None
        assert each.users.by_subject("https://douane.test", "emma") is None
        assert each.grants.is_revoked("g_emma", "")
        assert not each.grants.is_revoked("g_ada", "")
    assert stores.grants.grant("g_emma") == grant(
        "g_emma", revoked_at=NOW + 1, reason="user removed"
    )
    assert [found.user_id for found in stores.browsers.sessions()] == ["u_ada"]
    assert [found.user_id for found in stores.browsers.consents()] == ["u_ada"]
    assert [found.user_id for found in stores.connections.connections()] == ["u_ada"]
    assert stores.browsers.transaction("x_emma", now=NOW) is None
    assert stores.users.link("link emma", now=NOW) is None
    assert stores.users.link("link ada", now=NOW) == user("ada")


def test_nobody_can_be_changed_or_removed_or_given_a_link(stores):
    with pytest.raises(LookupError, match="no such person"):
        stores.users.change("u_emma", disabled=True, at=NOW)
    with pytest.raises(LookupError, match="no such person"):
        stores.users.change("u_emma", at=NOW)
    with pytest.raises(LookupError, match="no such person"):
        stores.users.remove("u_emma", at=NOW)
    with pytest.raises(LookupError, match="no such person"):
        stores.users.add_link("u_emma", "link", until=NOW + 1)
    assert stores.users.password_of("u_emma") == ""


def test_a_link_sets_a_password_once(stores, elsewhere):
    stores.users.add(user(), link_hash="link", link_until=NOW + 10)
    assert stores.users.password_of("u_emma") == ""
    assert elsewhere.users.link("link", now=NOW) == user()
    assert elsewhere.users.redeem_link("link", PASSWORD, now=NOW) == user()
    assert stores.users.redeem_link("link", "another", now=NOW) is None
    assert stores.users.link("link", now=NOW) is None
    assert stores.users.password_of("u_emma") == PASSWORD


def test_a_link_is_good_until_its_time_and_for_nobody_elses_text(stores):
    stores.users.add(user(), link_hash="link", link_until=NOW + 10)
    assert stores.users.link("LINK", now=NOW) is None
    assert stores.users.link("link", now=NOW + 10) is None
    assert stores.users.redeem_link("link", PASSWORD, now=NOW + 10) is None
    assert stores.users.password_of("u_emma") == ""


def test_a_new_link_ends_the_one_before(stores):
    stores.users.add(user(), link_hash="first", link_until=NOW + 10)
    stores.users.add_link("u_emma", "second", until=NOW + 20)
    assert stores.users.redeem_link("first", PASSWORD, now=NOW) is None
    assert stores.users.redeem_link("second", PASSWORD, now=NOW) == user()


def test_a_new_password_ends_the_sessions_before(stores):
    settled(stores)
    stores.users.redeem_link("link emma", PASSWORD, now=NOW)
    assert [found.id_hash for found in stores.browsers.sessions()] == ["s_ada"]
    assert stores.browsers.transaction("x_emma", now=NOW) is None
    assert not stores.grants.is_revoked("g_emma", "")
