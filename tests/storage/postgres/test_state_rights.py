"""What a gateway's role may do with state: its stores' work, and no news of its own making."""

from contextlib import closing
from typing import Any

import pytest
from psycopg.errors import InsufficientPrivilege

from gateway.domain.scripts import ScriptId
from gateway.domain.tools import Profile
from gateway.errors import ConfigError
from gateway.ports.scripts import Parked
from gateway.storage.postgres.connection import Connection, connect
from gateway.storage.postgres.state import SharedState
from tests.postgres import Postgres
from tests.storage.placed import emptied, shared
from tests.storage.postgres.replicas import Stores
from tests.storage.postgres.test_log_rights import may, named, role
from tests.storage.suite import sighting, target
from tests.storage.test_approval_stores import answer, question
from tests.storage.test_late_calls import late
from tests.storage.test_script_store import script
from tests.storage.test_server_choices import NO_RUNS, only

NOT_ITS_OWN = [
    "DELETE FROM pins",
    "TRUNCATE approvals",
    "INSERT INTO state_news (kept_in, key) VALUES ('pins', 'x')",
    "DELETE FROM state_news",
    "DELETE FROM server_life",
    "UPDATE in_force SET policy = 'x'",
    "ALTER TABLE pins DISABLE TRIGGER USER",
]


@pytest.fixture
def address(postgres: Postgres) -> str:
    return emptied(postgres)


@pytest.fixture
def owner(address: str) -> Any:
    with closing(connect(address, application="test")) as opened:
        yield opened


async def test_a_role_does_what_the_stores_need(address: str, owner: Connection) -> None:
    with role(owner, "admit_state_1") as gate:
        async with shared(named(address, gate)) as state, shared(address) as other:
            one, seen = Stores(state), Stores(other)
            await one.pins.observe([sighting(target())])
            await one.pins.revoke(target(), Profile.LEGACY, by="bob", note="")
            await one.approvals.file(question())
            await answer(one.approvals)
            await one.scripts.begin(script())
            await one.scripts.take(ScriptId("s_1"), 0, now=script().began)
            await one.scripts.park(Parked(script=script(), snapshot=b"state"))
            await one.scripts.end(ScriptId("s_1"))
            await one.late.begin(late())
            await one.choices.choose("p", lambda _: only("mail"), runs=NO_RUNS)
            await one.sessions.subscribe("alice", "s", "a", person="alice")
            await one.sessions.end("alice", "s", person="alice")
            assert await other.caught_up()
            assert await state.caught_up() is False
            assert seen.pins.all() == one.pins.all()


@pytest.mark.parametrize("statement", NOT_ITS_OWN)
def test_and_no_more(address: str, owner: Connection, statement: str) -> None:
    with (
        role(owner, "admit_state_1") as gate,
        closing(connect(named(address, gate), application="test")) as connection,
        pytest.raises(InsufficientPrivilege),
    ):
        connection.execute(statement.encode())


def test_what_it_may_call_is_told(owner: Connection) -> None:
    with role(owner) as nobody, role(owner, "admit_state_1") as gate:
        assert may(owner, gate) == may(owner, nobody) | {"forget_news_1", "life_1"}


async def test_without_being_admitted_nobody_has_a_look(address: str, owner: Connection) -> None:
    with role(owner) as nobody:
        with pytest.raises(ConfigError, match="permission"):
            SharedState.open(named(address, nobody))
        async with shared(address) as state:
            state._conninfo = named(address, nobody)
            with pytest.raises(ConfigError, match="permission"), state.reading() as tables:
                tables.execute("SELECT * FROM approvals")
