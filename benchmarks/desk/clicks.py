"""What calls take while ten people click through the desk, beside what they take alone, in one run.

A real gateway in a process of its own. Rounds with and without people take turns, so that whatever else
the machine does falls on both.
"""

import asyncio
import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.report import ROOT
from tests.e2e.own import own_gateway
from tests.e2e.posting import Poster
from tests.e2e.scripted import raw_in_a_thread
from tests.e2e.site import Corridor
from tests.signin.browser import Browser, over_http
from tests.signin_e2e.house import PASSWORD

PEOPLE, ROUNDS, CALLS = 10, 6, 150
MOST = 1.1
"""How many times as long a call may take while they click."""
_LOOKS_S = 1.0
"""How long somebody looks at a page before the next click."""
_PAGES = ("/desk", "/desk/approvals", "/desk/pins", "/desk/record", "/desk/policy", "/desk/servers")


def clicked(folder: Path, *, rounds: int = ROUNDS, calls: int = CALLS) -> dict[str, float]:
    """Return the medians of calls alone and beside people, in milliseconds, and their ratio."""
    with (
        raw_in_a_thread() as raw,
        own_gateway(folder / "gateway", raw, ROOT / "policies") as corridor,
    ):
        cookie = asyncio.run(_sign_in(corridor))
        poster = Poster(corridor, "raw")
        alone: list[float] = []
        beside: list[float] = []
        for _ in range(rounds):
            alone += _calls(poster, calls)
            with _people(corridor.url, cookie):
                beside += _calls(poster, calls)
    quiet, busy = _median(alone), _median(beside)
    return {
        "calls.alone_p50_ms": quiet,
        "calls.beside_people_p50_ms": busy,
        "calls.ratio": busy / quiet,
    }


def _calls(poster: Poster, number: int) -> list[float]:
    taken = []
    for _ in range(number):
        begun = time.perf_counter()
        poster.call("allowed", {"text": "x"})
        taken.append(1000 * (time.perf_counter() - begun))
    return taken


def _median(taken: list[float]) -> float:
    return sorted(taken)[len(taken) // 2]


async def _sign_in(corridor: Corridor) -> str:
    """Add an auditor, sign them in, and return their cookies as a header."""
    options = ("--group", "users", "--group", "auditors")
    (row,) = corridor.running.rows("users", "add", "otto", *options)
    browser = Browser(over_http(), reaches=lambda url: url.startswith(corridor.url))
    page = await browser.get(row["setup_url"])
    await browser.submit(page.forms[0], page, password=PASSWORD, repeated=PASSWORD)
    page = await browser.get(f"{corridor.url}/sign-in")
    await browser.submit(page.form("sign-in"), page, username="otto", password=PASSWORD)
    (jar,) = browser.cookies.values()
    return "; ".join(f"{name}={told}" for name, told in jar.items())


@contextmanager
def _people(url: str, cookie: str) -> Iterator[None]:
    """Have ten people click while the context is open."""
    over = threading.Event()
    threads = [
        threading.Thread(target=_click, args=(url, cookie, over, number))
        for number in range(PEOPLE)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _click(url: str, cookie: str, over: threading.Event, number: int) -> None:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    # They do not click all at once.
    over.wait(_LOOKS_S * number / PEOPLE)
    while not over.is_set():
        connection.request("GET", _PAGES[number % len(_PAGES)], headers={"cookie": cookie})
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise RuntimeError(f"a page of the desk answers {answer.status}")
        answer.read()
        number += 1
        over.wait(_LOOKS_S)
    connection.close()
