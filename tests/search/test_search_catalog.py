"""What is indexed follows what is approved."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.domain.document import Document
from gateway.domain.tools import Kind, Manifest, Profile, Target, UpstreamId
from gateway.search import catalog as catalog_module
from gateway.search.catalog import Approved, Catalog
from gateway.search.finder import Finder, Meaning
from gateway.search.meaning import Vectorized
from gateway.search.tools import Ranking, Strategy, ToolText
from tests.search.tools_to_find import Hashed, Remembering


def manifest(name: str, description: str) -> Manifest:
    content = {"name": name, "description": description}
    target = Target(server=UpstreamId("files"), kind=Kind.TOOL, name=name)
    return Manifest(target=target, profile=Profile.MODERN, definition=Document.of(content))


READ = (manifest("read", "Read a file."), "")
WRITE = (manifest("write", "Write a file."), "")
BOTH = {"r": READ, "w": WRITE}


class Counted(Finder):
    """A finder that knows what it was told to index."""

    def __init__(self, meaning: Meaning | None = None) -> None:
        super().__init__(meaning)
        self.told: list[str] = []

    async def add(self, tool: Any) -> None:
        self.told.append(tool.id)
        await super().add(tool)

    async def remove(self, tool: str) -> None:
        self.told.append(f"-{tool}")
        await super().remove(tool)


@pytest.fixture
def finder() -> Any:
    finder = Counted()
    yield finder
    finder.close()


async def search(catalog: Catalog, approved: dict[str, Approved], **more: Any) -> Ranking:
    wanted: dict[str, Any] = {"visible": approved.keys(), "limit": 50, **more}
    return await catalog.search("file", approved=approved, **wanted)


def ids(ranking: Ranking) -> list[str]:
    return sorted(hit.id for hit in ranking.hits)


async def test_only_what_changed_is_indexed_anew(finder: Counted) -> None:
    catalog = Catalog(finder)
    assert ids(await search(catalog, BOTH)) == ["r", "w"]
    await search(catalog, BOTH)
    assert finder.told == ["r", "w"]
    other = (manifest("read", "Fetch a file."), "")
    assert ids(await search(catalog, {"r": other, "w": WRITE})) == ["r", "w"]
    assert finder.told == ["r", "w", "r"]


async def test_what_is_approved_no_more_is_forgotten(finder: Counted) -> None:
    catalog = Catalog(finder)
    await search(catalog, BOTH)
    assert ids(await search(catalog, {"r": READ}, visible=BOTH.keys())) == ["r"]
    assert finder.told == ["r", "w", "-w"]
    assert ids(await search(catalog, BOTH)) == ["r", "w"]


async def test_only_what_is_visible_is_found(finder: Counted) -> None:
    found = await search(Catalog(finder), BOTH, visible={"w", "x"})
    assert (ids(found), found.found) == (["w"], 1)


async def test_the_strategy_is_the_one_that_is_asked_for(finder: Counted) -> None:
    catalog = Catalog(finder)
    assert (await search(catalog, BOTH)).answered_by is Strategy.KEYWORD
    assert (await search(catalog, BOTH, strategy="regex")).answered_by is Strategy.REGEX


async def test_others_get_their_turn_while_much_is_indexed(finder: Counted) -> None:
    many = {f"t{i}": (manifest(f"t{i}", "A file."), "") for i in range(1_000)}
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    waiting = asyncio.create_task(others())
    assert len(ids(await search(Catalog(finder), many))) == 50
    waiting.cancel()
    assert turns >= 50
    assert len(finder.told) == 1_000


async def test_two_searches_at_once_index_everything_once(finder: Counted) -> None:
    catalog = Catalog(finder)
    many = {f"t{i}": (manifest(f"t{i}", "A file."), "") for i in range(100)}
    await asyncio.gather(search(catalog, many), search(catalog, many))
    assert len(finder.told) == 100


async def test_what_a_server_says_of_itself_helps_to_find_its_tools(finder: Counted) -> None:
    catalog = Catalog(finder)
    plain, described = (READ[0], ""), (READ[0], "Giraffes in the savannah.")
    for approved, found in ((plain, []), (described, ["r"]), (plain, [])):
        everything = {"r": approved}
        ranking = await catalog.search(
            "giraffe", approved=everything, visible=everything.keys(), limit=5
        )
        assert ids(ranking) == found


@pytest.mark.parametrize("gone", [False, True])
async def test_what_nobody_waited_to_see_indexed_is_indexed_as_it_is_then(
    finder: Counted, gone: bool
) -> None:
    catalog = Catalog(finder)
    before = {"r": (manifest("read", "Play music."), ""), "w": WRITE}
    after: dict[str, Approved] = {"w": WRITE} if gone else BOTH
    assert ids(await search(catalog, before)) == ["r", "w"]
    going = threading.Event()
    held = asyncio.create_task(finder._turns.take("x", going.wait, 60))
    await asyncio.sleep(0)
    searching = asyncio.create_task(search(catalog, after))
    while len(finder.told) < 3:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    searching.cancel()
    going.set()
    await held
    found = await catalog.search("music", approved=before, visible=before.keys(), limit=5)
    assert ids(found) == ["r"]


@pytest.mark.parametrize(("said", "leaves"), [("Short.", False), ("Long. " * 5_000, True)])
async def test_a_long_definition_is_read_beside_the_loop(
    finder: Counted, monkeypatch: pytest.MonkeyPatch, said: str, leaves: bool
) -> None:
    threads = []
    read = ToolText.of

    def noting(*args: Any, **more: Any) -> ToolText:
        threads.append(threading.get_ident())
        return read(*args, **more)

    monkeypatch.setattr(ToolText, "of", noting)
    await search(Catalog(finder), {"r": (manifest("read", said), "")})
    assert (threading.get_ident() not in threads) is leaves


class Ready:
    """A catalog that is kept ready in the background, of what `approved` is at the time."""

    def __init__(self, meaning: Meaning, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(catalog_module, "_LOOK_S", 0.001)
        self.approved: dict[str, Approved] = {}
        self.finder = Counted(meaning)
        self.catalog = Catalog(self.finder)
        self._keeping = asyncio.create_task(self.catalog.keep_ready(lambda: self.approved))

    async def answered_by(self) -> Strategy:
        return (await search(self.catalog, self.approved)).answered_by

    async def until(self, strategy: Strategy) -> None:
        async with asyncio.timeout(60):
            while await self.answered_by() is not strategy:
                await asyncio.sleep(0.001)

    async def aclose(self) -> None:
        self._keeping.cancel()
        await asyncio.gather(self._keeping, return_exceptions=True)
        self.finder.close()


class Slow(Hashed):
    """An embedder that embeds nothing of a tool until it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.let = threading.Event()

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        if texts and texts[0]:
            self.let.wait(10)
        return super().embed(texts)


async def test_what_is_approved_is_indexed_before_anybody_searches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ready = Ready(Vectorized(Hashed(), Remembering()), monkeypatch)
    ready.approved = dict(BOTH)
    async with asyncio.timeout(60):
        while ready.finder.told != ["r", "w"]:
            await asyncio.sleep(0.001)
    await ready.until(Strategy.HYBRID)
    ready.approved = {**BOTH, "n": (manifest("new", "A new file."), "")}
    await ready.until(Strategy.HYBRID)
    assert ready.finder.told == ["r", "w", "n"]
    await ready.aclose()


async def test_keyword_answers_until_the_vectors_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    ready = Ready(Vectorized(slow, Remembering()), monkeypatch)
    ready.approved = dict(BOTH)
    for _ in range(5):
        assert await ready.answered_by() is Strategy.KEYWORD
        await asyncio.sleep(0.002)
    slow.let.set()
    await ready.until(Strategy.HYBRID)
    await ready.aclose()
