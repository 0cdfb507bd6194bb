"""Datasette reads the log and its index with the metadata we ship, and answers every question."""

import asyncio
import json
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.storage.database import DATABASE
from gateway.storage.index import INDEX
from tests.servers.process import ROOT, free_port
from tests.storage.logged import FROM_CRM, NOW, TO_OTHERS, indexed, made, refused, write

METADATA = ROOT / "deploy" / "datasette" / "metadata.yaml"
PROGRAM = Path(sys.executable).parent / "datasette"
GIVEN = {
    "source": "crm",
    "since": "2027-01-01",
    "principal": "emma",
    "run": "r_1",
    "id": "r0",
    "server": "mail",
    "tool": "send",
    "subject": "tool",
    "words": "private",
}
QUERIES = [
    (database, name)
    for database, content in yaml.safe_load(METADATA.read_text())["databases"].items()
    for name in content["queries"]
]

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="there is no Datasette")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a log and its index."""
    folder = tmp_path_factory.mktemp("datasette")
    seen: dict[str, Any] = {"sources": FROM_CRM, "destinations": TO_OTHERS, "run": "r_1"}
    answered = {"principal": "user:noah", "approval_id": "a_1", "code": "allowed"}
    read = {"principal": "os:otto", "method": "audit.tail", "code": "read"}
    events = [
        *made("1", approval_id="a_1", **seen),
        ("approval", NOW, {**answered, "verdict": "allow"}),
        *refused("2", **seen),
        ("admin", NOW, {**read, "reasons": [{"code": "read", "message": "10 lines"}]}),
    ]
    asyncio.run(write(folder, events))
    with indexed(folder):
        pass
    return folder


@contextmanager
def served(*files: str) -> Iterator[str]:
    port = free_port()
    arguments = ["--host", "127.0.0.1", "--port", str(port), "--metadata", str(METADATA)]
    command = [str(PROGRAM), "serve", *arguments, *files]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        url = f"http://127.0.0.1:{port}"
        _until_it_answers(url, process)
        yield url
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _until_it_answers(url: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[0]
        try:
            urllib.request.urlopen(f"{url}/-/versions.json", timeout=60).close()
        except urllib.error.URLError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("Datasette does not answer")


def answer(url: str, database: str, name: str) -> Any:
    given = urllib.parse.urlencode(GIVEN)
    place = f"{url}/{urllib.parse.quote(database)}/{name}.json?_shape=array&{given}"
    with urllib.request.urlopen(place, timeout=60) as response:
        return json.load(response)


@pytest.fixture(scope="module")
def beside(folder: Path) -> Iterator[str]:
    """Datasette on the files as they lie, beside whoever writes them."""
    with served(str(folder / DATABASE), str(folder / INDEX)) as url:
        yield url


@pytest.mark.parametrize(("database", "name"), QUERIES)
def test_every_question_is_answered(beside: str, database: str, name: str) -> None:
    assert answer(beside, database, name), name


def test_who_sent_it_outside_and_who_approved_it(beside: str) -> None:
    rows = answer(beside, "douane", "sent-outside")
    told = [(row["leaf_index"], row["verdict"], row["answered_by"], row["signed"]) for row in rows]
    assert told == [(3, "deny", None, 1), (0, "allow", "user:noah", 1)]


def test_archived_copies_are_served_as_what_nobody_writes(folder: Path, tmp_path: Path) -> None:
    for name in (DATABASE, INDEX):
        with closing(sqlite3.connect(folder / name)) as connection:
            connection.execute("VACUUM INTO ?", (str(tmp_path / name),))
    with served("-i", str(tmp_path / DATABASE), "-i", str(tmp_path / INDEX)) as url:
        for database, name in QUERIES:
            assert answer(url, database, name), name


def test_every_table_but_the_log_is_out_of_the_way(beside: str) -> None:
    with urllib.request.urlopen(f"{beside}/douane.json", timeout=60) as response:
        tables = json.load(response)["tables"]
    shown = {table["name"] for table in tables if not table["hidden"]}
    log = {"audit", "checkpoints", "cosignatures", "tiles", "archives", "log_front", "holds"}
    assert shown - log == {"_sqlite_migrations"}


def test_nothing_can_be_written(beside: str) -> None:
    sql = urllib.parse.quote("DELETE FROM audit")
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(f"{beside}/douane.json?sql={sql}", timeout=60)
    refusal.value.close()
    assert refusal.value.code == 400
    assert answer(beside, "douane", "record")
