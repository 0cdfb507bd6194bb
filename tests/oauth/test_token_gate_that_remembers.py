"""Who is remembered is who would be found anew, whatever has changed between two calls."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.domain.grants import Grant
from gateway.domain.identity import Principal
from gateway.domain.scripts import Script, ScriptId
from gateway.errors import Unauthenticated
from gateway.oauth.gate import TokenGate
from gateway.storage.identity.store import IdentityStores
from tests.oauth.issuing import ALICE, APP
from tests.oauth.test_token_gate import CLIENT, Door, bearer, of_alice
from tests.oauth.world import MAIL, NOW

PROGRAM = ScriptId("s_1")
TOKENS = (
    bearer(),
    bearer(token_id="token-2"),
    of_alice(),
    of_alice(grant_id="grant-2", token_id="token-3"),
    of_alice(token_id="token-4", script=PROGRAM, subject_token_id="token-1"),
)


def _regrouped(door: Door) -> None:
    client = door.stores.clients.find(CLIENT.id) or CLIENT
    door.replace_client(replace(client, groups=client.groups ^ {"admins"}))


def _without_endpoint(door: Door) -> None:
    client = door.stores.clients.find(CLIENT.id) or CLIENT
    door.replace_client(
        replace(client, resources=client.resources ^ {MAIL} or frozenset({"/mcp/web"}))
    )


def _app_is_there(door: Door) -> None:
    if door.stores.clients.find(APP.id) is None:
        door.stores.clients.add(APP)


def _alice(door: Door, **changed: Any) -> None:
    if door.stores.users.find(ALICE.id) is not None:
        door.stores.users.change(ALICE.id, at=NOW, **changed)


def _alice_is_there_or_not(door: Door) -> None:
    if door.stores.users.find(ALICE.id) is None:
        door.stores.users.add(ALICE)
    else:
        door.stores.users.remove(ALICE.id, at=NOW)


def _family(door: Door, grant_id: str) -> None:
    fresh = Grant(
        id=grant_id,
        user_id=ALICE.id,
        client_id=APP.id,
        endpoint=MAIL,
        scopes=frozenset({"tools:call"}),
        created_at=NOW,
        expires_at=NOW + 900,
    )
    door.stores.grants.begin_family(fresh, None)


def _elsewhere(door: Door, change: Callable[[IdentityStores], object]) -> None:
    elsewhere = IdentityStores.open(door.folder, clock=door.clock)
    change(elsewhere)
    elsewhere.close()
    door.stores.follow()


CHANGES: tuple[Callable[[Door], object], ...] = (
    _regrouped,
    _without_endpoint,
    lambda door: door.stores.clients.remove(CLIENT.id),
    lambda door: door.stores.clients.remove(APP.id),
    _app_is_there,
    lambda door: _alice(door, disabled=True),
    lambda door: _alice(door, disabled=False),
    lambda door: _alice(door, groups=frozenset({"audit"})),
    _alice_is_there_or_not,
    lambda door: door.stores.grants.revoke_grant("grant-2", "test", at=NOW),
    lambda door: door.stores.grants.revoke_token("token-1", until=NOW + 900),
    lambda door: _elsewhere(door, lambda it: it.grants.revoke_token("token-2", until=NOW + 900)),
    lambda door: _elsewhere(door, lambda it: it.grants.revoke_grant("grant-1", "test", at=NOW)),
    lambda door: door.scripts._live.pop(PROGRAM, None),
    lambda door: door.scripts._live.__setitem__(PROGRAM, _program()),
    lambda door: setattr(door.clock, "now", door.clock.now + 400),
)


def _program() -> Script:
    return Script(
        id=PROGRAM,
        principal="alice",
        sha256="ab" * 32,
        grants=None,
        most=50,
        parent="",
        began=NOW,
        expires_at=NOW + 600,
    )


async def _found(gate: TokenGate, token: Any) -> Principal | str:
    try:
        return await gate.authenticate(token, MAIL)
    except Unauthenticated as error:
        return error.public


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from((None, *CHANGES)), st.sampled_from(TOKENS)), max_size=12
    )
)
async def test_nobody_is_known_who_would_not_be_found_anew(steps: Any) -> None:
    with TemporaryDirectory() as folder:
        door = Door(Path(folder))
        await door.scripts.begin(_program())
        _family(door, "grant-1")
        _family(door, "grant-2")
        try:
            for change, token in steps:
                if change is not None:
                    change(door)
                anew = await _found(door.new_gate(), token)
                assert await _found(door.gate, token) == anew
        finally:
            door.stores.close()


async def test_a_principal_is_the_very_same_until_something_of_it_changes(tmp_path: Path) -> None:
    door = Door(tmp_path)
    token = of_alice()
    first = await door.admit(token)
    door.stores.clients.add(replace(APP, id="ff" * 16, name="other"))  # it registered itself
    assert await door.admit(token) is first
    _alice(door, groups=frozenset({"audit"}))
    assert await door.admit(token) is not first
    door.stores.close()


@pytest.mark.parametrize("others", [False, True])
async def test_a_token_of_a_program_that_has_ended_is_refused_at_once(
    tmp_path: Path, *, others: bool
) -> None:
    door = Door(tmp_path)
    await door.scripts.begin(_program())
    token = TOKENS[-1]
    await door.admit(token)
    if others:
        door.stores.clients.add(replace(CLIENT, id="ff" * 16, name="other"))
        await door.admit(token)
    await door.scripts.end(PROGRAM)
    await door.refuse(token, "program")
    door.stores.close()
