"""Buckets, provenance and conversations: what is counted, and that all of it is bounded."""

import threading
from dataclasses import replace
from functools import partial

import pytest

from gateway.domain.bounded import ENTRY
from gateway.domain.calls import Asked, Call
from gateway.domain.flow import LONGEST_SOURCE, Run, RunId, RunState, Source, source_name
from gateway.domain.labels import (
    BOTTOM,
    STRICTEST_DEFAULT,
    Confidentiality,
    Effect,
    Integrity,
    Label,
)
from gateway.domain.scripts import ScriptId
from gateway.domain.tools import Profile
from gateway.errors import ProtocolError, RateLimited
from gateway.flow.provenance import Provenance
from gateway.flow.reading import Answered
from gateway.pipeline import conversations, limits, memory, visibility
from gateway.pipeline.conversations import Conversations
from gateway.pipeline.limits import CallLimits
from gateway.pipeline.memory import ProvenanceMemory
from gateway.pipeline.trail import Trail
from tests.pipeline.house import ALICE, UNHINTED, House, result

SECRET = Label(integrity=Integrity.UNTRUSTED, confidentiality=Confidentiality.SECRET)
ROOTS = Asked(method="roots/list", digest="", text="{}")


class Hand:
    """A clock that moves only when told to."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


async def taken(bucket: CallLimits, key: str = "alice", most: int = 100) -> int:
    """Return how many calls the bucket gives right now."""
    for count in range(most):
        try:
            await bucket.take(key)
        except RateLimited:
            return count
    return most


async def test_a_bucket_holds_a_minutes_calls_fills_evenly_and_never_overflows():
    clock = Hand()
    bucket = CallLimits(calls_per_minute=6, clock=clock)
    assert await taken(bucket) == 6
    clock.now += 20
    assert await taken(bucket) == 2
    clock.now += 24 * 3600
    assert await taken(bucket) == 6


async def test_a_clock_that_jumps_back_fills_nothing_and_takes_nothing():
    clock = Hand()
    bucket = CallLimits(calls_per_minute=6, clock=clock)
    await bucket.take("alice")
    clock.now -= 3600
    assert await taken(bucket) == 5


async def test_each_key_has_a_bucket_of_its_own():
    bucket = CallLimits(calls_per_minute=2, clock=Hand())
    assert (await taken(bucket, "alice"), await taken(bucket, "bob")) == (2, 2)


async def test_two_rates_of_one_key_have_a_bucket_each():
    clock = Hand()
    bucket = CallLimits(calls_per_minute=600, clock=clock)
    for _ in range(2):
        await bucket.take("alice", 2)
    clock.now += 1
    await bucket.take("alice")  # at 600 a minute a second fills ten calls, at 2 a minute none
    with pytest.raises(RateLimited, match="more than 2 calls a minute; wait 29 seconds"):
        await bucket.take("alice", 2)
    assert await taken(bucket, most=1000) == 599


async def test_the_bucket_used_last_is_kept(monkeypatch):
    monkeypatch.setattr(limits, "_MOST_BUCKETS", 2)
    bucket = CallLimits(calls_per_minute=1, clock=Hand())
    for key in ("alice", "bob", "carol"):
        await bucket.take(key)
    assert len(bucket._buckets) == 2
    assert (await taken(bucket, "carol"), await taken(bucket, "alice")) == (0, 1)


def test_the_provenance_of_the_runs_used_last_is_kept(monkeypatch):
    monkeypatch.setattr(memory, "_OCTETS", 3 * memory._RUN)
    kept = ProvenanceMemory(lambda _: None)
    one, two, three = (Run(id=RunId(id_), label=BOTTOM) for id_ in ("r1", "r2", "r3"))
    first, second = kept.of(one, "emma"), kept.of(two, "emma")
    assert kept.of(one, "emma") is first
    kept.of(three, "emma")
    assert kept.of(one, "emma") is first
    assert kept.of(two, "emma") is not second


async def test_whoever_has_much_remembered_has_nothing_of_another_forgotten(monkeypatch):
    monkeypatch.setattr(memory, "_OCTETS", 3_000_000)
    kept = ProvenanceMemory(lambda _: None)
    little = Run(id=RunId("little"), label=BOTTOM)
    first = kept.of(little, "emma")
    seen = Source(server="mail", tool="search", record="r1", label=BOTTOM)
    much = Answered(source=seen, effect=None, arguments={}, content={"a": "b"}, octets=250_000)
    for number in range(20):
        run = Run(id=RunId(f"r{number}"), label=BOTTOM)
        await kept.with_it(run, "alice", 0, lambda p: p.remember(much), looks=False, must=True)
    assert kept.of(little, "emma") is first
    # A run that says little takes room as well.
    for number in range(1000):
        kept.of(Run(id=RunId(f"s{number}"), label=BOTTOM), "alice")
    assert len(kept._runs._of["alice"]) <= 3_000_000 // memory._RUN
    assert kept.of(little, "emma") is first


@pytest.mark.parametrize("looks", [False, True])
async def test_after_a_question_that_looked_beside_the_loop_nothing_is_left_for_the_next(looks):
    kept = ProvenanceMemory(lambda _: None)
    run = Run(id=RunId("r1"), label=BOTTOM)
    seen = Source(server="mail", tool="search", record="r1", label=STRICTEST_DEFAULT)
    content = {"structuredContent": {"texts": [f"text {n}" for n in range(5_000)]}}
    found = kept.of(run, "emma")
    found.remember(
        Answered(source=seen, effect=Effect.READ, arguments={}, content=content, octets=60_000)
    )
    assert await kept.with_it(run, "emma", 60_000, lambda _: "done", looks=looks) == "done"
    assert (found.unread(words=False) == 0) is looks


@pytest.mark.parametrize(
    ("label", "has_read", "vouches"),
    [
        (BOTTOM, False, True),
        (BOTTOM, True, True),
        (STRICTEST_DEFAULT, False, True),
        (STRICTEST_DEFAULT, True, False),
    ],
)
def test_a_run_that_may_have_been_led_and_was_forgotten_is_not_begun_anew(label, has_read, vouches):
    seen = Source(server="mail", tool="search", record="r1", label=label)
    run = Run(id=RunId("r1"), label=label, sources=(seen,) if has_read else ())
    kept = ProvenanceMemory({run.id: RunState(run=run, live=True, idle_s=0.0)}.get)
    assert kept.of(run, "emma").wrote("anything") is not vouches


@pytest.mark.parametrize("known", [True, False])
def test_what_is_forgotten_is_not_begun_anew_for_a_call_that_came_before_it_was_written(known):
    label = STRICTEST_DEFAULT
    seen = Source(server="mail", tool="search", record="r1", label=label)
    before = Run(id=RunId("r1"), label=BOTTOM)
    now = RunState(run=replace(before, label=label, sources=(seen,)), live=True, idle_s=0.0)
    kept = ProvenanceMemory(lambda _: now if known else None)
    assert kept.of(before, "emma").wrote("anything")


def test_a_person_who_lowers_a_label_does_not_speak_for_what_was_written_and_forgotten():
    seen = Source(server="mail", tool="search", record="r1", label=STRICTEST_DEFAULT)
    run = Run(id=RunId("r1"), label=BOTTOM, sources=(seen,))
    kept = ProvenanceMemory(lambda _: RunState(run=run, live=True, idle_s=0.0))
    assert kept.of(run, "emma").wrote("anything")


def test_a_run_that_roams_is_not_all_remembered_here_from_then_on():
    run = Run(id=RunId("r1"), label=BOTTOM)
    kept = ProvenanceMemory(lambda _: RunState(run=run, live=True, idle_s=0.0))
    before = kept.of(run, "emma")
    assert not before.wrote("anything")
    assert before.knows_secrets
    roaming = kept.of(replace(run, roamed=True), "emma")
    assert roaming.wrote("anything")
    assert not roaming.knows_secrets


async def test_ids_of_another_type_or_session_answer_nothing():
    house = House()
    await house.approve_all()
    await house.handle(house.call())
    permit = house.server.saw[0]
    open_ = Conversations()
    open_.ask(permit, 1, ROOTS)
    for id_ in ("1", 2, None):
        with pytest.raises(ProtocolError):
            open_.require_asked(house.request("", id_=id_), permit.principal, None, ROOTS)
    with pytest.raises(ProtocolError):
        open_.require_asked(house.request("", id_=1), permit.principal, "other", ROOTS)
    open_.require_asked(house.request("", id_=1), permit.principal, None, ROOTS)
    with pytest.raises(ProtocolError):
        open_.require_asked(house.request("", id_=1), permit.principal, None, ROOTS)


async def test_what_a_host_was_asked_its_programs_do_not_answer_nor_the_other_way_round():
    house = House()
    await house.approve_all()
    await house.handle(house.call())
    permit = house.server.saw[0]
    host, program = permit.principal, replace(permit.principal, script=ScriptId("s_1"))
    for asked, other in ((host, program), (program, host)):
        open_ = Conversations()
        open_.ask(replace(permit, principal=asked), 1, ROOTS)
        with pytest.raises(ProtocolError):
            open_.require_asked(house.request("", id_=1), other, None, ROOTS)
        open_.require_asked(house.request("", id_=1), asked, None, ROOTS)


async def test_open_questions_are_bounded_and_the_oldest_is_refused(monkeypatch):
    monkeypatch.setattr(conversations, "_OCTETS", 20 * ENTRY)
    house = House()
    await house.approve_all()
    await house.handle(house.call())
    open_ = Conversations()
    permit = house.server.saw[0]
    other = replace(permit, principal=replace(permit.principal, subject="somebody else"))
    open_.ask(other, 1, ROOTS)
    for id_ in range(1, 30):
        open_.ask(permit, id_, ROOTS)
    with pytest.raises(ProtocolError):
        open_.require_asked(house.request("", id_=1), permit.principal, None, ROOTS)
    open_.require_asked(house.request("", id_=29), permit.principal, None, ROOTS)
    # Whoever has little open keeps it.
    open_.require_asked(house.request("", id_=1), other.principal, None, ROOTS)


async def test_as_many_questions_stay_open_however_long_they_are():
    house = House()
    await house.approve_all()
    await house.handle(house.call())
    open_, permit = Conversations(), house.server.saw[0]
    long = conversations.asked_by("sampling/createMessage", {"messages": "x" * 9000}, b"")
    for id_ in range(20_000):
        open_.ask(permit, id_, long)
    assert open_.asked(house.request("", id_=0), permit.principal, None) == long


def reading(house: House, uri: str) -> Call:
    house.server.answer = lambda permit: result(permit, {"contents": []})
    return house.request("resources/read", {"uri": uri}, profile=Profile.LEGACY, session="s1")


async def test_what_callers_ask_about_is_remembered_by_digests_and_within_its_bytes(monkeypatch):
    monkeypatch.setattr(visibility, "_OCTETS", 8 * ENTRY)
    house = House()
    await house.approve_all(Profile.LEGACY)
    for number in range(30):
        assert (await house.handle(reading(house, f"mail://{number}" + "x" * 8000))).code is None
    answers = house.pipeline._admission._visibility._answers
    assert answers.octets <= 8 * ENTRY
    assert {len(key) for key in answers} == {32}


async def test_a_uri_that_is_long_is_a_source_by_its_digest():
    house = House()
    await house.approve_all(Profile.LEGACY)
    uris = ["mail://inbox", *(f"mail://{'x' * 8000}{number}" for number in (1, 2))]
    for uri in uris:
        await house.handle(reading(house, uri))
    run = await house.runs.of(ALICE, UNHINTED)
    assert [source.tool for source in run.sources] == [source_name(uri) for uri in uris]
    assert len({source.tool for source in run.sources}) == 3
    assert max(len(source.tool) for source in run.sources) <= LONGEST_SOURCE


@pytest.mark.parametrize(("body", "many"), [(b"x", 5), (b"x" * 10_000, 1), (b"[]," * 200, 1)])
async def test_calls_whose_streams_were_cut_are_kept_within_their_bytes(monkeypatch, body, many):
    """They count for what they become once they are read."""
    most = 100_000
    monkeypatch.setattr(conversations, "_CUT_OCTETS", most)
    house = House()
    await house.approve_all()
    await house.handle(house.call())
    permit = house.server.saw[0]
    open_ = Conversations()
    for id_ in range(10):
        message = replace(permit.call.message, id=id_, body=body)
        call = replace(permit.call, message=message)
        open_.cut(replace(permit, call=call, session="s"), Trail(call, clock=Hand(), new_id=str))
    assert open_._cut.octets <= most
    here = replace(permit, session="s")
    assert len([id_ for id_ in range(10) if open_.resume(here, id_) is not None]) == many


async def test_what_runs_have_read_is_kept_within_its_bytes(monkeypatch):
    monkeypatch.setattr(memory, "_OCTETS", 3_000_000)
    kept = ProvenanceMemory(lambda _: None)
    for number in range(20):
        source = Source(server="mail", tool="search", record=f"r{number}", label=BOTTOM)
        said = Answered(
            source=source, effect=None, arguments={}, content={"a": "b"}, octets=250_000
        )
        run = Run(id=RunId(f"r{number}"), label=BOTTOM)
        await kept.with_it(
            run, "alice", 0, partial(Provenance.remember, answered=said), looks=False
        )
    assert len(kept._runs._of["alice"]) < 5
    assert kept._runs.octets <= 3_000_000


def hides(found: Provenance) -> None:
    """Have a run read 200 secrets."""
    seen = Source(server="mail", tool="search", record="r1", label=SECRET)
    text = "\n".join(f"password: tulip{number}meadow" for number in range(200))
    for part in (text[:4_000], text[4_000:]):
        content = {"content": [{"type": "text", "text": part}]}
        found.remember(
            Answered(
                source=seen,
                effect=None,
                arguments={},
                content=content,
                octets=len(part),
                level=Confidentiality.PRIVATE,
            )
        )


async def test_what_a_part_of_a_run_reads_of_secrets_counts_in_the_whole_run_as_well():
    kept = ProvenanceMemory(lambda _: None)
    whole = Run(id=RunId("whole"), label=BOTTOM)
    part = Run(id=RunId("part"), label=BOTTOM, part_of=whole.id)
    above = kept.of(whole, "alice")
    before = kept._runs.octets
    await kept.with_it(part, "alice", 0, hides, looks=False)
    within = kept.of(part, "alice")
    assert above.octets > 10_000
    assert kept._runs.octets - before >= above.octets + within.octets


async def test_who_asks_a_run_that_knows_many_secrets_goes_through_them_beside_the_loop():
    kept, here = ProvenanceMemory(lambda _: None), threading.get_ident()
    run = Run(id=RunId("r"), label=SECRET)
    await kept.with_it(run, "alice", 0, hides, looks=False)
    for _ in range(2):  # however often it was asked before
        assert (
            await kept.with_it(run, "alice", 10, lambda _: threading.get_ident(), looks=True)
            != here
        )
