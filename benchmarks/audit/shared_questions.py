"""How long each ready-made question takes in PostgreSQL, beside the same question in SQLite.

python -m benchmarks.audit.shared_questions 1000000

One log, written to SQLite and copied into a PostgreSQL of its own that this starts. A million records
take 7 GB together; all of it is removed at the end. `--keep` keeps SQLite's for the next time.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.audit.corpus import END, write
from benchmarks.audit.questions import FOLDER, questions
from benchmarks.report import print_table
from gateway.audit.query import Filter, compile_filter
from gateway.storage.answers import Answers
from gateway.storage.database import DATABASE
from gateway.storage.index import AuditIndex
from gateway.storage.postgres.answers import PostgresAnswers, PostgresIndex
from gateway.storage.postgres.connection import connect
from gateway.storage.postgres.log_tables import LOG
from gateway.storage.postgres.migrations import migrate
from gateway.storage.postgres.reading_tables import READING
from gateway.storage.ready_answers import ReadyAnswers
from tests.postgres import running
from tests.storage.copied import copy

TIMES = 2.0
"""How many times SQLite's CPU a question may take, if it takes more than `NOTICED_MS` of it."""
NOTICED_MS = 10.0
_TIMES = 5
_LEAST_MS, _MOST_TIMES = 1000.0, 100
"""A question is asked for so long, or so often."""
_SETTINGS: Mapping[str, str] = {"shared_buffers": "512MB", "maintenance_work_mem": "256MB"}


def main() -> int:
    """Print the table; return 1 if a question takes too much longer than in SQLite."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int)
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    folder = FOLDER / f"shared-{given.rows}"
    try:
        return _measured(folder, given.rows)
    finally:
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)


def _measured(folder: Path, rows: int) -> int:
    if not (folder / DATABASE).exists():
        _told("written", lambda: write(folder, rows, lambda _: None))
    with closing(AuditIndex.open(folder)) as index:
        began = time.process_time()
        _told("indexed in SQLite", lambda: index.catch_up(lambda: False))
        print(f"CPU of that: {time.process_time() - began:.0f} s", file=sys.stderr, flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="douane-questions-") as place,
        running(Path(place), _SETTINGS) as server,
    ):
        address = server.fresh()
        with closing(connect(address, application="benchmark")) as connection:
            migrate(connection, LOG, READING)
        _told("copied", lambda: copy(folder, address))
        with closing(PostgresIndex(address)) as there:
            indexing = there._session.use(lambda one: one.info.backend_pid)  # noqa: SLF001 - its CPU
            _told("indexed in PostgreSQL", lambda: there.catch_up(lambda: False))
            print(f"CPU of that: {_used_s(indexing):.1f} s", file=sys.stderr, flush=True)
        with closing(connect(address, application="benchmark", patience_s=3600)) as connection:
            connection.execute("SET statement_timeout = 0")
            _told("analysed", lambda: connection.execute("VACUUM (ANALYZE)"))
            _sizes(connection)
        with (
            closing(Answers.open(folder)) as file,
            closing(PostgresAnswers.open(address)) as shared,
        ):
            return _compared(rows, file, shared)


def _compared(rows: int, file: Answers, shared: PostgresAnswers) -> int:
    found = list(_asked(file, shared))
    print_table(
        (f"{rows:,} records", "SQLite ms", "CPU", "PostgreSQL ms", "CPU"),
        [(name, *(f"{ms:.1f}" for each in both for ms in each)) for name, *both in found],
    )
    slow = [name for name, one, other in found if other[1] > max(TIMES * one[1], NOTICED_MS)]
    print(f"slower than {TIMES:g} times: {', '.join(slow) or 'none'}")
    return int(bool(slow))


def _asked(
    file: Answers, shared: PostgresAnswers
) -> Iterator[tuple[str, tuple[float, float], tuple[float, float]]]:
    """Yield of each question what it took in both, as `_warm` says it."""
    (known, *_) = file.page(compile_filter(Filter(server="crm", limit=1), now=END))
    ((server,),) = shared._rows("SELECT pg_backend_pid()", ())  # noqa: SLF001 - its CPU
    for name, ask in questions(known).items():
        one, other = _warm(ask, file), _warm(ask, shared, server)
        print(f"{name}: {one[0]:.1f} ms, {other[0]:.1f} ms", file=sys.stderr, flush=True)
        yield name, one, other


def _warm(ask: Callable[[Any], Any], answers: ReadyAnswers, server: int = 0) -> tuple[float, float]:
    """Return how many milliseconds a question takes, and how many of CPU, with that of a server."""
    ask(answers)
    took: list[float] = []
    began, used = time.process_time(), _used_s(server)
    while len(took) < _TIMES or (sum(took) < _LEAST_MS and len(took) < _MOST_TIMES):
        took.append(_timed(ask, answers))
    cpu_s = time.process_time() - began + _used_s(server) - used
    return statistics.median(took), cpu_s * 1000 / len(took)


def _used_s(process: int) -> float:
    """Return how much CPU a process has used; the kernel counts it in hundredths of a second."""
    if not process:
        return 0.0
    told = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")


def _timed(ask: Callable[[Any], Any], answers: ReadyAnswers) -> float:
    began = time.perf_counter()
    ask(answers)
    return (time.perf_counter() - began) * 1000


def _told(what: str, act: Callable[[], object]) -> None:
    began = time.perf_counter()
    act()
    print(f"{what}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


def _sizes(connection: Any) -> None:
    rows = connection.execute(
        "SELECT c.relname, pg_total_relation_size(c.oid) / 1000000 FROM pg_class AS c"
        " WHERE c.relnamespace IN ('words'::regnamespace, 'public'::regnamespace) AND c.relkind = 'r'"
        " ORDER BY 2 DESC LIMIT 8"
    ).fetchall()
    print(", ".join(f"{name} {size} MB" for name, size in rows), file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
