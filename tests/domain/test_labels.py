from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.labels import (
    BOTTOM,
    STRICTEST_DEFAULT,
    Confidentiality,
    Integrity,
    Label,
    ServerRule,
    ToolRule,
)

LABELS = st.builds(
    Label, integrity=st.sampled_from(Integrity), confidentiality=st.sampled_from(Confidentiality)
)


def at_least_as_restrictive(one: Label, other: Label) -> bool:
    return one.integrity <= other.integrity and one.confidentiality >= other.confidentiality


@given(LABELS, LABELS)
def test_join_is_commutative(one: Label, other: Label) -> None:
    assert one.join(other) == other.join(one)


@given(LABELS, LABELS, LABELS)
def test_join_is_associative(one: Label, two: Label, three: Label) -> None:
    assert one.join(two).join(three) == one.join(two.join(three))


@given(LABELS)
def test_join_is_idempotent_and_bottom_is_neutral(label: Label) -> None:
    assert label.join(label) == label
    assert label.join(BOTTOM) == label


@given(LABELS, LABELS, LABELS)
def test_join_is_monotone(one: Label, other: Label, third: Label) -> None:
    if at_least_as_restrictive(one, other):
        assert at_least_as_restrictive(one.join(third), other.join(third))


@given(LABELS, LABELS, LABELS)
def test_join_is_the_least_label_above_both(one: Label, other: Label, above: Label) -> None:
    joined = one.join(other)
    assert at_least_as_restrictive(joined, one)
    assert at_least_as_restrictive(joined, other)
    if at_least_as_restrictive(above, one) and at_least_as_restrictive(above, other):
        assert at_least_as_restrictive(above, joined)


@given(st.lists(LABELS), LABELS)
def test_a_source_can_only_raise(sources: list[Label], label: Label) -> None:
    for source in sources:
        raised = label.join(source)
        assert at_least_as_restrictive(raised, label)
        label = raised


def test_labels_are_told_in_the_contracts_words() -> None:
    assert STRICTEST_DEFAULT.words == {"integrity": "untrusted", "confidentiality": "private"}


def test_a_tool_that_nobody_described_has_the_empty_rule() -> None:
    known = ToolRule(destination=("to",))
    rule = ServerRule(tools={"send": known})
    assert (rule.default, rule.tool("send"), rule.tool("Send")) == (
        STRICTEST_DEFAULT,
        known,
        ToolRule(),
    )
