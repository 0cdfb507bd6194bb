"""How often rights of anybody have ended: what counts, what does not, and when memory may say so."""

from dataclasses import replace

import pytest

from gateway.domain.identity import ClientKind
from tests.storage.identity.identities import NOW, grant, user
from tests.storage.suite import client, everything

ENDS = {
    "a grant is revoked": lambda of: of.grants.revoke_grant("g", "test", at=NOW),
    "a token is revoked": lambda of: of.grants.revoke_token("j", until=NOW + 60),
    "a person is removed": lambda of: of.users.remove("u_emma", at=NOW),
    "a person is disabled": lambda of: of.users.change("u_emma", disabled=True, at=NOW),
    "a person is in other groups": lambda of: of.users.change(
        "u_emma", groups=frozenset({"other"}), at=NOW
    ),
    "a person is known now": lambda of: of.users.add(user("ada")),
    "a client is removed": lambda of: of.clients.remove("c_1"),
    "a client is registered": lambda of: of.clients.add(client("c_2", name="another")),
}
STAYS = {
    "a grant begins": lambda of: of.grants.begin_family(grant("other"), None),
    "a client registers itself": lambda of: of.clients.add(everything("c_3")),
    "a person stays as they were": lambda of: of.users.change(
        "u_emma", groups=user().groups, at=NOW
    ),
}


@pytest.fixture(autouse=True)
def known(stores, elsewhere):
    stores.users.add(user())
    stores.clients.add(client())
    stores.grants.begin_family(grant(), None)
    elsewhere.follow()
    assert stores.people == elsewhere.people > 0


@pytest.mark.parametrize("what", ENDS)
def test_what_ends_rights_of_anybody_is_counted(stores, elsewhere, what):
    before = stores.people
    ENDS[what](stores)
    assert stores.people > before
    assert elsewhere.people == before
    elsewhere.follow()
    assert elsewhere.people == stores.people


@pytest.mark.parametrize("what", STAYS)
def test_what_ends_nothing_is_not_counted(stores, what):
    before = stores.people
    STAYS[what](stores)
    assert stores.people == before


def test_what_a_client_may_do_is_counted_where_it_changes(stores):
    document = everything("c_4", kind=ClientKind.DOCUMENT)
    stores.clients.add(document)
    before = stores.people
    stores.clients.refresh(replace(document, fresh_until=NOW + 60))
    assert stores.people == before
    stores.clients.refresh(replace(document, name="another"))
    assert stores.people > before


def test_memory_that_lacks_what_another_has_ended_does_not_count_it_with_its_own(stores, elsewhere):
    before = elsewhere.people
    stores.grants.revoke_grant("g", "test", at=NOW)
    elsewhere.grants.revoke_token("j", until=NOW + 60)
    assert not elsewhere.grants.is_revoked("g", "")
    assert elsewhere.people == before
    elsewhere.follow()
    assert elsewhere.grants.is_revoked("g", "")
    assert elsewhere.people > before
    stores.follow()
    assert stores.people == elsewhere.people
