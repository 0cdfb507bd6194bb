import re
import string
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.document import leaves
from gateway.flow.results import text_of, texts_of
from gateway.flow.spoken import _tokens

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("ab@. ", max_size=4), inner)
    ),
)


@given(st.text(string.printable + "\x00\x1c\x1f\x7f"))
def test_plain_text_has_the_words_that_any_text_has(text: str) -> None:
    assert _tokens(text) == re.findall(r"[^\W_]+", text.casefold())


@given(DOCUMENTS)
def test_the_texts_of_a_document_are_its_leaves_in_their_order(document: Any) -> None:
    found = (text_of(leaf) for _, leaf in leaves(document))
    assert list(texts_of(document)) == [text for text in found if text is not None]
