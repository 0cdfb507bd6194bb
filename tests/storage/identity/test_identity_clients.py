"""Clients at rest: whole, in memory only what is committed, and gone with what they were granted."""

import pytest

from gateway.domain.identity import ClientKind
from tests.storage.identity.identities import NOW, consent, grant, user
from tests.storage.suite import ClientStoreSuite, client, everything


class TestSqliteClientStore(ClientStoreSuite):
    def test_a_restart_remembers_clients(self, stores, elsewhere):
        stores.clients.add(client())
        stores.clients.add(everything("c_2"))
        elsewhere.follow()
        assert elsewhere.clients.all() == [client(), everything("c_2")]

    def test_what_another_process_has_taken_is_taken_here_at_once(self, stores, elsewhere):
        elsewhere.clients.add(client())
        assert stores.clients.find("c_1") is None
        with pytest.raises(ValueError, match="already"):
            stores.clients.add(client("c_2"))

    def test_what_another_process_has_added_can_be_removed_at_once(self, stores, elsewhere):
        elsewhere.clients.add(client())
        assert stores.clients.remove("c_1") == client()

    def test_a_removed_client_loses_grants_and_consents(self, stores, clock):
        clock.now = NOW + 5
        stores.users.add(user())
        stores.clients.add(client())
        stores.browsers.consent(consent("c_1"))
        stores.browsers.consent(consent("c_2"))
        stores.grants.begin_family(grant("g1"), None)
        stores.grants.begin_family(grant("g2", client_id="c_2"), None)
        stores.clients.remove("c_1")
        assert stores.grants.is_revoked("g1", "")
        assert stores.grants.grant("g1") == grant("g1", revoked_at=NOW + 5, reason="client removed")
        assert not stores.grants.is_revoked("g2", "")
        assert stores.browsers.consents() == [consent("c_2")]

    def test_removing_nobody_revokes_nothing(self, stores):
        stores.grants.begin_family(grant("g1"), None)
        assert stores.clients.remove("c_1") is None
        assert not stores.grants.is_revoked("g1", "")

    def test_a_client_that_somebody_lets_in_is_used(self, stores, clock):
        stores.users.add(user())
        for name in ("granted", "consented", "revoked", "expired", "never"):
            stores.clients.add(client(name, kind=ClientKind.DYNAMIC))
        for name in ("granted", "revoked", "expired"):
            stores.grants.begin_family(
                grant(name, client_id=name, expires_at=NOW + (1 if name == "expired" else 99)),
                None,
            )
        stores.browsers.consent(consent("consented"))
        stores.grants.revoke_grant("revoked", "test", at=NOW)
        clock.now = NOW + 1
        assert stores.clients.remove_unused(NOW + 1) == 3
        assert {found.id for found in stores.clients.all()} == {"granted", "consented"}
