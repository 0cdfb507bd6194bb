from hypothesis import given
from hypothesis import strategies as st

from gateway.flow.index import Index

TEXTS = st.lists(st.frozensets(st.sampled_from("abcde")), max_size=8)


@given(TEXTS, st.data())
def test_a_word_is_found_in_the_texts_that_have_it_until_they_are_forgotten(
    texts: list[frozenset[str]], data: st.DataObject
) -> None:
    index: Index[str, int] = Index()
    for number, words in enumerate(texts):
        index.add(number, words)
    left = dict(enumerate(texts))
    for number in data.draw(
        st.lists(st.sampled_from(range(len(texts))), unique=True) if texts else st.just([])
    ):
        index.drop(number, left.pop(number))
    for word in "abcde":
        assert index.having(word) == tuple(n for n, words in left.items() if word in words)
    if not left:
        assert not index._texts
