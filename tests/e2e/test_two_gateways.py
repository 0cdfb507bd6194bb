"""Two real gateways that share one PostgreSQL: whatever is done at one of them holds at the other.

The machine of the other one has a clock that is ten minutes ahead.
"""

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gateway.storage.kek import new_key
from gateway.storage.postgres.checking import EACH
from tests.e2e.own import GENEROUS, until
from tests.e2e.posting import Poster
from tests.e2e.scripted import Raw, raw_in_a_thread
from tests.e2e.site import SERVERS, Corridor
from tests.moved_clock import MovedClock
from tests.postgres import Postgres
from tests.running import fetch_token, running_gateway

RULES = """\
package douane

decision := {"verdict": "ask", "reasons": [{"code": "outside", "message": "it goes outside"}]} if {
	input.phase == "call"
	input.target.name == "located"
	not is_object(input.approval)
} else := {"verdict": "deny", "reasons": [{"code": "read", "message": "private data was read before"}]} if {
	input.phase == "call"
	input.target.name == "allowed"
	input.flow.label.confidentiality == "private"
} else := {"verdict": "allow", "reasons": []}
"""
HELLO = {"text": "hello"}
AHEAD_S = 600.0
STEP_S = 60.0
"""Far more than gateways differ, and far less than one's clock is off."""


class Pair:
    """Two gateways. What clients know is the first one's address; the other is behind it as well."""

    def __init__(
        self, one: Corridor, other: Corridor, raw: Raw, *, address: str, moved: MovedClock
    ) -> None:
        self.one, self.other, self.raw, self.address = one, other, raw, address
        self.moved = moved

    def posters(self, name: str) -> tuple[Poster, Poster]:
        """Return one client of the test's own, at either."""
        at_one = Poster(self.one, "raw", name=name)
        return at_one, Poster(self.one, "raw", name=name, by=self.other.url)

    def rows(self, *words: str, other: bool = False) -> list[dict[str, Any]]:
        return (self.other if other else self.one).running.rows(*words)


@contextmanager
def member(
    folder: Path,
    raw: Raw,
    policies: Path,
    shared: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
    **settings: Any,
) -> Iterator[Corridor]:
    given = {
        "storage": {"kind": "postgres", "url": f"file:{shared['url']}"},
        "auth": {"key_encryption_key": f"file:{shared['kek']}"},
        "pins": {"recheck": "1h", "fresh": "1h"},
        "egress": {"allow": ["127.0.0.0/8", "::1"]},
        **GENEROUS,
        **settings,
    }
    servers = {"raw": {"url": raw.url, **SERVERS["raw"]}}
    with running_gateway(
        folder, servers, policies=policies, environment=environment, **given
    ) as running:
        yield Corridor(running)


@pytest.fixture(scope="module")
def module_raw() -> Iterator[Raw]:
    with raw_in_a_thread() as raw:
        yield raw


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, module_raw: Raw
) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    policies = folder / "policies"
    policies.mkdir()
    (policies / "rules.rego").write_text(RULES)
    shared, address = {"url": f"{folder}/url", "kek": f"{folder}/kek"}, postgres.fresh()
    for place, text in ((shared["url"], address), (shared["kek"], new_key())):
        Path(place).touch(mode=0o600)
        Path(place).write_text(text)
    moved = MovedClock(folder)
    moved.set(AHEAD_S)
    with member(folder / "one", module_raw, policies, shared) as one:
        one.running.approve_all("raw")
        with member(
            *(folder / "other", module_raw, policies, shared, moved.environment),
            public_url=one.url,
        ) as other:
            yield Pair(one, other, module_raw, address=address, moved=moved)


@pytest.fixture(autouse=True)
def behaving(module_raw: Raw) -> Iterator[None]:
    yield
    module_raw.forget()


def test_what_is_approved_at_one_is_carried_by_the_other(pair: Pair) -> None:
    at_one, at_other = pair.posters("carries")
    for poster in (at_one, at_other):
        assert poster.call("allowed", HELLO).refusal is None
    pair.rows("pins", "revoke", "raw", "amounts", "--note", "no more")
    assert at_other.call("amounts", {"amount": 1}).refusal is not None
    pair.rows("pins", "approve", "raw", "amounts", "--note", "again", other=True)
    assert at_one.call("amounts", {"amount": 1}).refusal is None


def test_a_yes_at_one_lets_the_call_go_at_the_other_once(pair: Pair) -> None:
    at_one, at_other = pair.posters("asks")
    refusal = at_one.call("located", HELLO).json["result"]["_meta"]["douane/refusal"]
    assert refusal["code"] == "approval_required"
    again = at_other.call("located", HELLO).json["result"]["_meta"]["douane/refusal"]
    assert again["approval_id"] == refusal["approval_id"]
    pair.rows("approvals", "allow", refusal["approval_id"], "--note", "fine", other=True)
    assert at_one.call("located", HELLO).refusal is None
    for poster in (at_other, at_one):
        assert poster.call("located", HELLO).refusal == "approval_required"


def test_what_a_run_has_read_at_one_counts_at_the_other(pair: Pair) -> None:
    at_one, at_other = pair.posters("reads")
    assert at_other.call("allowed", HELLO).refusal is None
    assert at_one.call("page").refusal is None
    for poster in (at_other, at_one):
        assert poster.call("allowed", HELLO).refusal == "denied"


