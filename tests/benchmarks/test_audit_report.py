"""The report of the record fails where a figure is not kept, and only there."""

from dataclasses import replace

from benchmarks.audit.report import ASKED_ROWS, Measured, failures_of, figures_of
from benchmarks.durability.cuts import Losses
from benchmarks.durability.kills import Survival
from gateway.storage.connection import Durability


def kept() -> Measured:
    survival = Survival(kills=1)
    survival.began = survival.answered = {"call"}
    survival.records["call"] = [("intent", "d"), ("outcome", "d")]
    survival.forwarded["call"] = 1
    return Measured(
        throughput={"group_commit": {"per_s": 9000.0, "p99_ms": 12.0}},
        shares={1: {"share": 0.2}},
        survivals={"refuse": survival},
        losses={
            "power": Losses(durability=Durability.POWER, cuts=9),
            "process": Losses(durability=Durability.PROCESS, cuts=9, losing=4),
        },
        tampering={"tried": 3, "detected": 3, "located": 3, "missed": []},
        questions={ASKED_ROWS: {"run": {"warm_ms": 3.0, "cold_ms": 900.0}}},
    )


def test_what_keeps_every_promise_fails_nowhere() -> None:
    assert failures_of(kept()) == []


def test_every_broken_promise_is_named() -> None:
    unanswered = Survival(kills=1)
    broken = replace(
        kept(),
        throughput={"group_commit": {"per_s": 2999.0, "p99_ms": 101.0}},
        survivals={"refuse": unanswered},
        losses={
            "power": Losses(durability=Durability.POWER, cuts=9, losing=1),
            "process": Losses(durability=Durability.PROCESS, cuts=9),
        },
        tampering={"tried": 3, "detected": 2, "located": 2, "missed": ["a row was moved"]},
        questions={ASKED_ROWS: {"run": {"warm_ms": 101.0, "cold_ms": 1.0}}},
    )
    assert failures_of(broken) == [
        "2999 durable records a second, promised 3000",
        "p99 101.0 ms, promised 100",
        "kills, refuse: no call was answered, so nothing could be lost",
        "cuts, power: 1 lost acknowledged records",
        "no cut lost anything with `process`: the cuts show nothing",
        "not noticed: a row was moved",
        f"run: 101 ms at {ASKED_ROWS:,} records, promised 100",
    ]


def test_a_lost_record_fails() -> None:
    lossy = kept()
    lossy.survivals["refuse"].records["call"] = [("intent", "d")]
    assert any("lost" in failure or "call" in failure for failure in failures_of(lossy))


def test_a_spool_that_took_nothing_shows_nothing() -> None:
    found = kept()
    idle = Losses(durability=Durability.POWER, cuts=9)
    found = replace(
        found,
        survivals={"spool": found.survivals["refuse"]},
        losses={**found.losses, "power, spooling": idle},
    )
    assert failures_of(found) == [
        "kills, spool: nothing was spooled, so nothing of it could be lost",
        "cuts, power, spooling: nothing was spooled, so nothing of it could be lost",
    ]


def test_figures_have_one_name_each() -> None:
    assert figures_of(kept()) == {
        "group_commit.per_s": 9000.0,
        "group_commit.p99_ms": 12.0,
        "call.1.share": 0.2,
        "kills.refuse": 1,
        "kills.refuse.answered": 1,
        "kills.refuse.lost": 0,
        "kills.refuse.spooled": 0,
        "cuts.power": 9,
        "cuts.power.losing": 0,
        "cuts.process": 9,
        "cuts.process.losing": 4,
        "tampering.tried": 3,
        "tampering.detected": 3,
        "tampering.located": 3,
        f"rows.{ASKED_ROWS}.run.warm_ms": 3.0,
        f"rows.{ASKED_ROWS}.run.cold_ms": 900.0,
    }
