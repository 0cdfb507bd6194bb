import asyncio
import threading

import pytest

from gateway.errors import BadCommand, RateLimited
from gateway.search import finder as finder_module
from gateway.search.finder import MOST_HITS, Finder
from gateway.search.index import Index, matches
from gateway.search.keyword import Keywords
from gateway.search.meaning import Vectorized
from gateway.search.query import understand
from gateway.search.tools import Strategy
from gateway.search.vectors import Vectors
from gateway.search.words import Stems
from tests.search.tools_to_find import IDS, TOOLS, Hashed, Remembering, tool


async def prepared(embedder=None, store=None) -> Finder:
    finder = Finder(Vectorized(embedder or Hashed(), store or Remembering()))
    for one in TOOLS:
        await finder.add(one)
    await finder.prepare()
    return finder


async def answered_by(finder: Finder, strategy=None, visible=IDS) -> Strategy:
    ranking = await finder.search("read file", visible=visible, limit=3, strategy=strategy)
    assert ranking.hits[0].id == "files/read_file"
    return ranking.answered_by


async def test_without_a_model_every_request_is_answered_by_keyword():
    finder = Finder()
    for one in TOOLS:
        await finder.add(one)
    await finder.prepare()
    assert finder.strategies == (Strategy.KEYWORD, Strategy.REGEX)
    for asked in (None, Strategy.HYBRID, Strategy.EMBEDDING, Strategy.KEYWORD):
        assert await answered_by(finder, asked) is Strategy.KEYWORD
    await finder.remove("files/read_file")
    assert (await finder.search("path", visible=IDS, limit=3)).hits == ()
    finder.close()


async def test_a_model_answers_by_both_unless_another_strategy_is_asked_for():
    finder = await prepared()
    assert await answered_by(finder) is Strategy.HYBRID
    for asked in (Strategy.HYBRID, Strategy.EMBEDDING, Strategy.KEYWORD):
        assert await answered_by(finder, asked) is asked
    ranking = await finder.search("read_", visible=IDS, limit=3, strategy=Strategy.REGEX)
    assert ranking.answered_by is Strategy.REGEX
    finder.close()


async def test_keyword_answers_while_a_vector_is_missing():
    finder = await prepared()
    await finder.add(tool("new", "Brand new.", server="files"))
    visible = IDS | {"files/new"}
    assert await answered_by(finder, visible=visible) is Strategy.KEYWORD
    await finder.prepare()
    assert await answered_by(finder, visible=visible) is Strategy.HYBRID
    finder.close()


async def test_a_hidden_tool_without_a_vector_changes_nobody_elses_strategy():
    finder = await prepared()
    await finder.add(tool("new", "Brand new.", server="files"))
    assert await answered_by(finder) is Strategy.HYBRID
    finder.close()


@pytest.mark.parametrize("strategy", [Strategy.EMBEDDING, Strategy.HYBRID])
async def test_hidden_tools_change_nothing_in_what_is_close(strategy):
    finder = await prepared()

    async def search():
        return await finder.search(
            "read a file and send it by mail", visible=IDS, limit=50, strategy=strategy
        )

    before = await search()
    assert before.found == len(IDS)
    for number in range(100):
        await finder.add(tool(f"read_file_{number}", "Read a file and send mail.", server="secret"))
    await finder.prepare()
    assert await search() == before
    finder.close()


async def test_a_changed_definition_is_no_longer_where_the_old_one_was():
    finder = await prepared()
    await finder.add(tool("read_file", "Play music.", server="files"))
    ranking = await finder.search("music", visible=IDS, limit=1)
    assert (ranking.hits[0].id, ranking.answered_by) == ("files/read_file", Strategy.KEYWORD)
    finder.close()


class Removing(Hashed):
    """An embedder during whose work, once there is something to remove, that goes."""

    def __init__(self):
        super().__init__()
        self.removes = None

    def embed(self, texts):
        if self.removes is not None:
            self.removes()
            self.removes = None
        return super().embed(texts)


def removing(finder):
    """Return what removes a tool, called in a thread, and waits until it is gone."""
    loop = asyncio.get_running_loop()
    gone = finder.remove
    return lambda: asyncio.run_coroutine_threadsafe(gone("files/read_file"), loop).result(60)


async def test_an_approval_that_is_withdrawn_while_vectors_are_made_is_not_indexed():
    embedder = Removing()
    meaning = Vectorized(embedder, Remembering())
    finder = Finder(meaning)
    for one in TOOLS:
        await finder.add(one)
    embedder.removes = removing(finder)
    await finder.prepare()
    assert not meaning.has_all(["files/read_file"])
    ranking = await finder.search("read file", visible=IDS, limit=50)
    assert "files/read_file" not in {hit.id for hit in ranking.hits}
    finder.close()


async def test_a_tool_that_goes_while_a_query_is_embedded_is_not_answered():
    embedder = Removing()
    finder = await prepared(embedder)
    embedder.removes = removing(finder)
    ranking = await finder.search("read file", visible=IDS, limit=50)
    assert embedder.removes is None
    assert "files/read_file" not in {hit.id for hit in ranking.hits}
    finder.close()


async def test_a_callers_pattern_is_matched_beside_the_loop(monkeypatch):
    threads = []

    def watched(pattern, tools):
        threads.append(threading.get_ident())
        return matches(pattern, tools)

    monkeypatch.setattr(finder_module, "matches", watched)
    finder = await prepared()
    ranking = await finder.search("read_", visible=IDS, limit=3, strategy=Strategy.REGEX)
    assert [hit.id for hit in ranking.hits] == ["files/read_file"]
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()
    with pytest.raises(BadCommand, match="too large"):
        await finder.search(r"(?:.{0,30}){0,30}$zz", visible=IDS, limit=3, strategy=Strategy.REGEX)
    finder.close()


