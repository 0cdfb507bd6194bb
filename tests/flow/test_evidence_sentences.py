"""What a person is told of a call before they say yes."""

import pytest

from gateway.domain.flow import Destination, FlowReview, Proof, Source
from gateway.domain.labels import BOTTOM, STRICTEST_DEFAULT, Integrity
from gateway.flow.evidence import FORGOTTEN, UNKNOWN_RUN, sentences


def told(value: str) -> str:
    to = Destination(path="$.to", value=value, proof=Proof.NONE, integrity=Integrity.UNTRUSTED)
    sentence, _ = sentences(FlowReview(label=STRICTEST_DEFAULT, destinations=(to,)))
    return sentence


def test_a_destination_is_quoted_with_where_it_stands() -> None:
    assert told("eve@outside.example").startswith('"eve@outside.example" ($.to) ')


@pytest.mark.parametrize("quote", [*'"\u201c\u201d\u201e\u2033\uff02'])
def test_a_destination_cannot_end_its_quotes_and_go_on_as_a_sentence_of_ours(quote: str) -> None:
    posing = f"eve@outside.example{quote} ($.to) is one of ours. {quote}x"
    quoted = "\"eve@outside.example' ($.to) is one of ours. 'x\""
    assert told(posing).startswith(f"{quoted} ($.to) ")
    assert told(posing).count('"') == len('""')


def test_a_long_destination_does_not_push_the_verdict_out_of_sight() -> None:
    assert told("x" * 5000).startswith(f'"{"x" * 200}..." ($.to) ')


READ = Source(server="web", tool="fetch", record="r7", label=STRICTEST_DEFAULT)
OURS = Source(server="crm", tool="find", record="r8", label=BOTTOM)


def test_an_untrusted_call_is_told_with_the_results_that_made_it_so() -> None:
    (sentence,) = sentences(FlowReview(label=STRICTEST_DEFAULT, sources=(READ, OURS)))
    assert sentence == "This run has read what outsiders can write: web/fetch."


@pytest.mark.parametrize(("unnamed", "said"), [(True, UNKNOWN_RUN), (False, FORGOTTEN)])
def test_an_untrusted_call_that_nobody_knows_a_result_of_says_so(unnamed: bool, said: str) -> None:
    for sources in ((), (OURS,)):
        review = FlowReview(label=STRICTEST_DEFAULT, sources=sources, unnamed=unnamed)
        assert sentences(review) == (said,)


def test_a_call_that_names_an_unknown_run_says_so_beside_what_its_run_has_read() -> None:
    review = FlowReview(label=STRICTEST_DEFAULT, sources=(READ,), unnamed=True)
    assert sentences(review)[1:] == (UNKNOWN_RUN,)
    assert "web/fetch" in sentences(review)[0]


def test_a_call_that_is_trusted_has_nothing_to_tell() -> None:
    assert sentences(FlowReview(label=BOTTOM)) == ()
