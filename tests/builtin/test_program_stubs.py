"""Tools as the functions that a program calls: told where programs are run, of what its author may see."""

import ast
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from gateway import turns
from gateway.builtin.descriptions import Mode, Settings
from gateway.builtin.discovery import Discovery
from gateway.domain.descriptions import Guidance
from gateway.domain.programs import Program, ProgramResult
from gateway.domain.tools import Kind, Target
from gateway.ports.sandbox import Broker, Engine
from tests.builtin.front import NOTES, Site, tool
from tests.builtin.test_meta_tools import hiding, said, use
from tests.pipeline.house import ALICE


class NoPrograms:
    """An engine that nobody asks to run anything."""

    async def run(self, program: Program, broker: Broker, **_: Any) -> ProgramResult:
        raise NotImplementedError


TYPED: Mapping[str, Any] = {
    "inputSchema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "lines": {"type": "integer"}},
        "required": ["name"],
        "additionalProperties": False,
    },
    "outputSchema": {
        "type": "object",
        "properties": {"result": {"type": "string"}},
        "required": ["result"],
        "additionalProperties": False,
    },
}
STUB = '''\
# from tools import notes
class first_lines_Result(TypedDict):
    result: str

async def first_lines(*, name: str, lines: int = ...) -> first_lines_Result:
    """Read the first lines."""
    ...
'''


async def made(**more: Any) -> Site:
    site = await Site(engine=cast("Engine", NoPrograms()), **more).furnish()
    site.house.gate.people["alice"] = replace(ALICE, scopes=ALICE.scopes | {"code:run"})
    await site.show(NOTES, tool("first_lines", description="Read the first lines.", **TYPED))
    return site


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = await made()
    yield site
    await site.aclose()


async def looked(site: Site, *names: str, detail: str = "stubs") -> Any:
    return said(await use(site, "get_tool_details", {"names": list(names), "detail": detail}))


async def test_a_tool_is_told_as_a_typed_function(site: Site) -> None:
    assert await looked(site, "notes__first_lines") == {"stubs": STUB, "unknown": []}


async def test_several_are_told_in_one_text_in_the_order_in_which_they_were_asked_for(
    site: Site,
) -> None:
    told = await looked(site, "notes__read", "mail__search", "notes__first_lines")
    functions = [
        one for one in ast.parse(told["stubs"]).body if isinstance(one, ast.AsyncFunctionDef)
    ]
    assert [one.name for one in functions] == ["read", "search", "first_lines"]
    assert "# from tools import mail\n" in told["stubs"]


async def test_what_the_caller_may_not_know_of_is_not_there(site: Site) -> None:
    site.house.rule.says = hiding("read")
    told = await looked(site, "notes__read", "notes__nope")
    assert (told["stubs"], told["unknown"]) == ("", ["notes__read", "notes__nope"])


async def test_the_whole_definition_is_told_unless_stubs_are_asked_for(site: Site) -> None:
    full = await looked(site, "notes__read", detail="full")
    usual = said(await use(site, "get_tool_details", {"names": ["notes__read"]}))
    assert full == usual
    assert usual["tools"][0]["definition"]["name"] == "notes__read"


async def test_another_detail_is_told_what_there_is(site: Site) -> None:
    asked = {"names": ["notes__read"], "detail": "types"}
    answered = (await use(site, "get_tool_details", asked)).json["result"]
    assert answered["isError"] is True
    assert answered["content"][0]["text"].startswith("Detail must be full or stubs")


@pytest.mark.parametrize(("detail", "leaves"), [("stubs", True), ("full", False)])
async def test_stubs_are_made_beside_the_loop(
    site: Site, monkeypatch: pytest.MonkeyPatch, detail: str, leaves: bool
) -> None:
    loop, ran = threading.get_ident(), list[bool]()

    def noting(*args: Any) -> Any:
        ran.append(threading.get_ident() != loop)
        return worded(*args)

    worded = Discovery._worded
    monkeypatch.setattr(Discovery, "_worded", noting)
    monkeypatch.setattr(turns, "_TURNS", turns.Turns(most_waiting=0))  # it must be done
    await looked(site, "notes__first_lines", detail=detail)
    assert ran == [leaves]


async def test_who_reads_stubs_has_read_the_description() -> None:
    target = Target(server=NOTES, kind=Kind.TOOL, name="first_lines")
    guidance = Guidance(usage="The first ten will do.")
    described = Settings(mode=Mode.ON, clients={}, guidance={target: guidance})
    site = await made(described=described)
    call = ("notes__first_lines", {"name": "x"})
    assert (await use(site, *call)).code == "description_required"
    told = await looked(site, "notes__first_lines")
    assert told["guidance"] == {"notes__first_lines": guidance.content}
    assert (await use(site, *call)).code != "description_required"
    await site.aclose()


async def schema(site: Site) -> Mapping[str, Any]:
    listed = (await site.ask("tools/list")).json["result"]["tools"]
    (details,) = [one for one in listed if one["name"] == "get_tool_details"]
    found: Mapping[str, Any] = details["inputSchema"]["properties"]
    return found


async def test_stubs_are_offered_only_where_programs_are_run(site: Site) -> None:
    assert (await schema(site))["detail"]["enum"] == ["full", "stubs"]
    without = await Site().furnish()
    assert (await schema(without)).keys() == {"names"}
    asked = {"names": ["notes__read"], "detail": "stubs"}
    answered = (await use(without, "get_tool_details", asked)).json["result"]
    assert answered["content"][0]["text"].startswith("The arguments are names, and no others")
    await without.aclose()