async def test_between_a_few_tools_of_a_pattern_others_have_their_turn(monkeypatch):
    """Two patterns over all tools would hold both threads for seconds, and whatever else is large."""
    pieces = []

    def watched(pattern, tools):
        pieces.append(len(tools))
        return matches(pattern, tools)

    monkeypatch.setattr(finder_module, "matches", watched)
    finder = Finder()
    for number in range(20):
        await finder.add(
            tool(f"read_{number}", "r" * (9_000 if number == 0 else 2_000), server="many")
        )
    ids = frozenset(f"many/read_{number}" for number in range(20))
    ranking = await finder.search("read_", visible=ids, limit=50, strategy=Strategy.REGEX)
    assert ranking.found == 20
    assert pieces == [1, 3, 3, 3, 3, 3, 3, 1]
    finder.close()


async def test_a_tool_that_goes_while_a_pattern_is_matched_is_not_answered(monkeypatch):
    finder = await prepared()
    removes = removing(finder)

    def slowly(pattern, tools):
        removes()
        return matches(pattern, tools)

    monkeypatch.setattr(finder_module, "matches", slowly)
    ranking = await finder.search("read_", visible=IDS, limit=3, strategy=Strategy.REGEX)
    assert ranking.hits == ()
    finder.close()


WORKS = [
    (finder_module, "understand"),
    (Stems, "of"),
    *((Keywords, name) for name in ("add", "remove", "norms", "scores")),
    *((Vectors, name) for name in ("put", "drop", "has_all", "visible")),
    *((Index, name) for name in ("view", "texts", "keyword", "embedding", "hybrid", "regex")),
]


async def test_what_is_indexed_is_read_and_changed_in_one_thread_which_is_not_the_loops(
    monkeypatch,
):
    """How many words and tools there are is for servers and callers to say."""
    threads: dict[str, set[int]] = {}

    def noting(name, work):
        def done(*args):
            threads.setdefault(name, set()).add(threading.get_ident())
            return work(*args)

        return done

    for holder, name in WORKS:
        monkeypatch.setattr(holder, name, noting(name, getattr(holder, name)))
    finder = await prepared()
    for strategy in (None, *Strategy):
        await finder.search("read a file", visible=IDS, limit=3, strategy=strategy, who="emma")
    await finder.add(tool("read_file", "Play music.", server="files"))
    await finder.remove("mail/sendMail")
    assert threads.keys() == {name for _, name in WORKS}
    assert len(set.union(*threads.values())) == 1
    assert threading.get_ident() not in threads["of"]
    finder.close()


async def test_whoever_searches_much_has_one_place_and_keeps_nobody_waiting_behind_it(monkeypatch):
    begun, going, done = threading.Event(), threading.Event(), []

    def slowly(request):
        begun.set()
        going.wait(60)
        done.append(request)
        return understand(request)

    monkeypatch.setattr(finder_module, "understand", slowly)
    finder = await prepared()

    def search(who):
        return asyncio.create_task(finder.search(who, visible=IDS, limit=3, who=who))

    held = [search("mallory") for _ in range(64)]
    await asyncio.to_thread(begun.wait, 60)
    other = search("emma")
    with pytest.raises(RateLimited):
        await search("mallory")
    going.set()
    await other
    assert done.index("emma") <= 2
    await asyncio.gather(*held)
    finder.close()


async def test_nothing_is_closed_that_somebody_still_reads(monkeypatch):
    """SQLite ends the process over that."""
    begun, going, ends = threading.Event(), threading.Event(), []

    def slowly(self, query, view, limit):
        begun.set()
        going.wait(60)
        ends.append("searched")

    def closed(self):
        ends.append("closed")
        shut(self)

    shut = Index.close
    monkeypatch.setattr(Index, "keyword", slowly)
    monkeypatch.setattr(Index, "close", closed)
    finder = Finder()
    searching = asyncio.create_task(finder.search("read", visible=IDS, limit=3))
    await asyncio.to_thread(begun.wait, 60)
    finder.close()
    going.set()
    await searching
    while len(ends) < 2:
        await asyncio.sleep(0.001)
    assert ends == ["searched", "closed"]


async def test_nothing_is_embedded_twice_and_never_on_the_loop():
    embedder, store = Hashed(), Remembering()
    finder = await prepared(embedder, store)
    await answered_by(finder)
    done = len(embedder.embedded)
    finder.close()
    again = await prepared(embedder, store)
    embedder.threads.clear()
    await answered_by(again)
    assert embedder.embedded[done:] == [""]
    await again.remove("files/write_file")
    await again.search("a new request", visible=IDS, limit=1)
    assert threading.get_ident() not in embedder.threads
    again.close()


async def test_a_kept_vector_of_another_size_is_made_again():
    embedder, store = Hashed(), Remembering()
    (await prepared(embedder, store)).close()
    store.kept = dict.fromkeys(store.kept, b"\0\0\0\0")
    finder = await prepared(embedder, store)
    assert await answered_by(finder) is Strategy.HYBRID
    finder.close()


async def test_an_answer_has_a_bounded_number_of_tools():
    finder = Finder()
    names = [f"ping{number}" for number in range(MOST_HITS + 10)]
    for name in names:
        await finder.add(tool(name, "Ping."))
    visible = frozenset(f"srv/{name}" for name in names)
    assert len((await finder.search("ping", visible=visible, limit=10**9)).hits) == MOST_HITS
    assert (await finder.search("ping", visible=visible, limit=-1)).hits == ()
    finder.close()
