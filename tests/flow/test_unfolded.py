"""What stands in a text where something of its letters does."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.flow.folding import folded
from gateway.flow.fragments import unfolded

_TEXTS = st.one_of(
    st.text("ab .-\n", max_size=120), st.text("ab .\u00e9\u0661\uff21\u200b", max_size=60)
)


def span_by_span(text: str, spans: list[tuple[int, int]]) -> list[str]:
    places = [at for at, c in enumerate(text) for _ in folded(c)]
    return [text[places[begin] : places[end - 1] + 1] for begin, end in spans]


@given(_TEXTS, st.lists(st.integers(0, 120)))
def test_what_letters_were_folded_from_is_found_again(text: str, cuts: list[int]) -> None:
    within = sorted({cut for cut in cuts if cut <= len(folded(text))})
    spans = list(zip(within[::2], within[1::2], strict=False))
    assert list(unfolded(text, spans)) == span_by_span(text, spans)


def test_spans_may_touch_and_begin_after_what_is_left_out() -> None:
    text = "  a--b " + " " * 5000 + "c, d"
    assert list(unfolded(text, [(0, 2), (2, 3), (3, 4)])) == ["a--b", "c", "d"]
