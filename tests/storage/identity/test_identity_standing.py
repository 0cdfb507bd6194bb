"""Answers that stand, and everything that ends them in the same database."""

import asyncio
import os
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace

import pytest

from gateway.domain.approvals import ApprovalId
from gateway.domain.document import Digest
from gateway.domain.identity import Client, ClientKind
from gateway.domain.labels import Confidentiality
from gateway.domain.standing import StandingAnswer
from gateway.domain.tools import Kind, Target, UpstreamId
from gateway.errors import IdentityUnavailable, RateLimited, Unsealable
from gateway.storage.identity import standing
from gateway.storage.identity.database import DATABASE
from gateway.storage.identity.standing import StandingAnswerTable
from gateway.storage.kek import new_key
from gateway.vault import KeyEncryptionKey, Vault
from tests.storage.identity.identities import NOW, Hand, consent, grant, user
from tests.storage.memory_people import MemoryStandingAnswers

KEK = KeyEncryptionKey.parse(new_key(), named="kek.key")
WHERE = "#general of the secret team"


class Envelope:
    """Seals so that a test can tell what is sealed, for which row."""

    def seal(self, plain, row):
        return f"{row}|{plain[::-1].hex()}"

    def open(self, sealed, row):
        place, _, text = sealed.rpartition("|")
        if place != row:
            raise Unsealable("a secret at rest cannot be opened")
        return bytes.fromhex(text)[::-1]


def answer(name="a_1", **changes):
    made = StandingAnswer(
        id=ApprovalId(name),
        principal="https://us.example|emma|c_1",
        subject="emma",
        user_id="u_1",
        client_id="c_1",
        client_name="Agent",
        target=Target(server=UpstreamId("chat"), kind=Kind.TOOL, name="post"),
        pin_digest=Digest.of(b"pin"),
        confidentiality=Confidentiality.PRIVATE,
        places=frozenset({("$.channel", WHERE)}),
        by="user:ada",
        by_user_id="u_ada",
        note="fine",
        given_at=NOW,
        expires_at=NOW + 1000,
    )
    return replace(made, **changes)


def answers(stores):
    return StandingAnswerTable(stores.database, Envelope())


@pytest.fixture(params=["memory", "sqlite"])
def either(request, stores):
    return MemoryStandingAnswers() if request.param == "memory" else answers(stores)


async def test_what_is_given_stands_for_its_principal_alone(either):
    await either.give(answer())
    assert either.of(answer().principal) == (answer(),)
    assert either.of("https://us.example|emma|c_2") == ()
    assert (either.all(), either.get(ApprovalId("a_1"))) == ([answer()], answer())


async def test_what_is_ended_stands_no_more_and_is_told_once(either):
    await either.give(answer())
    assert await either.end(ApprovalId("a_1"), "because") is True
    assert await either.end(ApprovalId("a_1"), "again") is False
    assert (either.of(answer().principal), either.get(ApprovalId("a_1"))) == ((), None)
    assert await either.ended() == [(answer(), "because")]
    await either.forget([ApprovalId("a_1")])
    assert await either.ended() == []


async def test_the_same_answer_given_again_takes_the_place_of_the_first(either):
    await either.give(answer())
    await either.give(answer("a_2", given_at=NOW + 1))
    await either.give(answer("b", places=frozenset({("$.channel", "#other")})))
    assert [one.id for one in either.all()] == ["b", "a_2"]
    assert [why for _, why in await either.ended()] == [standing.RENEWED]


async def test_there_are_no_more_than_anybody_could_look_through(either, monkeypatch):
    monkeypatch.setattr(standing, "MOST_OF_ONE", 2)
    monkeypatch.setattr(standing, "MOST_OF_ALL", 3)
    places = [frozenset({("$.channel", str(number))}) for number in range(4)]
    await either.give(answer("a", places=places[0]))
    await either.give(answer("b", places=places[1]))
    with pytest.raises(RateLimited):
        await either.give(answer("c", places=places[2]))
    await either.give(answer("a again", places=places[0]))
    await either.give(answer("d", principal="another", places=places[0]))
    with pytest.raises(RateLimited):
        await either.give(answer("e", principal="a third", places=places[0]))
    assert len(either.all()) == 3


async def test_one_persons_clients_have_one_share_together(either, monkeypatch):
    monkeypatch.setattr(standing, "MOST_OF_ONE", 2)
    theirs = {"client_id": "c_2", "principal": "https://us.example|emma|c_2"}
    for name, changes in (("a", {}), ("b", theirs)):
        await either.give(answer(name, **changes))
    with pytest.raises(RateLimited):
        await either.give(answer("c", places=frozenset({("$.channel", "#other")}), **theirs))
    await either.give(answer("a again", **theirs))
    assert [one.id for one in either.all()] == ["a", "a again"]
    await either.give(answer("d", principal="https://us.example|ann|c_2", client_id="c_2"))


@pytest.mark.parametrize(("changed_at", "ends"), [(NOW, False), (NOW + 1, True)])
async def test_it_stands_no_more_for_a_client_whose_document_says_something_else(
    stores, changed_at, ends
):
    document = Client(
        id="c_1", name="Agent", kind=ClientKind.DOCUMENT, created_at=NOW, created_by="c_1"
    )
    stores.clients.add(document)
    table = answers(stores)
    await table.give(answer())
    await table.give(answer("b", client_id="c_2", principal="https://us.example|emma|c_2"))
    # What is fetched again and says the same was there all the time.
    stores.clients.refresh(replace(document, created_at=changed_at, fresh_until=NOW + 60))
    stands = [one.id for one in table.all()]
    assert stands == (["b"] if ends else ["a_1", "b"])
    assert [why for _, why in await table.ended()] == ["the client is another one by now"] * ends


