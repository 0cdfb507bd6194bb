"""The bearer gate: valid now, for this endpoint, for a client and a person that are still there."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.grants import Grant
from gateway.domain.identity import BearerToken, Client, ClientKind, Principal
from gateway.errors import Unauthenticated
from gateway.oauth.builtin import COMMAND_LINE
from gateway.oauth.gate import TokenGate
from gateway.oauth.keys import KeyRing
from gateway.oauth.tokens import mint, verify
from gateway.storage.identity.store import IdentityStores
from tests.oauth.issuing import ALICE, APP
from tests.oauth.world import (
    KEYS,
    MAIL,
    NOW,
    PUBLIC_URL,
    RESOURCES,
    Hand,
    access_token,
    client,
    new_key,
)
from tests.storage.memory_calls import MemoryScriptStore

CLIENT = client(groups=frozenset({"staff"})).client
ADMIN = "/api/v1"


def bearer(of: Client = CLIENT, keys: KeyRing = KEYS, **changes: object) -> BearerToken:
    return BearerToken(text=mint(access_token(of, **changes), keys))


def of_alice(of: Client = APP, **changes: object) -> BearerToken:
    """Return a token that Alice granted to a client."""
    fields: dict[str, Any] = {
        "subject": ALICE.id,
        "grant_id": "grant-1",
        "groups": frozenset(),
        "scopes": frozenset({"tools:list", "tools:call"}),
    }
    return bearer(of, **{**fields, **changes})


class Door:
    """A gate with its stores and its clock at hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = Hand()
        self.stores = IdentityStores.open(folder, clock=self.clock)
        for known in (CLIENT, APP):
            self.stores.clients.add(known)
        self.stores.users.add(ALICE)
        self.scripts = MemoryScriptStore()
        self.gate = self.new_gate()

    def new_gate(self, *, most_tokens: int = 10_000) -> TokenGate:
        return TokenGate(
            resources=RESOURCES,
            keys=KEYS,
            clients=self.stores.clients,
            users=self.stores.users,
            is_revoked=self.stores.grants.is_revoked,
            scripts=self.scripts,
            clock=self.clock,
            epoch=self.stores.epoch,
            people=lambda: self.stores.people,
            most_tokens=most_tokens,
        )

    async def admit(self, credential: BearerToken | None, endpoint: str = MAIL) -> Principal:
        return await self.gate.authenticate(credential, endpoint)

    async def refuse(self, credential: BearerToken | None, why: str, endpoint: str = MAIL) -> None:
        """Refuse twice: a refusal is not forgotten, and nothing refused is remembered."""
        for _ in range(2):
            with pytest.raises(Unauthenticated, match=why):
                await self.admit(credential, endpoint)

    def replace_client(self, changed: Client) -> None:
        self.stores.clients.remove(CLIENT.id)
        self.stores.clients.add(changed)


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    door = Door(tmp_path)
    yield door
    door.stores.close()


