import sqlite3
import stat

import pytest

from gateway.storage.vectors import FILE, SqliteVectors

MODEL = "sha256:1"


@pytest.fixture
def store(tmp_path):
    made = SqliteVectors(tmp_path, most_tools=3, most_texts=2)
    yield made
    made.close()


def test_vectors_are_there_after_a_restart(store, tmp_path):
    store.keep_tools(MODEL, {"sha256:a": b"1"})
    store.keep_texts(MODEL, {"a request": b"2"})
    again = SqliteVectors(tmp_path)
    assert again.tools(MODEL, ["sha256:a", "sha256:b"]) == {"sha256:a": b"1"}
    assert again.texts(MODEL, ["a request"]) == {"a request": b"2"}
    again.close()


def test_models_and_layers_are_apart(store):
    store.keep_tools(MODEL, {"same": b"1"})
    assert store.tools("sha256:2", ["same"]) == {}
    assert store.texts(MODEL, ["same"]) == {}


def test_what_was_not_used_for_longest_makes_room(store):
    store.keep_texts(MODEL, {"first": b"1"})
    store.keep_texts(MODEL, {"second": b"2"})
    store.texts(MODEL, ["first"])
    store.keep_texts(MODEL, {"third": b"3"})
    assert store.texts(MODEL, ["first", "second", "third"]) == {"first": b"1", "third": b"3"}


def test_requests_do_not_push_out_tools(store):
    store.keep_tools(MODEL, {"a": b"1", "b": b"2", "c": b"3"})
    for number in range(10):
        store.keep_texts(MODEL, {f"request {number}": b"0"})
    assert len(store.tools(MODEL, ["a", "b", "c"])) == 3


def test_no_request_is_written_down(store, tmp_path):
    store.keep_texts(MODEL, {"my secret plan": b"1"})
    for path in tmp_path.iterdir():
        assert b"secret" not in path.read_bytes()
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def test_a_file_that_cannot_be_used_costs_time_and_nothing_else(store, tmp_path):
    store.keep_tools(MODEL, {"a": b"1"})
    other = sqlite3.connect(tmp_path / FILE)
    other.execute("DROP TABLE vectors")
    other.close()
    store.keep_tools(MODEL, {"b": b"2"})
    assert store.tools(MODEL, ["a", "b"]) == {}
