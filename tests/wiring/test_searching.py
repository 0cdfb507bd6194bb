"""What the configuration says of searches: a model that is not the pinned one is never done without."""

import asyncio
import os
from pathlib import Path

import pytest

from gateway.config import Config, load
from gateway.domain.document import Document
from gateway.domain.tools import Kind, Manifest, Profile, Target, UpstreamId
from gateway.errors import ConfigError
from gateway.search.catalog import Catalog
from gateway.search.finder import Finder
from gateway.search.meaning import Vectorized
from gateway.search.tools import Strategy
from gateway.wiring import check_model
from gateway.wiring.searching import Searching, searching
from tests.search.tools_to_find import Hashed, Remembering, tool
from tests.search.weights import MODEL, MODEL_DIGEST
from tests.upstream.outside import answer, web_server

OTHER = "sha256:" + "0" * 64


def config(folder: Path, discovery: str) -> Config:
    path = folder / "douane.yaml"
    path.write_text(f"version: 1\npublic_url: http://127.0.0.1:1\ndiscovery: {discovery}\n")
    (folder / "var").mkdir(mode=0o700, exist_ok=True)
    return load(path, os.environ)


def read_tool() -> Manifest:
    target = Target(server=UpstreamId("files"), kind=Kind.TOOL, name="read")
    content = {"name": "read", "description": "Read a file."}
    return Manifest(target=target, profile=Profile.MODERN, definition=Document.of(content))


async def started(settings: Config) -> None:
    async with searching(settings):
        pass


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot be read: No such file or directory; put the weights"),
        (
            b"other",
            "is not what was pinned: it is sha256:d9298a10d1b0735837dc4bd85dac641b0f3cef27a",
        ),
    ],
    ids=["missing", "another"],
)
async def test_a_model_that_is_not_the_pinned_one_is_refused_with_what_to_do(
    tmp_path: Path, content: bytes | None, told: str
) -> None:
    if content is not None:
        (tmp_path / "model.safetensors").write_bytes(content)
    settings = config(tmp_path, f"{{model: {{path: '.', digest: '{OTHER}'}}}}")
    file = tmp_path / "model.safetensors"
    with pytest.raises(ConfigError) as refused:
        await started(settings)
    assert refused.value.public.startswith(f"discovery.model: {file} {told}")
    with pytest.raises(ConfigError) as found:
        check_model(settings)
    assert found.value.public == refused.value.public


def test_there_need_be_no_model(tmp_path: Path) -> None:
    check_model(config(tmp_path, "{}"))


async def test_the_operators_model_answers_once_it_has_read_what_is_approved(
    tmp_path: Path,
) -> None:
    if not MODEL.exists():
        pytest.skip("the weights are not installed: make model")
    said = f"{{model: {{path: '{MODEL.parent}', digest: '{MODEL_DIGEST}'}}}}"
    settings = config(tmp_path, said)
    check_model(settings)
    approved = {"r": (read_tool(), "")}
    async with searching(settings) as found:
        assert found.subagent is None
        await found.catalog.make_ready(approved)
        ranking = await found.catalog.search(
            "open a document", approved=approved, visible=approved.keys(), limit=5
        )
    assert (ranking.answered_by, [hit.id for hit in ranking.hits]) == (Strategy.HYBRID, ["r"])
    assert (tmp_path / "var" / "vectors.db").stat().st_mode & 0o777 == 0o600


async def test_tools_that_are_not_found_by_meaning_yet_are_told() -> None:
    finder = Finder(Vectorized(Hashed(), Remembering()))
    found = Searching(Catalog(finder), None)
    await finder.add(tool("new", "Brand new.", server="files"))
    assert found.facts() == {"search": "0 of 1 tools are found by meaning"}
    await finder.prepare()
    assert found.facts() == {}
    await found.aclose()
    without = Searching(Catalog(Finder()), None)
    assert without.facts() == {}
    await without.aclose()


async def test_a_subagent_is_asked_where_and_as_the_operator_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHOOSER", "secret-token")
    async with web_server(answer(b'{"tools": ["a"]}')) as server:
        url = f"http://127.0.0.1:{server.port}/x"
        settings = config(tmp_path, f"{{subagent: {{url: '{url}', token: 'env:CHOOSER'}}}}")
        async with searching(settings) as found:
            assert found.subagent is not None
            chosen = await found.subagent.choose("read", tools={"a": "A.", "b": "B."}, limit=2)
    assert chosen == ["a"]
    assert b"secret-token" in server.requests[0]


async def test_a_subagent_has_the_time_that_the_operator_says(tmp_path: Path) -> None:
    async with web_server(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{") as server:
        url = f"http://127.0.0.1:{server.port}/"
        settings = config(tmp_path, f"{{subagent: {{url: '{url}', deadline: 50ms}}}}")
        async with searching(settings) as found:
            assert found.subagent is not None
            assert await found.subagent.choose("read", tools={"a": "A."}, limit=2) is None


async def test_what_is_kept_ready_ends_with_the_configuration(tmp_path: Path) -> None:
    asked: list[int] = []

    def approved() -> dict[str, tuple[Manifest, str]]:
        asked.append(1)
        return {}

    async with searching(config(tmp_path, "{}")) as found:
        found.begin(approved)
        await asyncio.sleep(0)
        keeping = found._keeping
    assert asked
    assert keeping is not None
    assert keeping.cancelled()