@pytest.fixture
def verifications(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts whose signature was checked, one entry a check."""
    seen: list[str] = []

    def counted(text: str, **rest: object) -> object:
        seen.append(text)
        return verify(text, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr("gateway.oauth.gate.verify", counted)
    return seen


async def test_a_clients_own_token_gives_the_client(door):
    assert await door.admit(bearer()) == Principal(
        issuer=PUBLIC_URL,
        subject=CLIENT.id,
        client_id=CLIENT.id,
        client_name="agent 1",
        groups=frozenset({"staff"}),
        scopes=frozenset({"tools:list", "tools:call"}),
        token_id="token-1",
        expires_at=NOW + 900,
        people=0,
        user_id="",
        trusted_host=False,
    )


async def test_a_persons_token_gives_the_person_and_the_client_that_acts_for_them(door):
    assert await door.admit(of_alice()) == Principal(
        issuer=PUBLIC_URL,
        subject="alice",
        client_id="app",
        client_name="App",
        groups=frozenset({"security"}),
        scopes=frozenset({"tools:list", "tools:call"}),
        token_id="token-1",
        expires_at=NOW + 900,
        people=0,
        user_id="a11ce",
        trusted_host=False,
        program="App",
    )


async def test_only_what_registered_itself_for_a_person_is_known_by_its_name(door):
    assert (await door.admit(bearer())).program == ""
    assert (await door.admit(of_alice())).program == "App"


async def test_a_person_of_a_provider_is_told_by_the_providers_name_for_them(door):
    door.stores.users.add(replace(ALICE, id="b0b", issuer="https://idp.example", subject="00u1"))
    principal = await door.admit(of_alice(subject="b0b"))
    assert principal.recorded == "https://idp.example|00u1"
    assert (principal.issuer, principal.subject, principal.user_id) == (
        "https://idp.example",
        "00u1",
        "b0b",
    )


async def test_no_credential_is_refused(door):
    await door.refuse(None, "required")


async def test_a_second_call_is_answered_without_checking_the_signature_again(door, verifications):
    for token in (bearer(), of_alice(token_id="token-2")):
        first = await door.admit(token)
        assert await door.admit(token) is first
    assert len(verifications) == 2


async def test_s07_a_token_past_its_expiry_is_refused_although_it_was_just_admitted(door):
    token = bearer()
    await door.admit(token)
    door.clock.now = NOW + 899
    await door.admit(token)
    door.clock.now = NOW + 900
    await door.refuse(token, "expired")


async def test_a_token_of_the_future_is_refused_although_the_clock_was_there_before(door):
    token = bearer()
    await door.admit(token)
    door.clock.now = NOW - 60
    await door.admit(token)
    door.clock.now = NOW - 61
    await door.refuse(token, "not valid")
    door.clock.now = NOW
    await door.admit(token)


async def test_a_removed_clients_token_is_refused_at_once(door):
    for token, owner in ((bearer(), CLIENT), (of_alice(token_id="token-2"), APP)):
        await door.admit(token)
        door.stores.clients.remove(owner.id)
        await door.refuse(token, "removed|revoked")


async def test_a_token_of_a_client_that_never_was_is_refused(door):
    await door.refuse(bearer(client(seed=9).client), "removed")


async def test_a_revoked_family_is_refused_at_once_and_no_other(door):
    token, other = of_alice(), of_alice(grant_id="grant-2", token_id="token-2")
    door.stores.grants.begin_family(_grant("grant-1"), None)
    await door.admit(token)
    await door.admit(other)
    door.stores.grants.revoke_grant("grant-1", "test", at=NOW)
    await door.refuse(token, "revoked")
    await door.admit(other)


async def test_a_token_of_a_revoked_family_is_refused_although_nobody_has_seen_it(door):
    door.stores.grants.begin_family(_grant("grant-1"), None)
    door.stores.grants.revoke_grant("grant-1", "test", at=NOW)
    await door.refuse(of_alice(), "revoked")


async def test_one_revoked_token_is_refused_at_once(door):
    token = bearer()
    await door.admit(token)
    door.stores.grants.revoke_token("token-1", until=NOW + 900)
    await door.refuse(token, "revoked")
    await door.admit(bearer(token_id="token-2"))


async def test_what_another_process_revokes_is_refused_once_it_was_seen(tmp_path, door):
    token = bearer()
    await door.admit(token)
    elsewhere = IdentityStores.open(tmp_path, clock=door.clock)
    elsewhere.grants.revoke_token("token-1", until=NOW + 900)
    elsewhere.close()
    assert door.stores.follow()
    await door.refuse(token, "revoked")


async def test_a_disabled_persons_token_is_refused_at_once(door):
    token = of_alice()
    await door.admit(token)
    door.stores.users.change(ALICE.id, disabled=True, at=NOW)
    await door.refuse(token, "person")


async def test_a_removed_persons_token_is_refused_at_once(door):
    token = of_alice()
    await door.admit(token)
    door.stores.users.remove(ALICE.id, at=NOW)
    await door.refuse(token, "person")


async def test_groups_of_a_person_are_those_they_have_now(door, verifications):
    token = of_alice(groups=frozenset({"admins"}))
    assert (await door.admit(token)).groups == frozenset({"security"})
    door.stores.users.change(ALICE.id, groups=frozenset({"audit"}), at=NOW)
    assert (await door.admit(token)).groups == frozenset({"audit"})
    assert len(verifications) == 1


async def test_a_persons_name_in_a_token_that_nobody_granted_opens_nothing(door):
    await door.refuse(of_alice(grant_id=""), "nobody granted")
    await door.refuse(of_alice(subject=APP.id), "person")


async def test_o11_a_token_for_one_endpoint_opens_no_other_even_when_it_is_known(door):
    token = of_alice()
    await door.admit(token)
    for endpoint in ("/mcp", "/mcp/web", "/mcp/none", MAIL + "/", MAIL.upper(), "", ADMIN):
        await door.refuse(token, "endpoint", endpoint)


async def test_a_token_of_the_command_line_opens_the_admin_api_and_nothing_else(door):
    token = of_alice(COMMAND_LINE, audience=PUBLIC_URL + ADMIN, scopes=frozenset({"admin"}))
    principal = await door.admit(token, ADMIN)
    assert (principal.client_id, principal.user_id) == ("douane-cli", "a11ce")
    assert principal.scopes == frozenset({"admin"})
    await door.refuse(token, "not valid for this endpoint")


async def test_a_client_that_registered_itself_opens_no_admin_api(door):
    assert APP.kind is ClientKind.DYNAMIC
    token = of_alice(audience=PUBLIC_URL + ADMIN, scopes=frozenset({"admin"}))
    await door.refuse(token, "may not use", ADMIN)


async def test_a_client_that_lost_its_endpoint_is_refused_at_once(door):
    token = bearer()
    await door.admit(token)
    door.replace_client(replace(CLIENT, resources=frozenset({"/mcp/web"})))
    await door.refuse(token, "may not use")


async def test_a_scope_that_the_client_lost_is_gone_at_once_and_one_it_won_is_not_added(door):
    token = bearer()
    await door.admit(token)
    door.replace_client(replace(CLIENT, scopes=frozenset({"tools:call", "tools:write"})))
    assert (await door.admit(token)).scopes == frozenset({"tools:call"})


async def test_groups_name_and_trust_are_the_registrations_and_not_the_tokens(door):
    token = bearer(groups=frozenset({"admins"}), client_name="root")
    assert (await door.admit(token)).groups == frozenset({"staff"})
    door.replace_client(
        replace(CLIENT, groups=frozenset({"audit"}), name="renamed", trusted_host=True)
    )
    principal = await door.admit(token)
    assert (principal.groups, principal.client_name, principal.trusted_host) == (
        frozenset({"audit"}),
        "renamed",
        True,
    )


async def test_a_change_of_the_client_needs_no_new_signature_check(door, verifications):
    token = bearer()
    await door.admit(token)
    door.replace_client(replace(CLIENT, name="renamed"))
    assert (await door.admit(token)).client_name == "renamed"
    assert verifications == [token.text]


async def test_memory_is_bounded_and_the_longest_unused_token_goes_first(door, verifications):
    door.gate = door.new_gate(most_tokens=2)
    first, second, third = (bearer(token_id=name) for name in ("a", "b", "c"))
    for token in (first, second, first, third):
        await door.admit(token)
    verifications.clear()
    await door.admit(first)
    assert verifications == []
    await door.admit(second)
    assert verifications == [second.text]


async def test_a_refused_token_is_not_remembered(door, verifications):
    await door.refuse(bearer(audience=PUBLIC_URL + "/mcp/web"), "not valid")
    assert len(verifications) == 2


async def test_the_token_itself_is_not_kept(door):
    token = bearer()
    await door.admit(token)
    assert token.text not in repr(door.gate._seen)


async def test_a_token_of_another_gateways_key_is_refused(door):
    await door.refuse(bearer(keys=KeyRing([new_key()])), "not valid")


async def test_after_a_rotation_new_tokens_are_known_and_admitted_ones_stay_good(door):
    old, new = bearer(), KeyRing([new_key()])
    await door.admit(old)
    door.gate.keys = new
    await door.admit(bearer(keys=new, token_id="token-2"))
    await door.admit(old)
    await door.refuse(bearer(token_id="token-3"), "unknown key")
    door.clock.now = NOW + 900
    await door.refuse(old, "expired|unknown key")


@pytest.mark.parametrize("text", ["", "x", "\udcff", "\u00e9", "a" * 100_000])
async def test_a_credential_that_is_no_token_is_refused(door, text):
    await door.refuse(BearerToken(text=text), "not valid")


def _grant(grant_id: str) -> Grant:
    return Grant(
        id=grant_id,
        user_id=ALICE.id,
        client_id=APP.id,
        endpoint=MAIL,
        scopes=frozenset({"tools:call"}),
        created_at=NOW,
        expires_at=NOW + 900,
    )


async def test_people_of_two_providers_and_of_ours_are_three_in_records(door):
    names = []
    for id_, issuer in (("1", "https://a.example"), ("2", "https://b.example"), ("3", PUBLIC_URL)):
        user = replace(ALICE, id=id_, issuer=issuer, subject="same")
        door.stores.users.add(user)
        names.append((await door.admit(of_alice(subject=id_))).recorded)
    assert names == ["https://a.example|same", "https://b.example|same", "same"]


async def test_a_principal_says_which_ends_of_rights_were_known_when_it_was_looked_up(door):
    token = bearer()
    first = await door.admit(token)
    assert first.people == door.stores.people
    door.stores.grants.revoke_token("other", until=NOW + 900)
    later = await door.admit(token)
    assert later == first
    assert later.people == door.stores.people > first.people
    assert await door.admit(token) is later


@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
async def test_what_ends_while_somebody_is_looked_up_is_not_counted(door, again):
    token, find = bearer(), door.gate._find_client
    ended = [1]
    door.gate._people = lambda: ended[0]
    if again:
        assert (await door.admit(token)).people == 1
        ended[0] = 2
        door.stores.epoch.turn()

    def found(client_id):
        ended[0] += 1
        return find(client_id)

    door.gate._find_client = found
    assert (await door.admit(token)).people == ended[0] - 1
