"""What is indexed follows what is approved."""

import asyncio
from typing import Any

import pytest

from gateway.domain.document import Document
from gateway.domain.tools import Kind, Manifest, Profile, Target, UpstreamId
from gateway.search.catalog import Catalog
from gateway.search.finder import Finder
from gateway.search.tools import Ranking, Strategy


def manifest(name: str, description: str) -> Manifest:
    content = {"name": name, "description": description}
    target = Target(server=UpstreamId("files"), kind=Kind.TOOL, name=name)
    return Manifest(target=target, profile=Profile.MODERN, definition=Document.of(content))


READ = manifest("read", "Read a file.")
WRITE = manifest("write", "Write a file.")
BOTH = {"r": READ, "w": WRITE}


class Counted(Finder):
    """A finder that knows what it was told to index."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def add(self, tool: Any) -> None:
        self.told.append(tool.id)
        super().add(tool)

    def remove(self, tool: str) -> None:
        self.told.append(f"-{tool}")
        super().remove(tool)


@pytest.fixture
def finder() -> Any:
    finder = Counted()
    yield finder
    finder.close()


async def search(catalog: Catalog, approved: dict[str, Manifest], **more: Any) -> Ranking:
    wanted: dict[str, Any] = {"visible": approved.keys(), "limit": 50, **more}
    return await catalog.search("file", approved=approved, **wanted)


def ids(ranking: Ranking) -> list[str]:
    return sorted(hit.id for hit in ranking.hits)


async def test_only_what_changed_is_indexed_anew(finder: Counted) -> None:
    catalog = Catalog(finder)
    assert ids(await search(catalog, BOTH)) == ["r", "w"]
    await search(catalog, BOTH)
    assert finder.told == ["r", "w"]
    other = manifest("read", "Fetch a file.")
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
    many = {f"t{i}": manifest(f"t{i}", "A file.") for i in range(1_000)}
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
    many = {f"t{i}": manifest(f"t{i}", "A file.") for i in range(100)}
    await asyncio.gather(search(catalog, many), search(catalog, many))
    assert len(finder.told) == 100
