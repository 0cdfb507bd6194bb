"""Programs in TypeScript at the endpoint: asked for, told of, and judged like those in Python."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.builtin.run_code import definition_of, wanted
from gateway.domain.programs import Language
from gateway.errors import BadCommand
from gateway.sandbox.deno import deno_engine
from gateway.sandbox.languages import Engines
from gateway.sandbox.monty import monty_engine
from tests.builtin.front import Site
from tests.builtin.test_code_mode import FAST, asks, calls, ran, run, told
from tests.builtin.test_meta_tools import said, use
from tests.pipeline.house import ALICE

SEARCH = 'const r: unknown = await tools.mail.search({ q: "x" });\nreturn [r]'


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with (
        monty_engine(FAST, tmp_path, warm=0, type_check=False) as python,
        deno_engine(FAST, tmp_path, warm=0, type_check=False) as typescript,
    ):
        made = await Site(engine=Engines(python, typescript)).furnish()
        made.house.gate.people["alice"] = replace(ALICE, scopes=ALICE.scopes | {"code:run"})
        yield made
        await made.aclose()


async def in_typescript(site: Site, code: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = told(await run(site, {"code": code, "language": "typescript"}))
    return found


async def schema(site: Site, name: str) -> Mapping[str, Any]:
    listed = (await site.ask("tools/list")).json["result"]["tools"]
    (found,) = [one for one in listed if one["name"] == name]
    properties: Mapping[str, Any] = found["inputSchema"]["properties"]
    return properties


async def test_each_language_runs_in_its_own_engine(site: Site) -> None:
    found = await in_typescript(site, SEARCH)
    assert found["status"] == "ok"
    assert found["calls"] == [{"seq": 1, "tool": "mail.search", "state": "done"}]
    (call,) = calls(site)
    assert (call["origin"], call["verdict"]) == ("sandbox", "allow")
    python = await ran(site, "import tools\n[await tools.mail.search(q='x')]")
    assert python["value"] == found["value"]


async def test_which_languages_there_are_is_listed(site: Site) -> None:
    enum = ["python", "typescript"]
    assert (await schema(site, "run_code"))["language"]["enum"] == enum
    assert (await schema(site, "get_tool_details"))["language"]["enum"] == enum
    assert "enum" not in definition_of()["inputSchema"]["properties"]["language"]


async def test_a_call_that_policy_asks_about_fails_in_typescript_with_what_to_do(
    site: Site,
) -> None:
    site.house.rule.says = asks
    found = await in_typescript(site, 'await tools.mail.search({ q: "x", to: "a@b.example" })')
    if found["status"] == "ok":  # nothing asked: the rule asks about what sends
        found = await in_typescript(site, 'await tools.mail.send({ to: "a@b.example" })')
    assert found["status"] == "error"
    assert found["calls"][-1]["code"] == "approval_required"
    assert "ToolError[approval_required]" in found["error"]
    assert "write the program in Python" in found["error"]


async def test_stubs_are_told_in_the_language_that_is_asked_for(site: Site) -> None:
    asked = {"names": ["mail__search"], "detail": "stubs", "language": "typescript"}
    stubs = said(await use(site, "get_tool_details", asked))["stubs"]
    assert stubs.startswith("declare namespace tools.mail {\n")
    assert "function search(" in stubs
    python = said(await use(site, "get_tool_details", {**asked, "language": "python"}))["stubs"]
    assert "async def search(" in python
    for other in ("ruby", ["python"]):
        wrong = (await use(site, "get_tool_details", {**asked, "language": other})).json["result"]
        assert wrong["content"][0]["text"].startswith("Language must be python or typescript")


async def test_where_it_is_not_there_typescript_is_refused_with_how_to_get_it(
    tmp_path: Path,
) -> None:
    async with monty_engine(FAST, tmp_path, warm=0, type_check=False) as python:
        site = await Site(engine=Engines(python)).furnish()
        site.house.gate.people["alice"] = replace(ALICE, scopes=ALICE.scopes | {"code:run"})
        answered = await run(site, {"code": "return 1", "language": "typescript"})
        result = answered.json["result"]
        assert result["isError"] is True
        text = result["content"][0]["text"]
        assert text.startswith("Programs in typescript are not run here: ")
        assert "pip install 'douane[typescript]'" in text
        assert text.endswith("Nothing was run.")
        assert "language" not in await schema(site, "get_tool_details")
        await site.aclose()


def test_what_a_program_in_typescript_cannot_have_is_said_where_it_is_listed() -> None:
    both = (Language.PYTHON, Language.TYPESCRIPT)
    said = [definition_of(extracts=extracts, languages=both) for extracts in (True, False)]
    told = [one["description"].endswith("Client.extract is for Python alone.") for one in said]
    assert told == [True, False]
    python = definition_of(extracts=True)["description"]
    assert "for Python alone" not in python


def test_a_language_that_nobody_knows_is_refused() -> None:
    both = (Language.PYTHON, Language.TYPESCRIPT)
    assert wanted({"code": "1", "language": "typescript"}, both).language is Language.TYPESCRIPT
    with pytest.raises(BadCommand, match="programs are written in python or typescript"):
        wanted({"code": "1", "language": "ruby"}, both)
    assert json.dumps(definition_of(languages=both)).count("typescript") >= 1
