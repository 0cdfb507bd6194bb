"""What roles may do: a gateway adds what was compared, whoever orders takes it in, and nobody more."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from gateway.audit.query import Filter, compile_filter
from gateway.domain.flow import RunId
from gateway.domain.identity import Proof
from gateway.domain.labels import BOTTOM
from gateway.domain.premises import NOTHING
from gateway.ports.allowance import Use
from gateway.storage.postgres.allowance import PostgresAllowance
from gateway.storage.postgres.board import PostgresBoard
from gateway.storage.postgres.board_tables import BOARD
from gateway.storage.postgres.connection import Connection, connect
from gateway.storage.postgres.lane import Keeps, Lane, Mark, NotThere
from gateway.storage.postgres.log_tables import LOG
from gateway.storage.postgres.log_views import PostgresLog
from tests.storage.postgres.shared import (
    PATIENCE_S,
    leading,
    ordered,
    record,
    replica,
    resting_on,
    verified,
    with_runs,
)

_NAMES = count()
_FUNCTIONS = """
SELECT p.oid::regprocedure::text FROM pg_proc AS p
WHERE pronamespace = 'public'::regnamespace AND has_function_privilege(%s, p.oid, 'EXECUTE') ORDER BY 1
"""


@contextmanager
def role(owner: Connection, *admitted: str) -> Iterator[str]:
    name = f"r{owner.info.dbname}_{next(_NAMES)}"
    owner.execute(f'CREATE ROLE "{name}" LOGIN'.encode())
    for each in admitted:
        owner.execute(f"CALL {each}(%s)".encode(), (name,))
    try:
        yield name
    finally:
        owner.execute(f'DROP OWNED BY "{name}"'.encode())
        owner.execute(f'DROP ROLE "{name}"'.encode())


def named(address: str, name: str) -> str:
    return address.replace("postgres@", f"{name}@")


def may(owner: Connection, name: str) -> set[str]:
    rows = owner.execute(_FUNCTIONS, (name,)).fetchall()
    return {function.partition("(")[0] for (function,) in rows}


async def test_two_roles_do_what_a_gateway_and_its_log_need(
    address: str, owner: Connection
) -> None:
    with_runs(owner, "r")
    with role(owner, "admit_gateway_1") as gate, role(owner, "admit_sequencer_1") as order:
        async with replica(named(address, gate)) as made:
            await made.ledger.put(record("one"), resting_on("r"), NOTHING)
            look = await made.runs.look_at(RunId("r"))
            lowered = await made.runs.lower_label(RunId("r"), BOTTOM, BOTTOM, look=look)
            assert lowered is not None
            await made.runs.raise_label(RunId("r"), BOTTOM, None)
        with closing(connect(named(address, order), application="test")) as connection:
            leader = leading(connection)
            assert leader.step() == 1
            leader.sign()
            leader.keep()
            assert leader.turn()
            assert leader.lag_s() == 0.0
    assert verified(address).size == 1


async def test_what_another_replica_was_told_is_no_replicas_own(
    address: str, owner: Connection
) -> None:
    """After a failover the number of a lane that is gone may be given to another one."""

    async def goes_on(name: str) -> None:
        opened = await Lane.open(
            address,
            replica=name,
            keeps=Keeps.POWER,
            within_s=PATIENCE_S,
            after=Mark(lane=lane, n=1),
        )
        await opened.close()

    with_runs(owner, "r")
    async with replica(address, "one") as made:
        await made.ledger.put(record("one"), resting_on("r"), NOTHING)
        ((lane, name),) = owner.execute("SELECT lane, replica FROM lanes").fetchall()
        await goes_on(name)
        with pytest.raises(NotThere):
            await goes_on("other")


async def test_a_role_takes_part_in_what_all_gateways_have_alike(
    address: str, owner: Connection
) -> None:
    with role(owner, "admit_gateway_to_board_1") as gate:
        with closing(PostgresBoard(named(address, gate), replica="one", key=b"k")) as board:
            seat = board.seat()
            assert await board.propose("p", b"text", over="", anew=True)
            posted = await board.hear(seat, decides="", prepared="p")
            assert (posted.policy, posted.revision) == ("p", 1)
            assert (await board.text("p"), await board.problem("p")) == (b"text", "")
            assert await board.seats() == {seat: ""}
            assert await board.configured("x") == [("one", "x")]
            await board.refuse("q", "no")
            await board.stop("x")
            assert await board.go("x") is None
            await board.leave(seat)
        with closing(PostgresAllowance(named(address, gate), replica="one")) as allowance:
            await allowance.take(b"k", size=60, in_s=60, wanted=1, unused=0)
            assert await allowance.note([("a", 1)], window_s=60) == 0
            await allowance.forgive(["a"])
            allowance.use(Proof(key="k", use=b"u", made_at=1.0, until=2.0), now=1.0)
            await allowance.add([Use(quota="q", under=(), begin=60, amount=1)])
            assert len(allowance.kept()) == 1
            allowance.forget(now=1.0)
        with closing(connect(named(address, gate), application="test")) as connection:
            for table in ("in_force", "policies", "replicas", "attempts", "quota_counts"):
                with pytest.raises(InsufficientPrivilege):
                    connection.execute(f"DELETE FROM {table}".encode())


def test_neither_may_do_what_the_other_does(owner: Connection) -> None:
    tables = {"pragma_table_info", "require_standby_1"}
    with role(owner) as nobody, role(owner, "admit_gateway_1") as gate:
        assert may(owner, nobody) == tables
        assert may(owner, gate) == tables | {"put_1", "open_lane_1", "settled_1", "reaches_1"}
        with role(owner, "admit_sequencer_1") as order:
            assert may(owner, order) == tables | {
                *("lead_1", "keep_1", "take_in_1", "sign_1"),
                *("close_lanes_1", "turn_tray_1", "make_room_1"),
            }


WRITES = [
    "INSERT INTO tray (lane, n, part, id, time_us, kind, body) VALUES (1, 1, 0, 'x', 0, 'x', '')",
    "INSERT INTO audit (leaf_index, id, time_us, kind, leaf_hash, lane, n, body) VALUES (0, 'x', 0, 'x', '', 1, 1, '')",
    "INSERT INTO checkpoints VALUES (1, '', 0, '')",
    "UPDATE tree SET token = 9",
    "UPDATE lanes SET taken = 9",
    "UPDATE in_force SET policy = 'x'",
    "UPDATE pins SET status = 'approved'",
    "UPDATE approvals SET state = 'allowed'",
    "DELETE FROM tray_0",
    "TRUNCATE tray_1",
    "DELETE FROM audit_0",
]


@pytest.mark.parametrize("admitted", ["admit_gateway_1", "admit_sequencer_1"])
def test_no_role_writes_a_record_that_was_not_compared(
    address: str, owner: Connection, admitted: str
) -> None:
    owner.execute("SELECT make_room_1()")
    with (
        role(owner, admitted) as name,
        closing(connect(named(address, name), application="test")) as connection,
    ):
        for statement in WRITES:
            with pytest.raises(InsufficientPrivilege):
                connection.execute(statement.encode())


async def test_what_a_role_calls_its_own_is_not_what_is_compared(
    address: str, owner: Connection
) -> None:
    """A table of the session's own under the name of one of ours."""
    with_runs(owner, "r")
    with (
        role(owner, "admit_gateway_1") as gate,
        closing(connect(named(address, gate), application="test")) as connection,
    ):
        connection.execute("CREATE TEMPORARY TABLE lanes AS SELECT * FROM public.in_force")
        ((lane,),) = connection.execute("SELECT open_lane_1('test')").fetchall()
    assert owner.execute("SELECT lane FROM public.lanes").fetchall() == [(lane,)]


