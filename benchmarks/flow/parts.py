"""What a call's review and its decision consist of, in microseconds of processor time: `measure()`.

The run, the calls and the rounds are those of `benchmarks.flow.cost`. Each part is done for every call
by itself, so that what it needs of memory is nearer to the processor than among the others: the parts
add up to less than the whole.

    python -m benchmarks.flow.parts --payload 4096

- `review`: all of it; `review.places`: who chose its destinations; `review.pieces`: what of earlier
  results is in its payload;
- `input`: what policy is told of the review, as JSON;
- `policy`: a question that was not asked before, answered as the gateway does; `policy.again`: asked once
  more; `policy.whole`: over all of the question, and nothing remembered; `policy.entered`: so over one in
  which nothing stands.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import orjson

from benchmarks.flow.cost import CALLS, PAYLOAD_SIZE, RESULTS, Author, knowing, used
from benchmarks.flow.offline import engine_of, question
from benchmarks.flow.traces import Step
from benchmarks.report import ROOT
from gateway.domain.flow import FlowReview, Run, RunId
from gateway.domain.labels import STRICTEST_DEFAULT, Effect
from gateway.flow.placing import destination_of
from gateway.flow.question import flow_input
from gateway.flow.review import review
from gateway.flow.use import Use

Asked = TypeVar("Asked")
_ROUNDS = 5
_RUN = Run(id=RunId("r"), label=STRICTEST_DEFAULT)


def measure(payload: int = PAYLOAD_SIZE) -> Mapping[str, float]:
    """Return the median of each part, of calls that carry `payload` characters."""
    author = Author()
    results = [author.result(number) for number in range(RESULTS)]
    knowledge = knowing(results)
    uses = [used(author.call(number, results, payload)) for number in range(CALLS)]
    reviews = [review(_RUN, use, knowledge) for use in uses]

    def places(use: Use) -> None:
        for number, value in enumerate(use.arguments["to"]):
            destination_of(f"$.to[{number}]", value, use, knowledge)

    def pieces(use: Use) -> None:
        knowledge.provenance.matches(use.arguments["body"])

    asked = [_questions(uses, reviews, number) for number in range(_ROUNDS)]
    fresh, engine = (
        engine_of(ROOT / "policies", remembers=remembers) for remembers in (False, True)
    )
    return {
        "review": _median(lambda use: review(_RUN, use, knowledge), [uses] * _ROUNDS),
        "review.places": _median(places, [uses] * _ROUNDS),
        "review.pieces": _median(pieces, [uses] * _ROUNDS),
        "input": _median(lambda found: orjson.dumps(flow_input(found)), [reviews] * _ROUNDS),
        "policy": _median(engine.decide, asked),
        "policy.again": _median(engine.decide, asked),
        "policy.whole": _median(fresh.decide, asked),
        "policy.entered": _median(fresh.decide, [[{"phase": "none"}] * CALLS] * _ROUNDS),
    }


def _questions(
    uses: Iterable[Use], reviews: Iterable[FlowReview], number: int
) -> list[Mapping[str, Any]]:
    """Return what policy is asked; for each `number` another tool, so that none was asked before."""
    return [
        question(_step(f"send{number}_{at}", use.arguments), Effect.EGRESS, None, flow_input(found))
        for at, (use, found) in enumerate(zip(uses, reviews, strict=True))
    ]


def _step(tool: str, arguments: Mapping[str, Any]) -> Step:
    return Step(server="s", tool=tool, arguments=arguments, result={}, of_user=True, harmful=False)


def _median(part: Callable[[Asked], object], rounds: Sequence[Sequence[Asked]]) -> float:
    times = [list(_times(part, asked)) for asked in rounds]
    median: float = statistics.median(map(min, zip(*times, strict=True)))
    return round(median * 1e6, 1)


def _times(part: Callable[[Asked], object], asked: Iterable[Asked]) -> Iterable[float]:
    for one in asked:
        begun = time.thread_time()
        part(one)
        yield time.thread_time() - begun


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="flow-parts", description=__doc__)
    parser.add_argument("--payload", type=int, default=PAYLOAD_SIZE, help="characters of a call")
    for key, figure in measure(parser.parse_args().payload).items():
        print(f"{key}: {figure}")


if __name__ == "__main__":
    main()
