"""A search sends nobody a request or a definition, unless the operator named whom."""

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.domain.tools import Kind
from gateway.search.finder import Meaning, load_meaning
from gateway.search.meaning import Vectorized
from gateway.search.subagent import Subagent
from gateway.storage.vectors import SqliteVectors
from tests.builtin.front import NOTES, Site, tool
from tests.builtin.test_meta_tools import said, use
from tests.builtin.test_search_strategies import EVERY_STRATEGY
from tests.search.tools_to_find import Hashed, Remembering
from tests.search.weights import MODEL, MODEL_DIGEST
from tests.upstream.outside import LOOPBACK, Outside, answer, web_server

WATCHED: Final = ("socket.", "urllib.", "http.", "ftplib.", "smtplib.", "subprocess.")
STARTS: Final = frozenset({"os.exec", "os.fork", "os.posix_spawn", "os.system"})


class Exits:
    """What the interpreter was asked to do that could reach beyond the process (PEP 578)."""

    def __init__(self) -> None:
        self.watching = False
        self.used: list[str] = []
        sys.addaudithook(self._noted)

    def _noted(self, event: str, _: object) -> None:
        if self.watching and (event.startswith(WATCHED) or event in STARTS):
            self.used.append(event)


EXITS: Final = Exits()
"""One for good: a hook cannot be taken away again."""


@contextmanager
def watched() -> Iterator[list[str]]:
    EXITS.used.clear()
    EXITS.watching = True
    yield EXITS.used
    EXITS.watching = False


def no_model(_: Path) -> None:
    return None


def kept_in_memory(_: Path) -> Meaning:
    return Vectorized(Hashed(), Remembering())


def real_model(folder: Path) -> Meaning:
    if not MODEL.exists():
        pytest.skip("the weights are not installed: make model")
    return load_meaning(MODEL.parent, MODEL_DIGEST, SqliteVectors(folder))


async def search_in_every_way(site: Site) -> None:
    """Approve, index, search in every way, look at what was found and call it."""
    await site.show(NOTES, tool("read_all", description="Read all notes."))
    itself = {"capabilities": {"tools": {}}, "serverInfo": {"name": "n", "title": "Notes"}}
    await site.show(NOTES, itself, kind=Kind.SERVER)
    for _ in range(2):
        for strategy in (None, *EVERY_STRATEGY):
            for detail in ("name", "summary", "full"):
                wanted = {"query": "read a note and save it to /out/a.md", "detail": detail}
                more = {} if strategy is None else {"strategy": strategy}
                said(await use(site, "search_tools", {**wanted, **more}))
        await site.catalog.make_ready(site.offers.approved_tools())
    said(await use(site, "get_tool_details", {"names": ["notes__read_all", "nope"]}))
    await use(site, "call_tool", {"name": "notes__nope"})
    await use(site, "search_tools", {"query": "(", "strategy": "regex"})
    assert (await site.ask("tools/list")).code is None


@pytest.mark.parametrize("model", [no_model, kept_in_memory, real_model])
async def test_no_search_opens_a_way_out(model: Callable[[Path], Any], tmp_path: Path) -> None:
    with watched() as exits:
        site = await Site(meaning=model(tmp_path)).furnish()
        await search_in_every_way(site)
        assert exits == []
    assert [wire.saw for wire in site.servers.values()] == [[], []]
    await site.aclose()


async def test_a_subagent_is_the_only_way_out_and_used_only_when_it_is_asked_for() -> None:
    async with web_server(answer(b'{"tools": ["notes__read_all"]}')) as server:
        outside = Outside(policy=LOOPBACK)
        url = f"http://127.0.0.1:{server.port}/"
        subagent = Subagent(url, fetcher=outside.fetcher)
        site = await Site(meaning=kept_in_memory(Path()), subagent=subagent).furnish()
        with watched() as exits:
            await search_in_every_way(site)
        by_name = 2 * 3  # twice, in three levels of detail
        assert len(server.requests) == by_name
        assert outside.sockets.dialled == [("127.0.0.1", server.port)] * by_name
        assert outside.names.asked == []
        assert exits.count("socket.connect") == by_name
        await site.aclose()


def test_the_watch_sees_what_it_is_for() -> None:
    with watched() as exits, socket.socket() as made:
        made.connect_ex(("127.0.0.1", 1))
        os.system("true")
    assert {"socket.__new__", "socket.connect", "os.system"} <= set(exits)
