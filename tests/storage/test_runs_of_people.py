"""Runs of everything that clients do for a person, where the operator wants them so."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.config import load
from gateway.domain.flow import RunHint
from gateway.domain.identity import Principal
from gateway.domain.labels import BOTTOM, STRICTEST_DEFAULT, Confidentiality, Integrity, Label
from gateway.storage.runs import RunLimits, Runs
from gateway.storage.store import Store
from gateway.wiring.foundation import open_store
from tests.storage.memory import MemoryRunStore
from tests.storage.suite import NOW, host, source

NOTHING = RunHint()
PRIVATE = Label(integrity=Integrity.TRUSTED, confidentiality=Confidentiality.PRIVATE)
OUTSIDE = Label(integrity=Integrity.UNTRUSTED, confidentiality=Confidentiality.PUBLIC)
DESKTOP: Principal = replace(host(), client_id="c_desktop")
PHONE: Principal = replace(host(), client_id="c_phone")


@pytest.fixture
def runs() -> Runs:
    return MemoryRunStore(limits=RunLimits(by_person=True))


@asynccontextmanager
async def kept(folder: Path, *, by_person: bool) -> AsyncIterator[Runs]:
    limits = RunLimits(by_person=by_person)
    store = await Store.open(folder, clock=lambda: NOW, runs=limits)
    try:
        yield store.runs
    finally:
        await store.close()


async def test_what_one_client_has_read_every_other_one_of_the_person_has(runs: Runs) -> None:
    run = await runs.of(DESKTOP, NOTHING)
    await runs.raise_label(run.id, PRIVATE, source(of=PRIVATE))
    other = await runs.of(PHONE, NOTHING)
    assert (other.id, other.label) == (run.id, PRIVATE)
    named = replace(PHONE, client_id="c_new", program="Notes")
    assert (await runs.of(named, NOTHING)).label == PRIVATE
    for somebody_else in (replace(PHONE, subject="noah"), replace(PHONE, issuer="https://idp")):
        assert (await runs.of(somebody_else, NOTHING)).label == BOTTOM


@pytest.mark.parametrize(("of", "together"), [("client", False), ("person", True)])
async def test_the_operator_says_whose_calls_are_one(
    of: str, together: bool, tmp_path: Path
) -> None:
    file = tmp_path / "douane.yaml"
    file.write_text(
        f"version: 1\npublic_url: http://127.0.0.1:8300\nservers: {{}}\nruns: {{of: {of}}}\n"
    )
    async with open_store(load(file, {})) as store:
        runs = [(await store.runs.of(client, NOTHING)).id for client in (DESKTOP, PHONE)]
    assert (runs[0] == runs[1]) is together


async def test_a_run_that_was_begun_is_the_clients_alone_and_what_it_reads_is_everybodys(
    runs: Runs,
) -> None:
    handle, begun = await runs.begin(DESKTOP, None)
    mine = RunHint(handle=handle)
    await runs.raise_label(begun.id, PRIVATE, None)
    assert (await runs.of(DESKTOP, mine)).id == begun.id
    foreign = await runs.of(PHONE, mine)
    assert foreign.id == begun.part_of
    assert (foreign.label, foreign.unnamed) == (PRIVATE.join(STRICTEST_DEFAULT), True)
    assert (await runs.of(PHONE, NOTHING)).label == PRIVATE


async def test_whoever_wants_it_otherwise_sheds_nothing(tmp_path: Path) -> None:
    both = PRIVATE.join(OUTSIDE)
    async with kept(tmp_path, by_person=False) as runs:
        for client, label in ((DESKTOP, PRIVATE), (PHONE, OUTSIDE)):
            run = await runs.of(client, NOTHING)
            await runs.raise_label(run.id, label, source(client.client_id, of=label))
    async with kept(tmp_path, by_person=True) as runs:
        run = await runs.of(DESKTOP, NOTHING)
        assert run.label == both
        assert {one.tool for one in run.sources} == {"c_desktop", "c_phone"}
        assert run.roamed  # nothing of that is remembered
        await runs.raise_label(run.id, both, source("later", of=both))
    async with kept(tmp_path, by_person=False) as runs:
        new = await runs.of(replace(PHONE, client_id="c_new"), NOTHING)
        assert (new.label, new.roamed) == (both, True)
        assert (await runs.of(replace(PHONE, subject="noah"), NOTHING)).label == BOTTOM


async def test_whoever_goes_back_and_forth_sheds_nothing(tmp_path: Path) -> None:
    async with kept(tmp_path, by_person=True) as runs:
        await runs.of(DESKTOP, NOTHING)
    async with kept(tmp_path, by_person=False) as runs:
        run = await runs.of(PHONE, NOTHING)
        await runs.raise_label(run.id, PRIVATE, source(of=PRIVATE))
    async with kept(tmp_path, by_person=True) as runs:
        first = await runs.of(DESKTOP, NOTHING)
        assert (first.label, await runs.of(DESKTOP, NOTHING)) == (PRIVATE, first)
        await runs.raise_label(first.id, OUTSIDE, source("web", of=OUTSIDE))
    async with kept(tmp_path, by_person=False) as runs:
        assert (await runs.of(PHONE, NOTHING)).label == PRIVATE.join(OUTSIDE)


async def test_a_run_of_the_person_that_was_ended_takes_up_no_client_again(
    tmp_path: Path,
) -> None:
    async with kept(tmp_path, by_person=False) as runs:
        run = await runs.of(PHONE, NOTHING)
        await runs.raise_label(run.id, PRIVATE, None)
    async with kept(tmp_path, by_person=True) as runs:
        run = await runs.of(DESKTOP, NOTHING)
        assert run.label == PRIVATE
        await runs.end(run.id)
        assert (await runs.of(DESKTOP, NOTHING)).label == BOTTOM
    async with kept(tmp_path, by_person=True) as runs:
        assert (await runs.of(DESKTOP, NOTHING)).label == BOTTOM
