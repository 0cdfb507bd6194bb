from gateway.search.query import LONGEST_QUERY, Query, understand


def test_one_request_is_one_query():
    assert understand("weather in Paris") == Query(text="weather in Paris", parts=(), steps=())


def test_a_task_is_taken_apart_into_what_it_asks_for():
    query = understand("Find recent papers on graphs, then mail a short summary to Ann.")
    assert query.parts == ("Find recent papers on graphs", "mail a short summary to Ann")


def test_a_file_that_is_named_has_to_be_read_or_written():
    query = understand('Read the table in /data/in/sales.xlsx and save a report to "~/out/q1.md".')
    assert query.steps == ("read excel spreadsheet file", "write file")
    assert (
        query.text
        == 'Read the table in excel spreadsheet file and save a report to "markdown file".'
    )


def test_the_nearest_word_says_what_happens_to_a_file():
    assert understand("write a poem, then look at /a.txt").steps == ("read file",)
    assert understand("look at the poem, then create C:\\notes\\a.txt").steps == ("write file",)
    assert understand("what is in /var/log").steps == ("list files in directory",)


def test_data_in_a_request_is_no_word():
    assert understand(f"what is this picture {'iVBOR' * 40}").text == "what is this picture"


def test_a_request_is_looked_at_up_to_a_limit():
    query = understand("find this, and " * 20_000)
    assert len(query.text) <= LONGEST_QUERY
    assert len(query.parts) <= 8
    assert len(understand("/a.txt /b.md /c.pdf " * 500).steps) <= 8


def test_only_a_rooted_name_is_a_file():
    assert understand("and/or 50/50 / http://x.example/a.md").steps == ()
