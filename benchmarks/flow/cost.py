"""What reviewing a call's flow costs: `measure()`, figures by key.

The run has seen 100 results of 4 KiB, the last ones of many: half of them running text, half JSON
lists with addresses and ids, all of them different. Then 300 calls are reviewed, one after another,
each with one to three destinations and a payload of 1 KiB: a third of the payloads quote a result,
a third are new text, a third carry something encoded. Time is that of the processor, and of a few
rounds a call's quickest counts, so that what else the machine does counts little. Between two calls
nothing is remembered, for what reading a result costs is paid once and told by itself; and told with
the review where one more result comes before each call.

- `cost.review_us_median`, `cost.review_us_p99`: microseconds of one review, reading done before;
- `cost.next_us_median`, `cost.next_late_us_median`: microseconds to keep one more result of 4 KiB and
  to review the call after it, of the first 100 of a run and of those after 300, when for each result
  another one is forgotten;
- `cost.remember_us_per_kib`: microseconds to keep a result for later, per KiB of it;
- `cost.first_ask_us_per_kib`: microseconds to read a result, once, when a call first asks, per KiB;
- `cost.content_us_median`: microseconds to label a result of 4 KiB by its content;
- `cost.bytes_per_run`: bytes of memory that the run's results and what is made of them take, as
  tracemalloc counts them, after the calls.
"""

import base64
import gc
import json
import random
import statistics
import time
import tracemalloc
from collections.abc import Iterator, Mapping
from pydoc_data.topics import topics
from typing import Any

from gateway.domain.flow import Run, RunId, Source
from gateway.domain.labels import STRICTEST_DEFAULT, Effect, Tenant, ToolRule
from gateway.flow.content import content_label
from gateway.flow.provenance import Provenance
from gateway.flow.reading import Answered
from gateway.flow.review import review
from gateway.flow.use import Knowledge, Use

RESULTS, RESULT_SIZE, CALLS, PAYLOAD_SIZE = 100, 4096, 300, 1024
IN_TURN = 400
_ROUNDS = 3
_KIB = 1024
_RULE = ToolRule(effect=Effect.EGRESS, destination=("to", "cc"), payload=("body",))
_NAMES = ("alma", "boris", "chen", "dara", "emil", "fatou", "greta", "hugo", "ines", "jonas")
_PLACES = ("north", "harbour", "mill", "castle", "orchard", "station", "bridge", "field")