def test_no_name_in_a_function_hides_another(owner: Connection) -> None:
    with psycopg.connect(owner.info.dsn, dbname=owner.info.dbname) as connection:
        connection.execute("CREATE SCHEMA anew")
        connection.execute("SET search_path = anew, public")
        connection.execute("SET plpgsql.extra_errors = 'shadowed_variables'")
        for migration in (*LOG.migrations, *BOARD.migrations):
            connection.execute(migration.script.encode())
        connection.rollback()


READS = [
    "DELETE FROM audit WHERE leaf_index = 0",
    "UPDATE log_front SET first = 256",
    "UPDATE holds SET first = 1000",
    "DELETE FROM archives",
    "UPDATE words.progress SET through = 9",
    "INSERT INTO words.names (name) VALUES ('x')",
    "SELECT words.forget_1(9)",
    "UPDATE cosignatures SET size = 9",
]


async def test_whoever_reads_and_follows_the_log_has_what_that_takes(
    address: str, owner: Connection
) -> None:
    async with replica(address) as made:
        await made.ledger.append(record("one"))
    ordered(address)
    with role(owner, "admit_gateway_1", "admit_reader_1") as gate:
        with closing(PostgresLog(named(address, gate))) as log, closing(log.reader()) as reader:
            assert (log.newest(), log.has("one"), log.lag_s(), reader.waits("two")) == (
                0,
                True,
                0.0,
                False,
            )
            with closing(log.index()) as index, closing(log.answers()) as answers:
                assert index.catch_up(lambda: False).caught_up
                found = compile_filter(Filter(where="reasons match x or method = y"), now=0.0)
                assert answers.page(found) == []
                assert answers.top("tool", 0, 9) == []
                assert answers.marked("x") == []
            assert reader.inclusion("one").size == 1
            await log.jobs.run(lambda to: to.execute("INSERT INTO holds VALUES ('h', 0)"))
            await log.jobs.run(lambda to: to.execute("DELETE FROM holds WHERE name = 'h'"))
        for statement in READS:
            with (
                closing(connect(named(address, gate), application="test")) as connection,
                pytest.raises(InsufficientPrivilege),
            ):
                connection.execute(statement.encode())


