"""How long each ready-made question takes at a log of so many records, warm and cold.

python -m benchmarks.audit.questions 1000000

The log takes 2.7 GB for a million records, its index 0.4 GB; both are removed at the end.
"""

import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.audit.corpus import END, write
from benchmarks.report import ROOT, print_table
from gateway.admin.ask import Asked, found, sent
from gateway.audit.query import Filter, compile_filter
from gateway.domain._value import value
from gateway.storage.answers import Answers
from gateway.storage.database import DATABASE
from gateway.storage.index import INDEX, AuditIndex

FOLDER = ROOT / "var" / "audit-questions"
WARM_MS = 100.0
"""What each question keeps to at 1 M records."""

_WEEK_US = round((END - 7 * 86400) * 1e6)
_NEWEST = (1 << 62, 1 << 62)
_TIMES = 5
_TOLD_S = 10.0
_TOOL = ("crm", "tool_000")
_PERSON = "person007"

Ask = Callable[[Answers], Any]


def questions(known: Mapping[str, Any]) -> Mapping[str, Ask]:
    """Return every question as it is asked here; `known` is a record that is in the log."""

    def page(**asked: Any) -> Ask:
        statement = compile_filter(Filter(**asked), now=END)
        return lambda answers: answers.page(statement)

    hashes = (known["arguments_hmac"],)
    outside = Asked(source="crm", limit=3)
    refused = Asked(source="crm", limit=3, allowed=False)
    return {
        "sent-outside": partial(sent, outside, _WEEK_US, _NEWEST),
        "sent-outside, refused only": partial(sent, refused, _WEEK_US, _NEWEST),
        "who-called, 7 days": lambda a: a.who_called(*_TOOL, _WEEK_US, 20),
        "who-called, 30 days": lambda a: a.who_called(*_TOOL, 0, 20),
        "denied": lambda a: a.refused(_WEEK_US, _NEWEST, 20),
        "denied --by-rule, 30 days": lambda a: a.refusals(0, 20),
        "flows, 7 days": lambda a: a.flows("crm", None, _WEEK_US, 20),
        "flows --to, 30 days": lambda a: a.flows("crm", "mail", 0, 20),
        "run": page(run=known["run"], limit=3000),
        "top --by principal, 30 days": lambda a: a.top("principal", 0, 20),
        "top --by client, 7 days": lambda a: a.top("client", _WEEK_US, 20),
        "top --by tool, 30 days": lambda a: a.top("tool", 0, 20),
        "undeclared, 30 days": lambda a: a.undeclared(0, 20),
        "where-went": partial(found, Asked(hashes=hashes)),
        "timeline": page(principal=_PERSON, limit=20),
        "explain a decision": lambda a: a.records(a.marked(known["decision_id"])),
        "query --server --verdict --since": page(server="crm", verdict="deny", since="7d"),
        "reasons match, 1 in 140, 7 days": page(
            where=_match("outside hours"), limit=20, since="7d"
        ),
        "reasons match, nearly all": page(where=_match("labels allow"), limit=20),
        "reasons match, 1 in 100": page(where=_match("password"), limit=20),
        "reasons match, none": page(where=_match("zebra"), limit=20),
        "reasons match, 1 in 140, refused": page(
            where=_match("outside hours"), verdict="deny", limit=20
        ),
    }


def _match(words: str) -> str:
    return f'reasons match "{words}"'


@value
class Measured:
    """What was found out about a log of so many records."""

    questions: Mapping[str, Mapping[str, float]]
    """Of each question `warm_ms` and `cold_ms`."""
    written_s: float
    indexed_s: float
    log_mb: float
    index_mb: float


def run(rows: int) -> dict[str, dict[str, float]]:
    """Return of each question `warm_ms` and `cold_ms`."""
    return {name: dict(each) for name, each in measure(rows).questions.items()}


def measure(rows: int) -> Measured:
    """Write a log of `rows` records, make its index, and ask it everything."""
    folder = FOLDER / str(rows)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        began = time.perf_counter()
        write(folder, rows, _Told("written", rows))
        written_s = time.perf_counter() - began
        indexed_s = _indexed(folder, rows)
        return Measured(
            questions=dict(_measured(folder)),
            written_s=written_s,
            indexed_s=indexed_s,
            log_mb=(folder / DATABASE).stat().st_size / 1e6,
            index_mb=(folder / INDEX).stat().st_size / 1e6,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Told:
    """Says on standard error, every few seconds, how far something has come."""

    def __init__(self, what: str, rows: int) -> None:
        self._what = what
        self._rows = rows
        self._began = self._last = time.perf_counter()

    def __call__(self, records: int) -> None:
        now = time.perf_counter()
        if now - self._last >= _TOLD_S or records == self._rows:
            self._last, passed = now, now - self._began
            rate = f"{records / passed:,.0f} a second, {passed:.0f} s"
            print(
                f"{self._what}: {records:,} of {self._rows:,}, {rate}", file=sys.stderr, flush=True
            )


def _indexed(folder: Path, rows: int) -> float:
    began = time.perf_counter()
    told = _Told("indexed", rows)
    with closing(AuditIndex.open(folder)) as index:
        while not (found := index.catch_up(lambda: True)).complete:
            told(found.through + 1)
    told(rows)
    return time.perf_counter() - began


def _measured(folder: Path) -> Iterator[tuple[str, dict[str, float]]]:
    with closing(Answers.open(folder)) as answers:
        (known, *_) = answers.page(compile_filter(Filter(server="crm", limit=1), now=END))
    for name, ask in questions(known).items():
        _forget(folder)
        with closing(Answers.open(folder)) as answers:
            cold = _timed(ask, answers)
            warm = statistics.median(_timed(ask, answers) for _ in range(_TIMES))
        print(f"{name}: {warm:.1f} ms, cold {cold:.1f} ms", file=sys.stderr, flush=True)
        yield name, {"warm_ms": warm, "cold_ms": cold}


def _timed(ask: Ask, answers: Answers) -> float:
    began = time.perf_counter()
    ask(answers)
    return (time.perf_counter() - began) * 1000


def _forget(folder: Path) -> None:
    """Have the system forget what it has of the files, as after a start of the machine."""
    for name in (DATABASE, INDEX):
        with suppress(FileNotFoundError), (folder / name).open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> int:
    """Print the table for as many records as are asked for; return 1 if a question is too slow."""
    rows = int(sys.argv[1])
    measured = measure(rows)
    asked = measured.questions
    print_table(
        (f"{rows:,} records", "warm ms", "cold ms"),
        [(name, f"{one['warm_ms']:.1f}", f"{one['cold_ms']:.1f}") for name, one in asked.items()],
    )
    print(
        f"log: {measured.log_mb:.0f} MB, written in {measured.written_s:.0f} s; "
        f"index: {measured.index_mb:.0f} MB, made in {measured.indexed_s:.0f} s"
    )
    return int(any(one["warm_ms"] > WARM_MS for one in asked.values()))


if __name__ == "__main__":
    sys.exit(main())
