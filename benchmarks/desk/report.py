"""`make desk-report`: what each page of the desk takes, with many records, tools and questions.

One process has it all, without HTTP: use cases, stores on the disk, pages. The log of a million
records takes 2.7 GB below `var`, and is removed at the end.
"""

import argparse
import asyncio
import contextlib
import shutil
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.audit.corpus import write
from benchmarks.desk.clicks import MOST, PEOPLE, clicked
from benchmarks.report import ROOT, print_table, write_report
from gateway.admin.person import Person, Role
from gateway.domain.document import Digest
from gateway.domain.tools import Sighting
from tests.admin.world import NOW, sighting
from tests.signin.browser import Browser
from tests.signin.house import HTTP
from tests.web.desk_site import DeskHouse, desk_house

FOLDER = ROOT / "var" / "desk-report"
TOOLS, QUESTIONS, ROWS = 300, 500, 1_000_000
WARM_MS = 150.0
"""What each page keeps to, at the 95th percentile."""
_TIMES = 20
_PAGES = {
    "now": "/desk",
    "approvals": "/desk/approvals",
    "a question": "/desk/approvals/q001",
    "pins": "/desk/pins",
    "every pin": "/desk/pins/all",
    "a pin": "/desk/pins/one?server=mail&kind=tool&name=tool001",
    "pins together": "/desk/pins/together?server=mail",
    "record": "/desk/record?where=",
    "record, refused": "/desk/record?verdict=deny",
    "a record": "/desk/record/1000",
    "denied": "/desk/record/ask?question=denied&since=365d",
    "denied by rule": "/desk/record/ask?question=denied-by-rule&since=365d",
    "runs": "/desk/runs",
    "policy": "/desk/policy",
    "people": "/desk/people",
    "servers": "/desk/servers",
}
_SCHEMA: Mapping[str, Any] = {
    "inputSchema": {
        "type": "object",
        "properties": {
            f"p{number}": {"type": "string", "description": "a parameter, told in a few words"}
            for number in range(12)
        },
    }
}
_AUDITOR = Person(name="user:otto", roles=frozenset({Role.AUDITOR}))


def shown(text: str) -> list[Sighting]:
    """Return what a server shows that has `TOOLS` tools, each described by `text`."""
    return [sighting(f"tool{n:03}", text, members=_SCHEMA) for n in range(TOOLS)]


async def fill(house: DeskHouse) -> None:
    """Have every definition changed since it was approved, and questions wait."""
    await house.store.pins.observe(shown("Does what its name says, and no more than that."))
    for pin in house.store.pins.all():
        await house.store.pins.approve(
            pin.target, pin.profile, expected=str(pin.observed.digest), by="user:ada", note=""
        )
    await house.store.pins.observe(shown("Does what its name says. Before using it, read this."))
    for number in range(QUESTIONS):
        name = f"q{number:03}"
        await house.ask(name, expires_at=NOW + 100 + number, fingerprint=Digest.of(name.encode()))


async def measured(house: DeskHouse, times: int = _TIMES) -> dict[str, float]:
    """Return what each page takes in milliseconds, and the first review in seconds."""
    browser = await house.signed_in("otto")
    begun = time.perf_counter()
    await _visit(browser, _PAGES["pins"])
    figures = {"pins.first_s": time.perf_counter() - begun}
    for name, path in _PAGES.items():
        figures |= await _timed(name, lambda path=path: _visit(browser, path), times)  # type: ignore[misc]
    query = house.admin.commands.run

    async def asked() -> None:
        answer: Any = query(_AUDITOR, "audit.query", b'{"limit": 50}')
        await answer

    return figures | await _timed("audit query", asked, times)


async def _visit(browser: Browser, path: str) -> None:
    page = await browser.get(HTTP + path)
    if page.status != 200:  # noqa: PLR2004 - HTTP
        raise RuntimeError(f"{path}: {page.status}: {page.text[-300:]}")


async def _timed(name: str, act: Callable[[], Awaitable[None]], times: int) -> dict[str, float]:
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        await act()
        taken.append(1000 * (time.perf_counter() - begun))
    return {f"{name}.p50_ms": statistics.median(taken), f"{name}.p95_ms": percentile(taken, 0.95)}


def percentile(taken: Sequence[float], part: float) -> float:
    """Return the value that `part` of those taken do not exceed."""
    return sorted(taken)[max(0, round(part * len(taken)) - 1)]


def failures_of(figures: Mapping[str, float]) -> list[str]:
    """Return what took longer than is promised."""
    return [
        f"{name.removesuffix('.p95_ms')}: {took:.0f} ms at the 95th percentile, more than {WARM_MS:g}"
        for name, took in figures.items()
        if name.endswith(".p95_ms") and took > WARM_MS
    ] + [
        f"calls take {figures[name]:.2f} times as long while {PEOPLE} people click, more than {MOST:g}"
        for name in ("calls.ratio",)
        if figures.get(name, 0.0) > MOST
    ]


async def run(folder: Path, rows: int, times: int = _TIMES) -> dict[str, float]:
    """Measure every page beside a log of so many records in `folder`."""
    if rows:
        await asyncio.to_thread(write, folder, rows)
    async with desk_house(folder) as house:
        await fill(house)
        await _indexed(house)
        return await measured(house, times)


async def _indexed(house: DeskHouse) -> None:
    """Return once the index has all records: behind a gateway it follows them by itself."""
    while True:
        answer: Any = house.admin.commands.run(
            _AUDITOR, "audit.ask", b'{"question": "denied-by-rule", "since": "1h"}'
        )
        if (await answer)["complete"]:
            return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    rows = parser.parse_args().rows
    try:
        figures = asyncio.run(run(FOLDER, rows))
        figures |= clicked(FOLDER / "clicks")
    finally:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(FOLDER)
    names = [name.removesuffix(".p50_ms") for name in figures if name.endswith(".p50_ms")]
    print_table(
        ["page", "p50 ms", "p95 ms"],
        [[n, f"{figures[f'{n}.p50_ms']:.1f}", f"{figures[f'{n}.p95_ms']:.1f}"] for n in names],
    )
    slowest = max(took for name, took in figures.items() if name.endswith(".p95_ms"))
    return write_report(
        "desk",
        {"rows": rows, **figures},
        failures_of(figures),
        [
            "Pages: one person, one at a time, without HTTP and without calls beside it.",
            f"Calls beside people: a real gateway with a short log, {PEOPLE} people, a click a second each.",
            f"The first review of {TOOLS} changed definitions ({figures['pins.first_s']:.1f} s) is not promised.",
        ],
        summary=f"{len(names)} pages, the slowest {slowest:.0f} ms at the 95th percentile;"
        f" calls take {figures['calls.ratio']:.2f} times as long while {PEOPLE} people click",
    )


if __name__ == "__main__":
    sys.exit(main())
