"""Whatever happens to a run, its label only climbs."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.flow import Run, RunId, Source
from gateway.domain.labels import BOTTOM, Confidentiality, Integrity, Label
from gateway.storage.runs import MOST_SOURCES, raised, whole

labels = st.builds(
    Label,
    integrity=st.sampled_from(Integrity),
    confidentiality=st.sampled_from(Confidentiality),
)
sources = st.builds(
    Source,
    server=st.sampled_from(["mail", "web"]),
    tool=st.integers(0, 40).map(str),
    record=st.integers(0, 1000),
    label=labels,
)


@given(st.lists(st.tuples(labels, st.none() | sources), max_size=120))
def test_a_label_is_the_join_of_all_that_was_raised(raises):
    run, expected = whole(RunId("r_1")), BOTTOM
    for label, source in raises:
        before = run
        run, expected = raised(run, label, source), expected.join(label)
        assert run.label == before.label.join(label) == expected
        assert (run is before) == (run == before)
    assert len(run.sources) <= MOST_SOURCES
    assert len({(each.server, each.tool) for each in run.sources}) == len(run.sources)


@given(labels, sources)
def test_raising_twice_is_raising_once(label, source):
    once = raised(Run(id=RunId("r_1"), label=BOTTOM), label, source)
    assert raised(once, label, source) is once
