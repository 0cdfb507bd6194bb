"""A search for words gives the page that reading every record would, wherever the words lie."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.audit.query import Filter, Order, compile_filter, cursor_of
from gateway.storage import index, index_words, windows
from gateway.storage.answers import Answers
from gateway.storage.index import AuditIndex
from tests.storage.logged import NOW, Event, remove_before, write

RECORDS = 70
WORDS = ("amber", "birch", "cedar")


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    """Have a log of few records lie in many tables, each of several spans."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (index, windows):
            patch.setattr(module, "SPAN", 4)
        for module in (index_words, windows):
            patch.setattr(module, "PARTITION", 16)
        for size in ("_FEWEST", "_MOST", "_AGAIN"):
            patch.setattr(index, size, 3)
        yield


def _events(seed: int) -> list[Event]:
    """Records whose times are not quite in their order, some at the same time."""
    dice = random.Random(seed)
    events: list[Event] = []
    for number in range(RECORDS):
        words = [word for rank, word in enumerate(WORDS) if dice.random() < 0.5 ** (3 * rank)]
        late = dice.choice((0, 0, 0, 0, -3, -40, 200))
        fields = {
            "server": dice.choice(("mail", "crm")),
            "verdict": dice.choice(("allow", "deny")),
            "reasons": [{"code": "said", "message": " ".join(words)}],
        }
        events.append(("outcome", NOW + number // 2 + late, fields))
    return events


class Log:
    """What was written, and the page that everything read gives."""

    def __init__(self, folder: Path, events: list[Event], first: int) -> None:
        self.folder = folder
        self.rows = [
            (at, leaf, fields) for leaf, (_, at, fields) in enumerate(events) if leaf >= first
        ]

    def page(self, wanted: Any, order: Order) -> list[int]:
        rows = [(at, leaf) for at, leaf, fields in self.rows if wanted(at, fields)]
        return [leaf for _, leaf in sorted(rows, reverse=order is Order.NEWEST)]


@pytest.fixture(scope="module", params=["all of it", "behind", "pruned", "pruned, and made again"])
def log(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, _small: None
) -> Log:
    """A log whose index has come as far as the name says."""
    folder = tmp_path_factory.mktemp("log")
    events = _events(len(request.param))
    asyncio.run(write(folder, events))
    first = 0
    with closing(AuditIndex.open(folder)) as made:
        while not made.catch_up(lambda: True).complete and request.param != "behind":
            pass
        if request.param.startswith("pruned"):
            first = 37
            remove_before(folder, first)
            for _ in range(2 if request.param == "pruned" else 40):
                made.catch_up(lambda: True)
    return Log(folder, events, first)


def _said(word: str) -> Any:
    return lambda at, fields: word in fields["reasons"][0]["message"]


CASES: dict[str, tuple[dict[str, Any], Any]] = {
    **{word: ({"where": f"reasons match {word}"}, _said(word)) for word in (*WORDS, "zebra")},
    "of a server": (
        {"where": "reasons match birch", "server": "crm"},
        lambda at, f: _said("birch")(at, f) and f["server"] == "crm",
    ),
    "refused": (
        {"where": "reasons match 'amber birch'", "verdict": "deny"},
        lambda at, f: _said("amber birch")(at, f) and f["verdict"] == "deny",
    ),
    "not": ({"where": "not reasons match amber"}, lambda at, f: not _said("amber")(at, f)),
    "or": (
        {"where": "reasons match cedar or server = crm"},
        lambda at, f: _said("cedar")(at, f) or f["server"] == "crm",
    ),
    "two": (
        {"where": "reasons match amber and not reasons match birch"},
        lambda at, f: _said("amber")(at, f) and not _said("birch")(at, f),
    ),
    "between": (
        {"where": "reasons match birch", "since": "2027-01-15T08:00:20Z", "until": "40s"},
        lambda at, f: _said("birch")(at, f) and NOW + 20 <= at < NOW + 60,
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("order", Order)
def test_pages_are_those_that_reading_everything_gives(log: Log, case: str, order: Order) -> None:
    asked, wanted = CASES[case]
    with closing(Answers.open(log.folder)) as answers:
        for limit in (1, 4, 1000):
            pages = list(_pages(answers, asked, order, limit))
            assert [leaf for page in pages for leaf in page] == log.page(wanted, order)
            assert {len(page) for page in pages[:-1]} <= {limit}


def _pages(
    answers: Answers, asked: dict[str, Any], order: Order, limit: int
) -> Iterator[list[int]]:
    after = None
    while True:
        filter_ = Filter(**asked, order=order, limit=limit, after=after)
        page = answers.page(compile_filter(filter_, now=NOW + 100))
        yield [record["leaf_index"] for record in page]
        if len(page) < limit:
            return
        after = cursor_of(page[-1], order)
