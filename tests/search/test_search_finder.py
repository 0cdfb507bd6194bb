import asyncio
import threading

import pytest

from gateway.errors import BadCommand
from gateway.search import finder as finder_module
from gateway.search.finder import MOST_HITS, Finder
from gateway.search.index import matches
from gateway.search.meaning import Vectorized
from gateway.search.tools import Strategy
from tests.search.tools_to_find import IDS, TOOLS, Hashed, Remembering, tool


async def prepared(embedder=None, store=None) -> Finder:
    finder = Finder(Vectorized(embedder or Hashed(), store or Remembering()))
    for one in TOOLS:
        finder.add(one)
    await finder.prepare()
    return finder


async def answered_by(finder: Finder, strategy=None, visible=IDS) -> Strategy:
    ranking = await finder.search("read file", visible=visible, limit=3, strategy=strategy)
    assert ranking.hits[0].id == "files/read_file"
    return ranking.answered_by


async def test_without_a_model_every_request_is_answered_by_keyword():
    finder = Finder()
    for one in TOOLS:
        finder.add(one)
    await finder.prepare()
    assert finder.strategies == (Strategy.KEYWORD, Strategy.REGEX)
    for asked in (None, Strategy.HYBRID, Strategy.EMBEDDING, Strategy.KEYWORD):
        assert await answered_by(finder, asked) is Strategy.KEYWORD
    finder.remove("files/read_file")
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
    finder.add(tool("new", "Brand new.", server="files"))
    visible = IDS | {"files/new"}
    assert await answered_by(finder, visible=visible) is Strategy.KEYWORD
    await finder.prepare()
    assert await answered_by(finder, visible=visible) is Strategy.HYBRID
    finder.close()


async def test_a_hidden_tool_without_a_vector_changes_nobody_elses_strategy():
    finder = await prepared()
    finder.add(tool("new", "Brand new.", server="files"))
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
        finder.add(tool(f"read_file_{number}", "Read a file and send mail.", server="secret"))
    await finder.prepare()
    assert await search() == before
    finder.close()


async def test_a_changed_definition_is_no_longer_where_the_old_one_was():
    finder = await prepared()
    finder.add(tool("read_file", "Play music.", server="files"))
    ranking = await finder.search("music", visible=IDS, limit=1)
    assert (ranking.hits[0].id, ranking.answered_by) == ("files/read_file", Strategy.KEYWORD)
    finder.close()


async def test_an_approval_that_is_withdrawn_while_vectors_are_made_is_not_indexed():
    meaning = Vectorized(Hashed(), Remembering())
    finder = Finder(meaning)
    for one in TOOLS:
        finder.add(one)
    preparing = asyncio.create_task(finder.prepare())
    await asyncio.sleep(0)
    finder.remove("files/read_file")
    await preparing
    assert not meaning.has_all(["files/read_file"])
    ranking = await finder.search("read file", visible=IDS, limit=50)
    assert "files/read_file" not in {hit.id for hit in ranking.hits}
    finder.close()


async def test_a_tool_that_goes_while_a_query_is_embedded_is_not_answered():
    finder = await prepared()
    searching = asyncio.create_task(finder.search("read file", visible=IDS, limit=50))
    await asyncio.sleep(0)
    finder.remove("files/read_file")
    ranking = await searching
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
        finder.add(tool(f"read_{number}", "r" * (9_000 if number == 0 else 2_000), server="many"))
    ids = frozenset(f"many/read_{number}" for number in range(20))
    ranking = await finder.search("read_", visible=ids, limit=50, strategy=Strategy.REGEX)
    assert ranking.found == 20
    assert pieces == [1, 3, 3, 3, 3, 3, 3, 1]
    finder.close()


async def test_a_tool_that_goes_while_a_pattern_is_matched_is_not_answered():
    finder = await prepared()
    searching = asyncio.create_task(
        finder.search("read_", visible=IDS, limit=3, strategy=Strategy.REGEX)
    )
    await asyncio.sleep(0)
    finder.remove("files/read_file")
    assert (await searching).hits == ()
    finder.close()


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
    again.remove("files/write_file")
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
        finder.add(tool(name, "Ping."))
    visible = frozenset(f"srv/{name}" for name in names)
    assert len((await finder.search("ping", visible=visible, limit=10**9)).hits) == MOST_HITS
    assert (await finder.search("ping", visible=visible, limit=-1)).hits == ()
    finder.close()
