"""What `douane check` says of a database: what is so for gateways, and no password."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from gateway.storage.postgres.base import made
from gateway.storage.postgres.checking import Finding, findings
from gateway.storage.postgres.connection import connect
from tests.postgres import Postgres, own
from tests.storage.postgres.test_log_rights import named, role

HASTY = {"fsync": "off", "full_page_writes": "off", "max_connections": "30"}


def wrong(found: list[Finding]) -> list[str]:
    return [one.text for one in found if one.wrong]


def told(found: list[Finding], what: str) -> str:
    (text,) = [one.text for one in found if what in one.text]
    return text


def name_of(address: str) -> str:
    return address.partition("@/")[2].partition("?")[0]


@pytest.fixture(scope="module")
def hasty() -> Iterator[Postgres]:
    """A server that confirms what it does not keep."""
    with own(HASTY) as server:
        yield server


@pytest.fixture(scope="module")
def careful() -> Iterator[Postgres]:
    with own({}) as server:
        yield server


@pytest.fixture
def whole(postgres: Postgres) -> str:
    """The address of a database with all tables."""
    address = postgres.fresh()
    made(address)
    return address


def test_an_empty_database_of_a_careful_server_is_sound(careful: Postgres) -> None:
    found = list(findings(careful.fresh()))
    assert wrong(found) == []
    assert found[0].text.startswith("PostgreSQL ")
    assert found[0].text.endswith("as postgres")
    assert found[-1].text == "the tables are not there yet: the first gateway makes them"


def test_a_server_that_confirms_what_a_crash_takes_is_wrong(hasty: Postgres) -> None:
    found = list(findings(hasty.fresh()))
    assert [text.split(":")[0] for text in wrong(found)] == [
        "fsync is off",
        "full_page_writes is off",
    ]
    assert told(found, "max_connections").startswith("max_connections is 30: each")


def test_what_the_server_does_by_itself_is_told_as_it_is(careful: Postgres) -> None:
    """Not as our own session has it."""
    address = careful.fresh()
    careful.run(f'ALTER DATABASE "{name_of(address)}" SET synchronous_commit = off')
    text = told(list(findings(address)), "synchronous_commit")
    assert "the server's own synchronous_commit is off (a gateway sets its own)" in text
    assert text.endswith("no standby is synchronous")


def test_a_database_in_another_encoding_is_wrong(careful: Postgres) -> None:
    careful.run("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    assert wrong(list(findings(careful.address("latin")))) == [
        "the database is in LATIN1: make one with ENCODING 'UTF8'"
    ]


def test_who_may_not_make_the_tables_is_told_so(careful: Postgres) -> None:
    address = careful.fresh()
    careful.run("CREATE ROLE guest LOGIN")
    (text,) = wrong(list(findings(named(address, "guest"))))
    assert text.startswith("the tables are not there yet, and guest may not make")
    careful.run(f'ALTER DATABASE "{name_of(address)}" OWNER TO guest')
    assert wrong(list(findings(named(address, "guest")))) == []


@pytest.mark.parametrize(
    "admitted",
    [
        (),
        ("admit_gateway_1",),
        ("admit_gateway_1", "admit_sequencer_1", "admit_reader_1", "admit_gateway_to_board_1"),
    ],
)
def test_who_may_not_use_all_the_tables_is_told_so(whole: str, admitted: tuple[str, ...]) -> None:
    with closing(connect(whole, application="test")) as owner, role(owner, *admitted) as gate:
        (text,) = [one for one in wrong(list(findings(named(whole, gate)))) if "tables" in one]
        assert text.startswith(f"the tables are not {gate}'s, who may not use them all")
        assert text.endswith(f"`douane storage tables --admit {gate}`")


@pytest.mark.parametrize("lacks", ["SELECT ON moving", "DELETE ON run_looks"])
def test_who_was_admitted_by_an_older_version_is_told_so(whole: str, lacks: str) -> None:
    """Whoever may not read whether the tables were moved does not start; nor is a result given out."""
    with closing(connect(whole, application="test")) as owner, role(owner) as gate:
        made(whole, admit=gate)
        owner.execute(f'REVOKE {lacks} FROM "{gate}"'.encode())
        (text,) = [one for one in wrong(list(findings(named(whole, gate)))) if "tables" in one]
        assert text.startswith(f"the tables are not {gate}'s, who may not use them all")


def test_whoever_was_admitted_may_do_what_a_gateway_does(whole: str) -> None:
    with closing(connect(whole, application="test")) as owner, role(owner) as gate:
        made(whole, admit=gate)
        found = list(findings(named(whole, gate)))
        assert f"{gate} may do what a gateway does, and does not own the tables" in [
            one.text for one in found if not one.wrong
        ]
    assert "postgres owns the tables" in told(list(findings(whole)), "owns")


def test_a_server_that_is_not_there_is_wrong_and_its_password_is_not_told() -> None:
    (found,) = findings("postgresql://emma:canary@127.0.0.1:1/douane")
    assert found.wrong
    assert found.text.startswith("PostgreSQL cannot be used: ")
    assert "canary" not in found.text


def test_a_standby_alone_is_no_database_for_gateways(careful: Postgres) -> None:
    address = careful.fresh()
    careful.run(f'ALTER DATABASE "{name_of(address)}" SET default_transaction_read_only = on')
    (found,) = findings(address)
    assert found.wrong
    assert "read-only" in found.text