_OF_THE_SESSION = b"""
CREATE FUNCTION pg_temp.with_more_rights() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN UPDATE public.in_force SET policy = 'mine'; RETURN NEW; END $$;
CREATE TEMPORARY TABLE taken (leaf_index bigint PRIMARY KEY, time_us bigint, kind text, principal text,
    client text, server text, target text, effect text, verdict text, code text, decision_id text,
    task text, doc jsonb);
GRANT ALL ON pg_temp.taken TO PUBLIC;
CREATE TRIGGER first BEFORE INSERT ON pg_temp.taken FOR EACH ROW
    EXECUTE FUNCTION pg_temp.with_more_rights();
"""


async def test_the_index_is_not_made_in_tables_of_whoever_asks_for_it(
    address: str, owner: Connection
) -> None:
    """What such a table runs when it is written to would have the rights of the tables' owner."""
    async with replica(address) as made:
        await made.ledger.append(record("one"))
    ordered(address)
    with (
        role(owner, "admit_gateway_1", "admit_reader_1") as gate,
        closing(connect(named(address, gate), application="test")) as connection,
    ):
        connection.execute(_OF_THE_SESSION)
        with pytest.raises(InsufficientPrivilege):
            connection.execute("SELECT * FROM words.take_up_1(9)")
    assert owner.execute("SELECT policy <> 'mine' FROM in_force").fetchall() == [(True,)]


def test_nobody_else_reads_the_log(address: str, owner: Connection) -> None:
    with role(owner) as nobody, closing(connect(named(address, nobody), application="test")) as one:
        for statement in (
            "SELECT words.of_1('x')",
            "SELECT lag_1()",
            "SELECT * FROM words.take_up_1(1)",
        ):
            with pytest.raises(InsufficientPrivilege):
                one.execute(statement.encode())
