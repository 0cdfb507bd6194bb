"""Tables are made once, whoever begins, and never by a version that does not know them."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from gateway.errors import ConfigError
from gateway.storage.postgres.connection import connect
from gateway.storage.postgres.migrations import Migration, Tables, migrate

ONE = Migration(
    number=1, name="one", script="CREATE TABLE one (n integer); INSERT INTO one VALUES (1)"
)
TWO = Migration(number=2, name="two", script="UPDATE one SET n = n + 1")
BROKEN = Migration(number=2, name="two", script="CREATE TABLE two (n integer); SELECT 1 / 0")


def tables(*migrations):
    return Tables(name="test", migrations=migrations)


@pytest.fixture
def connection(postgres):
    with closing(connect(postgres.fresh(), application="test")) as opened:
        yield opened


def rows(connection, statement):
    return connection.execute(statement).fetchall()


def test_each_step_is_taken_once(connection):
    migrate(connection, tables(ONE))
    migrate(connection, tables(ONE, TWO))
    migrate(connection, tables(ONE, TWO))
    assert rows(connection, "SELECT n FROM one") == [(2,)]


def test_of_replicas_that_begin_at_once_one_makes_the_tables(postgres):
    address, ready = postgres.fresh(), threading.Barrier(6)

    def begin(own):
        ready.wait()
        migrate(own, tables(ONE, TWO))

    with ExitStack() as opened, ThreadPoolExecutor(6) as threads:
        # All of them first, one by one: none waits for another that a busy server refused.
        each = [
            opened.enter_context(closing(connect(address, application="test"))) for _ in range(6)
        ]
        for begun in [threads.submit(begin, own) for own in each]:
            begun.result()
        assert rows(each[0], "SELECT n FROM one") == [(2,)]


def test_a_step_that_fails_leaves_everything_as_it_was(connection):
    with pytest.raises(ConfigError, match="division by zero"):
        migrate(connection, tables(ONE, BROKEN))
    assert rows(connection, "SELECT to_regclass('one')") == [(None,)]
    migrate(connection, tables(ONE))
    with pytest.raises(ConfigError, match="division by zero"):
        migrate(connection, tables(ONE, BROKEN))
    assert rows(connection, "SELECT to_regclass('two')") == [(None,)]
    assert rows(connection, "SELECT count(*) FROM schema_migrations") == [(1,)]
    migrate(connection, tables(ONE, TWO))
    assert rows(connection, "SELECT n FROM one") == [(2,)]


def test_tables_of_a_newer_version_are_left_alone(connection):
    migrate(connection, tables(ONE, TWO))
    with pytest.raises(ConfigError, match="newer than this version") as raised:
        migrate(connection, tables(ONE))
    assert raised.value.problems == ("test 2 two",)


def test_two_versions_run_side_by_side_where_the_later_one_says_so(connection):
    beside = Migration(number=2, name="two", script="CREATE TABLE two (n integer)", oldest=1)
    migrate(connection, tables(ONE, beside))
    migrate(connection, tables(ONE))
    migrate(connection, tables(ONE, beside))
    last = Migration(number=3, name="three", script="DROP TABLE one")
    migrate(connection, tables(ONE, beside, last))
    for older in (tables(ONE), tables(ONE, beside)):
        with pytest.raises(ConfigError, match="newer than this version"):
            migrate(connection, older)


def test_another_history_under_the_same_numbers_is_refused(connection):
    migrate(connection, tables(ONE))
    other = Migration(number=1, name="other", script="SELECT 1")
    with pytest.raises(ConfigError):
        migrate(connection, tables(other, TWO))


def test_whoever_has_nothing_to_make_needs_no_right_to_make_it(connection):
    migrate(connection, tables(ONE))
    connection.execute("CREATE ROLE runs_only")
    connection.execute("GRANT SELECT ON schema_migrations TO runs_only")
    connection.execute("SET ROLE runs_only")
    migrate(connection, tables(ONE))
    with pytest.raises(ConfigError, match="cannot be made"):
        migrate(connection, tables(ONE, TWO))


def test_parts_have_numbers_of_their_own(connection):
    migrate(
        connection,
        tables(ONE),
        Tables(name="other", migrations=(Migration(number=1, name=TWO.name, script=TWO.script),)),
    )
    assert rows(connection, "SELECT n FROM one") == [(2,)]


def test_numbers_leave_nothing_out():
    with pytest.raises(ValueError, match="one by one"):
        tables(TWO)
