"""Whatever happens to runs, their labels only climb, and no hint sheds one."""

import asyncio
from dataclasses import replace
from functools import reduce
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.flow import Run, RunHint, RunId, Source
from gateway.domain.labels import BOTTOM, STRICTEST_DEFAULT, Confidentiality, Integrity, Label
from gateway.storage.run_changes import MOST_SOURCES, raised
from tests.storage.memory import MemoryRunStore
from tests.storage.suite import RUN_LIMITS, Elapsed, host

labels = st.builds(
    Label,
    integrity=st.sampled_from(Integrity),
    confidentiality=st.sampled_from(Confidentiality),
)
sources = st.builds(
    Source,
    server=st.sampled_from(["mail", "web"]),
    tool=st.integers(0, 40).map(str),
    record=st.integers(0, 1000).map(str),
    label=labels,
)


@given(st.lists(st.tuples(labels, st.lists(sources, max_size=2)), max_size=120))
def test_a_label_is_the_join_of_all_that_was_raised(raises):
    run, expected = Run(id=RunId("r_1"), label=BOTTOM), BOTTOM
    for label, new in raises:
        before = run
        run, expected = raised(run, label, new), expected.join(label)
        assert run.label == before.label.join(label) == expected
        assert (run is before) == (run == before)
    most = MOST_SOURCES + 1 + len(Integrity) + len(Confidentiality)
    assert len(run.sources) <= most  # one of the second server, and what raised it
    assert len({(each.server, each.tool) for each in run.sources}) == len(run.sources)


@given(st.lists(sources, min_size=1, max_size=120), sources)
def test_what_raised_a_run_is_among_its_sources_however_many_there_are(reads, last):
    run = Run(id=RunId("r_1"), label=BOTTOM)
    for number, source in enumerate([*reads, *reads, last]):
        run = raised(run, source.label, [replace(source, tool=str(number))])
    assert reduce(Label.join, (source.label for source in run.sources), BOTTOM) == run.label


@given(labels, st.lists(sources, max_size=4))
def test_raising_twice_is_raising_once(label, new):
    once = raised(Run(id=RunId("r_1"), label=BOTTOM), label, new)
    assert raised(once, label, new) is once


tokens = st.sampled_from(["t_1", "t_2", "t_3"])
handles = st.integers(0, 5)
"""Which of the handles that were given out so far; beyond them one that was made up."""
steps = st.one_of(
    st.tuples(st.just("read"), tokens, st.none() | handles, labels),
    st.tuples(st.just("begin"), tokens),
    st.tuples(st.just("end"), handles),
    st.tuples(st.just("wait"), st.floats(0, RUN_LIMITS.idle_s * 1.2)),
)


class Model:
    """What every run must have seen, told by another road: each read is kept with all runs that
    were live when it was released.
    """

    def __init__(self) -> None:
        self.elapsed = Elapsed()
        self.store = MemoryRunStore(limits=RUN_LIMITS, elapsed=self.elapsed)
        self.handles: list[str] = []
        self.begun: dict[str, RunId] = {}
        self.seen: dict[RunId, Label] = {}

    def handle(self, number: int | None) -> str | None:
        if number is None:
            return None
        return self.handles[number] if number < len(self.handles) else f"made up {number}"

    def note(self) -> None:
        for state in self.store.all():
            self.seen.setdefault(state.run.id, BOTTOM)

    async def read(self, token: str, number: int | None, label: Label) -> None:
        handle = self.handle(number)
        who = replace(host(), token_id=token)
        run = await self.store.of(who, RunHint(handle=handle))
        whole = await self.store.of(who, RunHint())
        self.note()
        if run.part_of is None:
            assert run.id == whole.id
            floor = whole.label if handle is None else whole.label.join(STRICTEST_DEFAULT)
            assert run.label == floor
        else:
            assert handle is not None
            assert run.id == self.begun[handle]
        await self.store.raise_label(run.id, label, None)
        for state in self.store.all():
            mine = state.run.id == run.id
            if mine or (
                state.run.part_of is None and self.store._kept[state.run.id].ended is False
            ):
                self.seen[state.run.id] = self.seen[state.run.id].join(label)

    async def take(self, step: Any) -> None:
        match step:
            case ("read", token, number, label):
                await self.read(token, number, label)
            case ("begin", token):
                handle, run = await self.store.begin(replace(host(), token_id=token), None)
                assert run.label == BOTTOM
                self.handles.append(handle)
                self.begun[handle] = run.id
            case ("end", number):
                named = self.begun.get(self.handle(number) or "")
                if named is not None:
                    await self.store.end(named)
            case ("wait", seconds):
                self.elapsed.now += seconds
            case _:
                raise AssertionError(step)
        self.note()
        assert {state.run.id: state.run.label for state in self.store.all()} == self.seen


@given(st.lists(steps, max_size=40))
def test_every_run_has_seen_what_was_read_in_it_and_its_whole_run_all_the_more(taken):
    async def play() -> None:
        model = Model()
        for step in taken:
            await model.take(step)

    asyncio.run(play())


@given(st.lists(st.tuples(st.integers(0, 2), labels), max_size=30))
def test_in_any_interleaving_labels_are_joined(raises):
    async def play() -> None:
        store = MemoryRunStore(limits=RUN_LIMITS, elapsed=Elapsed())
        runs = [(await store.begin(host(), None))[1] for _ in range(3)]
        await asyncio.gather(*(store.raise_label(runs[n].id, each, None) for n, each in raises))
        for position, run in enumerate(runs):
            expected = BOTTOM
            for n, each in raises:
                expected = expected.join(each) if n == position else expected
            state = store.find(run.id)
            assert state is not None
            assert state.run.label == expected
        grant = await store.of(host(), RunHint())
        everything = BOTTOM
        for _, each in raises:
            everything = everything.join(each)
        assert grant.label == everything

    asyncio.run(play())