class Author:
    """Writes what is like the results of real tools: prose, and records; the same each time.

    The prose has the words of Python's own documentation, as often as they stand there, at random.
    """

    def __init__(self) -> None:
        self._dice = random.Random(1)
        words = (word for topic in topics.values() for word in topic.split())
        self._words = [word for word in words if word.rstrip(".,;:").isalpha() and word.isascii()]

    def words(self, size: int) -> str:
        """Return `size` characters of prose."""
        return " ".join(self._dice.choices(self._words, k=size))[:size]

    def result(self, number: int) -> Mapping[str, Any]:
        """Return a result of about 4 KiB: text, or a list of records in text form."""
        if number % 2:
            return {"content": [{"type": "text", "text": self.words(RESULT_SIZE)}]}
        rows = [
            {
                "id": self._dice.randrange(10**9),
                "sender": self.address(),
                "subject": self.words(40),
                "body": self.words(RESULT_SIZE // 16 - 140),
            }
            for _ in range(16)
        ]
        return {"content": [{"type": "text", "text": json.dumps(rows)}]}

    def address(self) -> str:
        """Return a new address."""
        number = self._dice.randrange(1000)
        return f"{self._dice.choice(_NAMES)}{number}@{self._dice.choice(_PLACES)}.example"

    def call(
        self, number: int, results: list[Mapping[str, Any]], size: int = PAYLOAD_SIZE
    ) -> Mapping[str, Any]:
        """Return the arguments of a call that carries `size` characters."""
        body = self.words(size)
        if number % 3 == 0:
            quoted = self._dice.choice(results)["content"][0]["text"]
            begin = self._dice.randrange(RESULT_SIZE - 500)
            body = body[: size - 300] + quoted[begin : begin + 300]
        elif number % 3 == 1:
            body = body[: size - 200] + base64.b64encode(body[:150].encode()).decode()
        return {"to": [self.address() for _ in range(1 + number % 3)], "body": body}


def measure() -> dict[str, float]:
    """Return the figures; see the module."""
    author = Author()
    results = [author.result(number) for number in range(RESULTS)]
    calls = [author.call(number, results) for number in range(CALLS)]
    provenance, remembered = _remembered(results)
    begun = time.thread_time()
    _reviewed(provenance, calls[0])
    first = time.thread_time() - begun
    rounds = ([_reviewed(provenance, call) for call in calls[1:]] for _ in range(_ROUNDS))
    times = sorted(map(min, zip(*rounds, strict=True)))
    after = list(map(min, zip(*[list(_in_turn(author)) for _ in range(_ROUNDS)], strict=True)))
    labelled = sorted(_labelled(result) for result in results)
    kib = RESULTS * RESULT_SIZE / _KIB
    return {
        "cost.review_us_median": round(statistics.median(times) * 1e6, 1),
        "cost.review_us_p99": round(times[int(len(times) * 0.99)] * 1e6, 1),
        "cost.next_us_median": round(statistics.median(after[:100]) * 1e6, 1),
        "cost.next_late_us_median": round(statistics.median(after[300:]) * 1e6, 1),
        "cost.remember_us_per_kib": round(remembered * 1e6 / kib, 2),
        "cost.first_ask_us_per_kib": round(first * 1e6 / kib, 1),
        "cost.content_us_median": round(statistics.median(labelled) * 1e6, 1),
        "cost.bytes_per_run": _held(results, calls),
    }


def _remembered(results: list[Mapping[str, Any]]) -> tuple[Provenance, float]:
    provenance = Provenance()
    begun = time.thread_time()
    for number, result in enumerate(results):
        provenance.remember(_answered(number, result))
    return provenance, time.thread_time() - begun


def _answered(number: int, result: Mapping[str, Any]) -> Answered:
    return Answered(
        source=Source(server="s", tool="t", record=str(number), label=STRICTEST_DEFAULT),
        effect=Effect.READ,
        arguments={},
        content=result,
        octets=RESULT_SIZE,
        typed=("$[*].id",),
    )


def _in_turn(author: Author) -> Iterator[float]:
    """Yield what each of many calls takes that comes after one more result."""
    provenance = Provenance()
    for number in range(IN_TURN):
        result = author.result(number)
        call = author.call(number, [result])
        begun = time.thread_time()
        provenance.remember(_answered(number, result))
        yield time.thread_time() - begun + _reviewed(provenance, call)


def used(arguments: Mapping[str, Any]) -> Use:
    """Return the use of a tool that sends `arguments`."""
    return Use(server="s", tool="send", rule=_RULE, effect=Effect.EGRESS, arguments=arguments)


def knowing(results: list[Mapping[str, Any]]) -> Knowledge:
    """Return what is known where `results` were read."""
    provenance, _ = _remembered(results)
    return Knowledge(tenant=Tenant(), task=None, provenance=provenance)


def _reviewed(provenance: Provenance, arguments: Mapping[str, Any]) -> float:
    begun = time.thread_time()
    review(
        Run(id=RunId("r"), label=STRICTEST_DEFAULT),
        used(arguments),
        Knowledge(tenant=Tenant(), task=None, provenance=provenance),
    )
    return time.thread_time() - begun


def _labelled(result: Mapping[str, Any]) -> float:
    begun = time.thread_time()
    content_label(result)
    return time.thread_time() - begun


def _held(results: list[Mapping[str, Any]], calls: list[Mapping[str, Any]]) -> int:
    """Return the bytes of a run after some calls, beyond the results as they came."""
    copies: list[Mapping[str, Any]] = json.loads(json.dumps(results))
    gc.collect()
    tracemalloc.start()
    provenance, _ = _remembered(copies)
    for call in calls[:3]:
        _reviewed(provenance, call)
    del copies
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held


if __name__ == "__main__":
    for key, figure in measure().items():
        print(f"{key}: {figure}")
