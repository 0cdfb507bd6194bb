"""For whose calls an answer may stand: those who can make some."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.domain.identity import Client, ClientKind
from gateway.oauth.present import Present
from gateway.storage.identity.store import IdentityStores
from gateway.wiring.standing import absent, barred
from tests.storage.identity.identities import NOW, Hand, grant, user
from tests.storage.identity.test_identity_standing import answer

DOCUMENT = Client(
    id="https://agent.example/client.json",
    name="Agent",
    kind=ClientKind.DOCUMENT,
    created_at=NOW,
    created_by="https://agent.example/client.json",
)


def disabled(stores: IdentityStores) -> None:
    stores.users.change("u_1", disabled=True, at=NOW)


def removed(stores: IdentityStores) -> None:
    stores.users.remove("u_1", at=NOW)


def revoked(stores: IdentityStores) -> None:
    stores.grants.revoke_grant("g_1", "revoked", at=NOW)


def without_client(stores: IdentityStores) -> None:
    stores.clients.remove("c_1")


def disabled_for_a_moment(stores: IdentityStores) -> None:
    stores.users.change("u_1", disabled=True, at=NOW + 1)
    stores.users.change("u_1", disabled=False, at=NOW + 1)


def another_document(stores: IdentityStores) -> None:
    stores.clients.remove("c_1")
    stores.clients.add(replace(DOCUMENT, id="c_1"))
    stores.clients.refresh(replace(DOCUMENT, id="c_1", created_at=NOW + 1))


def granted_anew(stores: IdentityStores) -> None:
    revoked(stores)
    stores.grants.begin_family(grant("g_2", user_id="u_1", client_id="c_1"), None)


@pytest.mark.parametrize(
    ("happened", "why"),
    [
        (lambda _: None, ""),
        (disabled, "the person was disabled"),
        (removed, "the person was removed"),
        (without_client, "the client was removed"),
        (revoked, "what the person granted the client was revoked"),
        (granted_anew, ""),
        (disabled_for_a_moment, "the person was disabled"),
        (another_document, "the client is another one by now"),
    ],
    ids=[
        "nothing",
        "disabled",
        "removed",
        "no client",
        "revoked",
        "granted anew",
        "for a moment",
        "document",
    ],
)
async def test_it_stands_for_those_who_may_call(
    tmp_path: Path, happened: Callable[[IdentityStores], None], why: str
) -> None:
    stores = IdentityStores.open(tmp_path, clock=Hand())
    try:
        stores.users.add(user("emma", id="u_1"))
        stores.clients.add(Client(id="c_1", name="Agent", created_at=NOW, created_by="root"))
        stores.grants.begin_family(grant("g_1", user_id="u_1", client_id="c_1"), None)
        present = Present(users=stores.users, clients=stores.clients, planes=dict, elsewhere=False)
        happened(stores)
        of_itself = answer(user_id="", client_name="c_1")
        assert await barred(stores.grants, present, answer(), NOW) == why
        if happened not in (revoked, granted_anew):  # which the database has ended it by
            assert absent(present, answer(), NOW) == why
        assert await barred(stores.grants, present, of_itself, NOW) == ""
    finally:
        stores.close()
