"""What is long is looked at in steps that let others have their turn, and is told as in one."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.dlp import lists, values
from gateway.flow import credentials, steps
from tests.flow.test_long_steps import LENGTH, ONE_BY_ONE, longest_gap_s

TEXTS = st.lists(
    st.sampled_from(["a", "b", " ", ".", "é", "e\u0301", "_", "\u0130", "abc " * 9, "-" * 40])
)
LIST = lists.read_list("own:l", lists.made_list(["a b", "é b a"], documents=False, key=bytes(16)))
EXAMPLE = re.compile(
    rb"example|sample|placeholder|your[_-]|my[_-]?(?:password|secret|key)|changeme|redacted|dummy"
    rb"|x{4}|\*{3}|\.{3}|0{8}|1234567890|abcdefgh",
    re.IGNORECASE,
)


@given(TEXTS.map("".join), st.integers(1, 9))
@example("a b  é b a", 1)
@example("A-\u0130 .b", 1)
def test_values_and_lists_are_looked_at_step_by_step_as_in_one(text: str, step: int) -> None:
    told = values._key(text), [*LIST.spans(text)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "STEP", step)
        assert told == (values._key(text), [*LIST.spans(text)])


PARTS = [
    b"exAmple",
    b"your",
    b"-",
    b"_",
    b"my",
    b"Key",
    b"x",
    b"***",
    b".",
    b"0000",
    b"abcdefgh",
    b"\xff\xb5",
    b"q7",
]


@given(st.lists(st.sampled_from(PARTS)).map(b"".join), st.integers(1, 9))
@example(b"aaaaaaaabcdefgi", 1)
@example(b"KEY my-\xe2\x84\xaaey 12345", 1)
def test_examples_are_told_by_their_words_and_by_how_few_signs_they_have(
    text: bytes, step: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(credentials, "STEP", step)
        told = credentials.is_example(text)
    assert told == (len(set(text)) < 8 or EXAMPLE.search(text) is not None)


@pytest.mark.parametrize(
    "work",
    [
        lambda: credentials.is_example(b"abcdefghi." * (LENGTH // 2)),
        lambda: credentials.is_example(b"a" * LENGTH * 4),
        lambda: values._key("a." * LENGTH),
        lambda: [*LIST.spans("." * LENGTH * 2)],
    ],
    ids=["examples", "few signs", "values", "lists"],
)
async def test_no_long_value_keeps_the_loop_from_its_turn(work) -> None:
    one_by_one = await longest_gap_s(lambda: ONE_BY_ONE.sub(b"", b". " * (LENGTH // 2)))
    assert await longest_gap_s(work) < one_by_one / 2