async def test_a_restart_keeps_what_stands(stores, elsewhere):
    await answers(stores).give(answer())
    assert answers(elsewhere).all() == [answer()]


async def test_another_process_sees_what_was_given_and_ended(stores, elsewhere):
    mine, theirs = answers(stores), answers(elsewhere)
    await mine.give(answer())
    assert theirs.all() == []
    assert elsewhere.follow()
    assert theirs.all() == [answer()]
    await mine.end(ApprovalId("a_1"), "because")
    assert elsewhere.follow()
    assert theirs.all() == []


async def test_what_another_process_had_stand_is_counted(stores, elsewhere, monkeypatch):
    monkeypatch.setattr(standing, "MOST_OF_ALL", 1)
    mine = answers(stores)
    await answers(elsewhere).give(answer("a"))
    assert mine.all() == []
    with pytest.raises(RateLimited):
        await mine.give(answer("b", principal="another"))


def revoke_the_grant(stores):
    assert stores.grants.revoke_grant("g_1", "revoked", at=NOW)


def withdraw(stores):
    assert stores.browsers.withdraw("u_1", "c_1", at=NOW)


def remove_the_client(stores):
    stores.clients.remove("c_1")


def remove_the_person(stores):
    stores.users.remove("u_1", at=NOW)


def disable_the_person(stores):
    stores.users.change("u_1", disabled=True, at=NOW)


ENDS = [revoke_the_grant, withdraw, remove_the_client, remove_the_person, disable_the_person]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("elsewhere_too", [False, True])
async def test_revocation_ends_it_in_whichever_process(stores, elsewhere, end, elsewhere_too):
    stores.users.add(user("emma", id="u_1"))
    stores.clients.add(Client(id="c_1", name="Agent", created_at=NOW, created_by="root"))
    stores.grants.begin_family(grant("g_1", user_id="u_1", client_id="c_1"), None)
    mine = answers(stores)
    await mine.give(answer())
    await mine.give(answer("other client", client_id="c_2", principal="p2", user_id="u_2"))
    if elsewhere_too:
        elsewhere.follow()
        end(elsewhere)
        assert stores.follow()
    else:
        end(stores)
    assert [one.id for one in mine.all()] == ["other client"]
    assert [one.id for one, _ in await mine.ended()] == ["a_1"]
    assert [one.id for one in answers(stores).all()] == ["other client"]


@pytest.mark.parametrize("end", [remove_the_client, remove_the_person, disable_the_person])
async def test_the_end_of_either_ends_it_where_no_grant_is_ours(stores, end):
    stores.users.add(user("emma", id="u_1"))
    stores.clients.add(Client(id="c_1", name="Agent", created_at=NOW, created_by="root"))
    mine = answers(stores)
    await mine.give(answer())
    end(stores)
    assert mine.all() == []


@pytest.mark.parametrize("revoked", [False, True])
@pytest.mark.parametrize("consented", [False, True])
async def test_withdrawing_ends_it_where_no_grant_is_left(stores, consented, revoked):
    stores.users.add(user("emma", id="u_1"))
    if consented:
        stores.browsers.consent(consent("c_1", of="u_1"))
    if revoked:
        stores.grants.begin_family(grant("g_1", user_id="u_1", client_id="c_1"), None)
        revoke_the_grant(stores)
    mine = answers(stores)
    await mine.give(answer())
    await mine.give(answer("other client", client_id="c_2", principal="p2"))
    await mine.give(answer("other person", user_id="u_2", principal="p3"))
    withdraw(stores)
    assert {one.id for one in mine.all()} == {"other client", "other person"}
    assert await mine.ended() == [(answer(), "the consent was withdrawn")]


async def test_what_it_says_is_sealed_for_its_row(stores, elsewhere):
    mine = answers(stores)
    await mine.give(answer())
    await mine.give(answer("b", principal="another"))
    rows = elsewhere.database.read(lambda of: of.execute("SELECT * FROM standing_answers").rows)
    assert not [cell for row in rows for cell in row if WHERE in str(cell)]
    elsewhere.database.write(
        lambda to: to.execute(
            "UPDATE standing_answers SET sealed ="
            " (SELECT sealed FROM standing_answers WHERE id = 'b') WHERE id = 'a_1'"
        )
    )
    assert stores.follow()
    assert [one.id for one in mine.all()] == ["b"]


def test_an_answer_under_a_key_that_another_process_has_added_is_followed(stores, elsewhere):
    def unlocked(each):
        return Vault.unlock(each.data_keys, [KEK], random=os.urandom, clock=Hand())

    mine = StandingAnswerTable(stores.database, unlocked(stores))
    vault = unlocked(elsewhere)
    vault.add_data_key()
    asyncio.run(StandingAnswerTable(elsewhere.database, vault).give(answer()))
    following = threading.Thread(target=stores.follow, daemon=True)
    following.start()
    following.join(60)
    assert mine.all() == [answer()]


async def test_what_cannot_be_read_does_not_stand(filed, tmp_path):
    mine = answers(filed)
    await mine.give(answer())
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        connection.execute("DROP TABLE standing_answers")
        connection.commit()
    filed.follow()
    assert mine.all() == []
    with pytest.raises(IdentityUnavailable):
        await mine.give(answer())