def test_what_is_revoked_at_one_opens_nothing_at_the_other(pair: Pair) -> None:
    at_one, at_other = pair.posters("leaves")
    assert at_other.call("allowed", HELLO).refusal is None
    client = pair.one.running.client("raw", name="leaves")
    pair.rows("clients", "remove", client["client_id"])
    assert {poster.call("allowed", HELLO).status for poster in (at_one, at_other)} == {401}


def test_a_clock_that_is_off_by_minutes_does_no_harm(pair: Pair) -> None:
    """A token of either opens the other, and the record has one time, also where the clock is set."""
    at_one, at_other = pair.posters("timely")
    client = pair.one.running.client("raw", name="timely")
    for ahead_s in (AHEAD_S, -AHEAD_S):
        pair.moved.set(ahead_s)
        at_one.token = fetch_token(pair.one.url, "raw", client, at=pair.other.url)
        at_other.token = fetch_token(pair.one.url, "raw", client)
        for poster in (at_one, at_other):
            assert poster.call("allowed", HELLO).refusal is None
    found = until(lambda: records_of(pair, client["client_id"], 8))
    # Newest first; whoever wrote it, a record of an earlier call has no later time.
    intents = [instant(row["time"]) for row in found if row["kind"] == "intent"]
    assert [earlier for later, earlier in pairwise(intents) if earlier > later + STEP_S] == []


def test_a_session_is_greeted_anywhere_and_is_at_home_where_it_goes_on(pair: Pair) -> None:
    at_one, at_other = pair.posters("greeted")
    in_session = ("Mcp-Session-Id", at_one.session())
    wanted = {"name": "allowed", "arguments": HELLO}
    assert at_other.legacy("tools/call", wanted, in_session).refusal is None
    client = pair.one.running.client("raw", name="greeted")["client_id"]
    found = until(lambda: records_of(pair, client, 2))
    with psycopg.connect(pair.address) as aside:
        asked = "SELECT roamed FROM runs WHERE id = %s"
        assert aside.execute(asked, (found[0]["run"],)).fetchall() == [(False,)]


def test_a_server_that_is_registered_at_one_is_so_at_the_other_until_it_is_removed(
    pair: Pair,
) -> None:
    """Also where the other one stood still meanwhile, and has heard of nothing."""
    pair.rows("servers", "add", "copy", "--url", pair.raw.url.replace("127.0.0.1", "localhost"))
    until(lambda: registered(pair, other=True) == {"copy"})
    pair.one.running.approve_all("copy")
    at_other = Poster(pair.one, "copy", name="copies", by=pair.other.url)
    assert at_other.call("allowed", HELLO).refusal is None
    other = pair.other.running.process
    other.send_signal(signal.SIGSTOP)
    try:
        pair.rows("servers", "remove", "copy")
    finally:
        other.send_signal(signal.SIGCONT)
    carried = pair.raw.methods.count("tools/call")
    refused = at_other.call("allowed", HELLO)
    assert refused.status == 404 or refused.refusal is not None, refused
    assert pair.raw.methods.count("tools/call") == carried
    until(lambda: registered(pair, other=True) == set())
    until(lambda: at_other.call("allowed", HELLO).status == 404)
    assert pair.raw.methods.count("tools/call") == carried
    assert not [*pair.one.folder.rglob("servers.yaml"), *pair.other.folder.rglob("servers.yaml")]


def registered(pair: Pair, *, other: bool) -> set[str]:
    return {row["server"] for row in pair.rows("servers", "list", other=other) if row["registered"]}


def test_there_is_one_record_of_both(pair: Pair) -> None:
    at_one, at_other = pair.posters("recorded")
    for poster in (at_one, at_other):
        assert poster.call("allowed", HELLO).refusal is None
    client = pair.one.running.client("raw", name="recorded")["client_id"]
    found = until(lambda: records_of(pair, client, 4))
    assert sorted(row["kind"] for row in found) == ["intent", "intent", "outcome", "outcome"]
    for corridor in (pair.one, pair.other):
        done = corridor.running.douane("audit", "verify", "--json")
        assert (done.returncode, json.loads(done.stdout)["finding"]) == (0, "ok"), done.stderr


def test_each_gateway_holds_no_more_connections_than_is_said(pair: Pair) -> None:
    asked = (
        "SELECT application_name, count(*)::int FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() GROUP BY 1"
    )
    with psycopg.connect(pair.address) as aside:
        held: dict[str, int] = dict(aside.execute(asked).fetchall())
    assert 0 < sum(held.values()) <= 2 * EACH, held


def instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def records_of(pair: Pair, client: str, number: int) -> list[dict[str, Any]] | None:
    """Return the records of a client once the log has so many, whichever gateway is asked."""
    asked = ("audit", "query", "--where", f"client = '{client}' AND method = tools/call")
    found = [pair.rows(*asked, other=other) for other in (False, True)]
    assert all(len(rows) <= number for rows in found)
    return found[0] if all(len(rows) == number for rows in found) else None


def test_calls_go_on_where_another_gateway_is_killed(pair: Pair) -> None:
    """The last of these tests: the other gateway is gone after it."""
    at_one, at_other = pair.posters("survives")
    assert at_other.call("allowed", HELLO).refusal is None
    os.kill(pair.other.running.process.pid, signal.SIGKILL)
    pair.other.running.process.wait()
    assert at_one.call("allowed", HELLO).refusal is None
    client = pair.one.running.client("raw", name="survives")["client_id"]
    asked = ("audit", "query", "--where", f"client = '{client}' AND method = tools/call")
    until(lambda: len(pair.rows(*asked)) == 4)
