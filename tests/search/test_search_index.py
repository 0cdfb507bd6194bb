import random

import pytest

from gateway.domain.document import Document
from gateway.domain.tools import Kind, Manifest, Profile, Target, UpstreamId
from gateway.errors import BadCommand
from gateway.search import keyword
from gateway.search.index import Index, Pattern, matches
from gateway.search.query import understand
from gateway.search.tools import Ranking, Strategy, ToolText
from gateway.search.words import Stems, word_set
from tests.search.tools_to_find import IDS, TOOLS, tool


@pytest.fixture
def index():
    made = Index()
    for one in TOOLS:
        made.add(one)
    yield made
    made.close()


def by_pattern(index: Index, pattern: str, visible, limit: int) -> Ranking:
    return index.regex(matches(Pattern(pattern), index.texts(index.view(visible))), limit)


def found(index: Index, request: str, visible=IDS, limit: int = 5) -> list[str]:
    ranking = index.keyword(understand(request), index.view(visible), limit)
    return [hit.id for hit in ranking.hits]


@pytest.mark.parametrize(
    ("request_", "best"),
    [
        ("sending mails", "mail/sendMail"),
        ("sendmail", "mail/sendMail"),
        ("to which address", "mail/sendMail"),
        ("scientific article", "arxiv/search_papers"),
        ("forecasts", "weather/get_forecast"),
    ],
)
def test_tools_are_found_by_stems_names_and_parameters(index, request_, best):
    assert found(index, request_)[0] == best


def test_a_tool_without_a_common_word_is_not_found(index):
    ranking = index.keyword(understand("quantum"), index.view(IDS), 5)
    assert ranking == Ranking(hits=(), found=0, answered_by=Strategy.KEYWORD)


def test_the_limit_bounds_hits_and_not_what_is_counted(index):
    ranking = index.keyword(understand("file disk"), index.view(IDS), 1)
    assert (len(ranking.hits), ranking.found) == (1, 2)
    assert index.keyword(understand("file"), index.view(IDS), 0).hits == ()


def test_what_is_removed_or_replaced_is_not_found_as_it_was(index):
    index.remove("mail/sendMail")
    index.remove("mail/sendMail")
    index.add(tool("read_file", "Play music.", server="files"))
    assert found(index, "send mail") == []
    assert found(index, "path on disk") == ["files/write_file"]
    assert found(index, "music") == ["files/read_file"]
    assert set(index.tools) == IDS - {"mail/sendMail"}


def test_hidden_tools_change_nothing_in_what_a_caller_gets(index):
    words = sorted(
        word_set("file disk read write send mail search forecast paper text message days")
    )
    dice = random.Random(7)
    request = understand("read a file, then send the text of the paper to /out/mail.txt")
    before = index.keyword(request, index.view(IDS), 50)
    pattern = by_pattern(index, "file|mail", IDS, 50)
    for number in range(300):
        text = " ".join(dice.choices(words, k=dice.randint(1, 60)))
        index.add(tool(f"hidden_{number}_{dice.choice(words)}", text, server="secret"))
    assert index.keyword(request, index.view(IDS), 50) == before
    assert by_pattern(index, "file|mail", IDS, 50) == pattern


def test_a_tool_that_may_not_be_seen_is_not_found_and_not_counted(index):
    ranking = index.keyword(understand("file disk"), index.view({"files/read_file", "no/such"}), 5)
    assert [hit.id for hit in ranking.hits] == ["files/read_file"]
    assert ranking.found == 1


def test_what_is_counted_for_a_caller_follows_the_index(index):
    visible = IDS | {"mail/later"}
    assert found(index, "later", visible) == []
    before = index.view(visible)
    index.add(tool("later", server="mail"))
    assert found(index, "later", visible) == ["mail/later"]
    index.remove("mail/later")
    assert index.view(visible) == before


def test_equal_tools_are_in_the_order_of_their_ids():
    index = Index()
    for name in ("b", "c", "a"):
        index.add(tool("ping", "Ping.", server=name))
    assert found(index, "ping", {"a/ping", "b/ping", "c/ping"}) == ["a/ping", "b/ping", "c/ping"]
    index.close()


def test_stuffing_a_description_with_words_does_not_pay(index):
    index.add(tool("spam", "file disk read write mail send paper forecast " * 40, server="spam"))
    assert found(index, "read file", IDS | {"spam/spam"})[0] == "files/read_file"


def test_each_step_of_a_task_has_its_tool_among_the_first(index):
    request = "Find scientific articles and save them to /out/report.md"
    first = found(index, request, limit=3)
    assert first[0] == "files/write_file"
    assert "arxiv/search_papers" in first


def test_a_pattern_finds_names_before_descriptions(index):
    index.add(tool("copy", "Like read_file.", server="z"))
    ranking = by_pattern(index, "READ_.ile", IDS | {"z/copy"}, 5)
    assert [hit.id for hit in ranking.hits] == ["files/read_file", "z/copy"]
    assert (ranking.found, ranking.answered_by) == (2, Strategy.REGEX)


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        r"(a)\1",
        "(?=a)",
        "a" * 257,
        "(a{1000}){1000}",
        r"(?:.{0,30}){0,30}$zz",
        r".{0,400}\x00",
    ],
    ids=range(7),
)
def test_a_pattern_that_is_none_is_refused(index, pattern):
    with pytest.raises(BadCommand):
        by_pattern(index, pattern, IDS, 5)


def test_a_definition_is_found_by_all_that_describes_it():
    definition = {
        "name": "mk",
        "title": "Make",
        "description": "Make it.",
        "inputSchema": {"properties": {"a": {"description": "d" * 300}, "b": True}},
    }
    target = Target(server=UpstreamId("s"), kind=Kind.TOOL, name="mk")
    manifest = Manifest(target=target, profile=Profile.MODERN, definition=Document.of(definition))
    assert ToolText.of("s__mk", manifest, server_description="Makes.") == ToolText(
        id="s__mk",
        server="s",
        name="mk",
        title="Make",
        description="Make it.",
        parameters=(("a", "d" * 200), ("b", "")),
        server_description="Makes.",
        digest=str(manifest.digest),
    )


def test_of_a_request_no_more_words_are_stemmed_than_count(index, monkeypatch):
    asked = []

    def noted(self, words):
        asked.append(list(words))
        return asked[-1]

    monkeypatch.setattr(Stems, "of", noted)
    words = [f"word{number}" for number in range(400)]
    request = understand("; ".join([" ".join(words), "forecasts of weather"]))
    index.keyword(request, index.view(IDS), 5)
    assert len(request.texts) > 1
    assert all(len(one) <= keyword.MOST_TERMS for one in asked)


def test_how_much_of_a_definition_is_found_is_bounded():
    definition = {
        "name": "mk",
        "title": "t" * 100_000,
        "description": "d" * 100_000,
        "inputSchema": {
            "properties": {
                f"{number:03}{'p' * 1_000}": {"description": "d" * 1_000} for number in range(900)
            }
        },
    }
    target = Target(server=UpstreamId("s"), kind=Kind.TOOL, name="mk")
    manifest = Manifest(target=target, profile=Profile.MODERN, definition=Document.of(definition))
    text = ToolText.of("s__mk", manifest)
    assert (len(text.title), len(text.description)) == (200, 8_000)
    assert text.parameters == tuple((f"{number:03}{'p' * 61}", "d" * 200) for number in range(64))
