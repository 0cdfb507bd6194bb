"""The bearer gate: valid now, for this endpoint, for a client that is still there."""

from dataclasses import replace

import pytest

from gateway.domain.identity import BearerToken, Client, Principal
from gateway.errors import Unauthenticated
from gateway.oauth.gate import TokenGate
from gateway.oauth.keys import KeyRing
from gateway.oauth.tokens import mint, verify
from gateway.storage.memory import MemoryClientStore
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

CLIENT = client(groups=frozenset({"staff"})).client


def bearer(of: Client = CLIENT, **changes: object) -> BearerToken:
    return BearerToken(text=mint(access_token(of, **changes), KEYS))


class Door:
    """A gate with its clients and its clock at hand."""

    def __init__(self, *, most_tokens: int = 10_000) -> None:
        self.clients = MemoryClientStore([CLIENT])
        self.clock = Hand()
        self.gate = TokenGate(
            resources=RESOURCES,
            keys=KEYS,
            clients=self.clients,
            clock=self.clock,
            most_tokens=most_tokens,
        )

    def admit(self, credential: BearerToken | None, endpoint: str = MAIL) -> Principal:
        return self.gate.authenticate(credential, endpoint)

    async def replace_client(self, changed: Client) -> None:
        await self.clients.remove(CLIENT.id)
        await self.clients.add(changed)


@pytest.fixture
def verifications(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts whose signature was checked, one entry a check."""
    seen: list[str] = []

    def counted(text: str, **rest: object) -> object:
        seen.append(text)
        return verify(text, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr("gateway.oauth.gate.verify", counted)
    return seen


def test_a_valid_token_gives_its_principal():
    assert Door().admit(bearer()) == Principal(
        issuer=PUBLIC_URL,
        subject=CLIENT.id,
        client_id=CLIENT.id,
        client_name="agent 1",
        groups=frozenset({"staff"}),
        scopes=frozenset({"tools:list", "tools:call"}),
        token_id="token-1",
        expires_at=NOW + 900,
        trusted_host=False,
    )


def test_no_credential_is_refused():
    with pytest.raises(Unauthenticated):
        Door().admit(None)


def test_a_second_call_is_answered_without_checking_the_signature_again(verifications):
    door, token = Door(), bearer()
    assert door.admit(token) == door.admit(token)
    assert verifications == [token.text]


def test_s07_a_token_past_its_expiry_is_refused_although_it_was_just_admitted():
    door, token = Door(), bearer()
    door.admit(token)
    door.clock.now = NOW + 899
    door.admit(token)
    door.clock.now = NOW + 900
    for _ in range(2):
        with pytest.raises(Unauthenticated, match="expired"):
            door.admit(token)


def test_a_token_of_the_future_is_refused_although_it_was_admitted_before_the_clock_went_back():
    door, token = Door(), bearer()
    door.admit(token)
    door.clock.now = NOW - 60
    door.admit(token)
    door.clock.now = NOW - 61
    with pytest.raises(Unauthenticated):
        door.admit(token)
    door.clock.now = NOW
    door.admit(token)


async def test_a_removed_clients_token_is_refused_at_once():
    door, token = Door(), bearer()
    door.admit(token)
    await door.clients.remove(CLIENT.id)
    for _ in range(2):
        with pytest.raises(Unauthenticated, match="removed"):
            door.admit(token)


def test_a_token_of_a_client_that_never_was_is_refused():
    with pytest.raises(Unauthenticated, match="removed"):
        Door().admit(bearer(client(seed=9).client))


async def test_o11_a_token_for_one_endpoint_opens_no_other_even_when_it_is_known():
    door, token = Door(), bearer()
    await door.replace_client(replace(CLIENT, resources=frozenset(RESOURCES.uris)))
    door.admit(token)
    for endpoint in ("/mcp", "/mcp/web", "/mcp/none", MAIL + "/", MAIL.upper(), ""):
        with pytest.raises(Unauthenticated):
            door.admit(token, endpoint)


async def test_a_client_that_lost_its_endpoint_is_refused_at_once():
    door, token = Door(), bearer()
    door.admit(token)
    await door.replace_client(replace(CLIENT, resources=frozenset({"/mcp/web"})))
    with pytest.raises(Unauthenticated, match="may not use"):
        door.admit(token)


async def test_a_scope_that_the_client_lost_is_gone_at_once_and_one_it_won_is_not_added():
    door, token = Door(), bearer()
    door.admit(token)
    await door.replace_client(replace(CLIENT, scopes=frozenset({"tools:call", "tools:write"})))
    assert door.admit(token).scopes == frozenset({"tools:call"})


async def test_groups_name_and_trust_are_the_registrations_and_not_the_tokens():
    door = Door()
    token = bearer(groups=frozenset({"admins"}), client_name="root")
    assert door.admit(token).groups == frozenset({"staff"})
    await door.replace_client(
        replace(CLIENT, groups=frozenset({"audit"}), name="renamed", trusted_host=True)
    )
    principal = door.admit(token)
    assert (principal.groups, principal.client_name, principal.trusted_host) == (
        frozenset({"audit"}),
        "renamed",
        True,
    )


async def test_a_change_of_the_client_needs_no_new_signature_check(verifications):
    door, token = Door(), bearer()
    door.admit(token)
    await door.replace_client(replace(CLIENT, name="renamed"))
    assert door.admit(token).client_name == "renamed"
    assert verifications == [token.text]


def test_memory_is_bounded_and_the_longest_unused_token_goes_first(verifications):
    door = Door(most_tokens=2)
    first, second, third = (bearer(token_id=name) for name in ("a", "b", "c"))
    for token in (first, second, first, third):
        door.admit(token)
    verifications.clear()
    door.admit(first)
    assert verifications == []
    door.admit(second)
    assert verifications == [second.text]


def test_a_refused_token_is_not_remembered(verifications):
    door, token = Door(), bearer(audience=PUBLIC_URL + "/mcp/web")
    for _ in range(2):
        with pytest.raises(Unauthenticated):
            door.admit(token)
    assert len(verifications) == 2


def test_the_token_itself_is_not_kept():
    door, token = Door(), bearer()
    door.admit(token)
    assert token.text not in repr(door.gate._seen)


def test_a_token_of_another_gateways_key_is_refused():
    elsewhere = mint(access_token(CLIENT), KeyRing([new_key()]))
    with pytest.raises(Unauthenticated):
        Door().admit(BearerToken(text=elsewhere))


@pytest.mark.parametrize("text", ["", "x", "\udcff", "\u00e9", "a" * 100_000])
def test_a_credential_that_is_no_token_is_refused(text):
    with pytest.raises(Unauthenticated):
        Door().admit(BearerToken(text=text))
