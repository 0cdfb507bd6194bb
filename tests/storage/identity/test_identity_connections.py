"""Connections to upstream servers: one at a time refreshes, and over what it has read only."""

from dataclasses import replace

import pytest

from tests.storage.identity.identities import NOW, connection, user

SECOND = connection(
    version=2,
    sealed="sealed 2",
    scopes=("read",),
    expires_at=None,
    refreshed_at=NOW + 1,
)


@pytest.fixture(autouse=True)
def _people(stores):
    stores.users.add(user())
    stores.users.add(user("ada"))


def lease(stores, by, now=NOW, of="u_emma"):
    return stores.connections.lease(of, "mail", by=by, now=now, until=now + 30)


def test_a_connection_is_found_whole_by_person_and_server(stores, elsewhere):
    made = [connection("mail", "u_ada"), connection("mail"), connection("web")]
    for each in made:
        stores.connections.connect(each)
    assert elsewhere.connections.connection("u_emma", "web") == made[2]
    assert elsewhere.connections.connection("u_emma", "WEB") is None
    assert elsewhere.connections.connections("u_emma") == made[1:]
    assert elsewhere.connections.connections() == made


def test_nobody_can_be_connected(stores):
    with pytest.raises(LookupError, match="no such person"):
        stores.connections.connect(connection(of="u_nobody"))


def test_connecting_again_replaces_everything_under_a_version_of_its_own(stores):
    stores.connections.connect(connection())
    assert lease(stores, "p1")
    stores.connections.connect(
        connection(issuer="https://new.test", sealed="new", scopes=(), connected_at=NOW + 9)
    )
    assert stores.connections.connection("u_emma", "mail") == connection(
        issuer="https://new.test", sealed="new", scopes=(), connected_at=NOW + 9, version=2
    )
    assert lease(stores, "p2")


def test_a_connection_is_ended_once(stores):
    stores.connections.connect(connection())
    assert stores.connections.disconnect("u_emma", "mail")
    assert not stores.connections.disconnect("u_emma", "mail")
    assert stores.connections.connection("u_emma", "mail") is None
    assert not lease(stores, "p1")


def test_one_holder_at_a_time_may_refresh(stores, elsewhere):
    stores.connections.connect(connection())
    stores.connections.connect(connection(of="u_ada"))
    assert lease(elsewhere, "p1")
    assert not lease(stores, "p2")
    assert not lease(stores, "p1")
    assert lease(stores, "p2", of="u_ada")
    stores.connections.release("u_emma", "mail", by="p2")
    assert not lease(stores, "p2")
    stores.connections.release("u_emma", "mail", by="p1")
    assert lease(stores, "p2")


def test_a_lease_that_nobody_gave_back_ends(stores):
    stores.connections.connect(connection())
    assert lease(stores, "p1")
    assert not lease(stores, "p2", now=NOW + 29)
    assert lease(stores, "p2", now=NOW + 30)


def test_refreshed_tokens_are_stored_over_the_version_before_and_the_lease_ends(stores, elsewhere):
    stores.connections.connect(connection())
    assert lease(stores, "p1")
    assert stores.connections.replace(SECOND, by="p1")
    assert elsewhere.connections.connection("u_emma", "mail") == SECOND
    assert lease(elsewhere, "p2")


@pytest.mark.parametrize("version", [0, 1, 3])
def test_tokens_over_another_version_are_refused(stores, version):
    stores.connections.connect(connection())
    assert lease(stores, "p1")
    assert not stores.connections.replace(replace(SECOND, version=version), by="p1")
    assert stores.connections.connection("u_emma", "mail") == connection()


def test_tokens_of_who_has_no_lease_any_more_are_refused(stores):
    stores.connections.connect(connection())
    assert not stores.connections.replace(SECOND, by="p1")
    assert lease(stores, "p1")
    assert lease(stores, "p2", now=NOW + 30)
    assert not stores.connections.replace(SECOND, by="p1")
    assert stores.connections.replace(SECOND, by="p2")


def test_tokens_of_another_authorization_server_are_refused(stores):
    stores.connections.connect(connection())
    assert lease(stores, "p1")
    other = replace(SECOND, issuer="https://other.test")
    assert not stores.connections.replace(other, by="p1")


def test_a_refresh_that_began_before_a_new_connection_does_not_overwrite_it(stores):
    stores.connections.connect(connection())
    assert lease(stores, "p1")
    stores.connections.connect(connection(sealed="new"))
    assert lease(stores, "p1")
    assert not stores.connections.replace(SECOND, by="p1")
    found = stores.connections.connection("u_emma", "mail")
    assert found is not None
    assert found.sealed == "new"


def test_a_registration_is_the_issuers_that_gave_it(stores, elsewhere):
    assert stores.connections.registration("mail", "https://a.test") == ""
    stores.connections.register("mail", "https://a.test", "sealed a")
    stores.connections.register("mail", "https://a.test", "sealed a2")
    stores.connections.register("mail", "https://b.test", "sealed b")
    assert elsewhere.connections.registration("mail", "https://a.test") == "sealed a2"
    assert elsewhere.connections.registration("mail", "https://b.test") == "sealed b"
    assert elsewhere.connections.registration("web", "https://a.test") == ""
