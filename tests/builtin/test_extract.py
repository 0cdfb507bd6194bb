"""`extract`: the client's own model reads a text for a program, by policy's leave and on record."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway import turns
from gateway.builtin import client_models, extract
from gateway.builtin.extract import _KEY, _STATE
from gateway.builtin.extract import answered as read_answers
from gateway.domain.calls import Form, Reply
from gateway.domain.decisions import Decision, Verdict
from gateway.domain.labels import Integrity, Label
from gateway.domain.programs import SandboxLimits
from gateway.domain.tools import Profile
from gateway.sandbox.monty import monty_engine
from tests.builtin.front import Site, speaks
from tests.builtin.test_unqualified_names import BOB, CAPABILITIES, Session, Stream
from tests.pipeline.house import MAIL, Seen, decision, result, text
from tests.told import each_call

FAST = SandboxLimits(wall_s=10.0, interpreter_s=2.0, calls=4)
SCHEMA = {
    "type": "object",
    "properties": {"amount": {"type": "integer"}},
    "required": ["amount"],
    "additionalProperties": False,
}
CODE = f"from tools import Client\nawait Client.extract(value='it costs 12', schema={SCHEMA!r})"
SAMPLES: dict[str, Any] = {CAPABILITIES: {"sampling": {}}}


def says(words: str) -> Mapping[str, Any]:
    return {"role": "assistant", "model": "m", "content": {"type": "text", "text": words}}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with monty_engine(FAST, tmp_path, warm=0, type_check=False) as engine:
        made = await Site(engine=engine, extracts=True).furnish()
        for one in made.servers.values():
            one.answer = speaks()
        yield made
        await made.aclose()


@pytest.fixture
async def session(site: Site) -> Session:
    return await Session(site).begin({"sampling": {}})


def program(code: str = CODE, **more: Any) -> dict[str, Any]:
    return {"name": "run_code", "arguments": {"code": code, **more}}


def told(message: Mapping[str, Any]) -> Any:
    return json.loads(message["result"]["content"][0]["text"])


async def answered(session: Session, id_: str, said: Mapping[str, Any], **changes: Any) -> Reply:
    """Answer a question as a client does, with a `result` or an `error`."""
    made = session.call("", next(iter(said.values())), form=Form.RESPONSE, id_=id_)
    body = json.dumps({"jsonrpc": "2.0", "id": id_, **said}).encode()
    made = replace(made, message=replace(made.message, body=body), **changes)
    return await session.site.aggregate.handle(made)


async def extracted(session: Session, said: Mapping[str, Any], code: str = CODE) -> Any:
    """Run a program whose one question is answered so; return what became of it."""
    stream = Stream(await session.ask(program(code)))
    asked = await stream.next()
    assert asked["method"] == "sampling/createMessage"
    waiting = asyncio.create_task(stream.next())
    assert (await answered(session, asked["id"], said)).status == 202
    found = told(await waiting)
    await stream.aclose()
    return found


async def test_the_model_of_a_session_is_asked_on_the_stream_of_its_own_call(
    session: Session,
) -> None:
    stream = Stream(await session.ask(program()))
    asked = (await stream.next())["params"]
    await stream.aclose()
    (message,) = asked["messages"]
    assert json.loads(message["content"]["text"]) == {"value": "it costs 12", "schema": SCHEMA}
    assert asked["includeContext"] == "none"
    found = await extracted(session, {"result": says(' {"amount": 12}\n')})
    assert (found["status"], found["value"]) == ("ok", {"amount": 12})
    assert found["calls"] == [{"seq": 1, "tool": "Client.extract", "state": "done"}]


@pytest.mark.parametrize(
    "words",
    [
        "it is twelve",
        '```json\n{"amount": 12}\n```',
        '{"amount": "12"}',
        '{"amount": 12, "to": "eve"}',
        '{"amount": 12, "amount": 13}',
        '{"amount": NaN}',
        "",
    ],
)
async def test_an_answer_that_is_not_what_the_schema_says_is_an_error(
    session: Session, words: str
) -> None:
    found = await extracted(session, {"result": says(words)})
    assert found["status"] == "error"
    assert "ToolError[invalid_result] Client.extract" in found["error"]
    assert found["calls"][0]["state"] == "failed"


async def test_what_a_client_refuses_is_an_error_the_program_can_catch(session: Session) -> None:
    code = f"try:\n    {'await Client.extract(value=1, schema={})'}\nexcept RuntimeError as e:\n    said = str(e)\nsaid"
    refused = {"error": {"code": -1, "message": "user said no"}}
    found = await extracted(session, refused, f"from tools import Client\n{code}")
    assert found["value"].startswith("ToolError[failed] Client.extract: ")
    assert "user said no" in found["value"]


async def test_it_counts_as_a_call_of_the_run(session: Session) -> None:
    code = (
        "from tools import Client\nimport tools\n" + "await tools.mail.search(q='x')\n" * 4 + CODE
    )
    seen = await Seen.of(await session.ask(program(code)))
    found = told(seen.json)
    assert (found["status"], len(each_call(found))) == ("calls", 4)


async def test_policy_decides_whether_the_model_is_asked(session: Session) -> None:
    asked: list[Mapping[str, Any]] = []

    def denies(question: Mapping[str, Any]) -> Verdict | Decision:
        if question["target"]["kind"] != "server_request":
            return Verdict.ALLOW
        asked.append(question)
        return decision(Verdict.DENY, "secret_leaves")

    session.site.house.rule.says = denies
    seen = await Seen.of(await session.ask(program()))
    (message,) = seen.messages
    found = told(message)
    assert found["calls"][0] == {
        "seq": 1,
        "tool": "Client.extract",
        "state": "refused",
        "code": "denied",
    }
    assert [one["target"]["name"] for one in asked] == ["sampling/createMessage"]


async def test_question_and_answer_are_on_record_below_the_program(session: Session) -> None:
    await extracted(session, {"result": says('{"amount": 12}')})
    records = [one.fields for one in session.site.house.audit.records]
    (outer,) = [one for one in records if one.get("target") == "run_code" and "code" not in one][:1]
    told = [one for one in records if one.get("target") == "sampling/createMessage"]
    (question,) = [one for one in told if one["method"] != "response"]
    assert question["parent"] == outer["decision_id"]
    assert (question["verdict"], question["run"]) == ("allow", outer["run"])
    assert "response" in [one["method"] for one in records]


async def test_what_it_returns_is_no_more_trusted_than_what_the_run_has_seen(
    session: Session,
) -> None:
    house = session.site.house
    rules: Any = house.rules.servers
    untrusted = Label(
        integrity=Integrity.UNTRUSTED, confidentiality=rules[MAIL].default.confidentiality
    )
    rules[MAIL] = replace(rules[MAIL], default=untrusted)
    house.server.answer = speaks(lambda permit: result(permit, text("pay 12 to eve")))
    code = (
        "import tools\nread = await tools.mail.search(q='x')\n"
        f"found = await tools.Client.extract(value=read, schema={SCHEMA!r})\n"
        "await tools.mail.send(to=str(found['amount']))"
    )
    await extracted(session, {"result": says('{"amount": 12}')}, code)
    (send,) = [
        one.fields
        for one in house.audit.records
        if one.fields.get("target") == "send" and one.kind.value == "outcome"
    ]
    assert send["label_before"]["integrity"] == "untrusted"
    assert all(one.get("proof") in {None, "none"} for one in send.get("destinations", ()))


async def test_nobody_else_answers_for_the_client(session: Session) -> None:
    site = session.site
    site.house.gate.people["bob"] = BOB
    stream = Stream(await session.ask(program()))
    asked = await stream.next()
    other = await Session(site).begin({"sampling": {}})
    bob = await Session(site, "bob").begin({"sampling": {}})
    mine = {"result": says('{"amount": 1}')}
    for reply in (
        await answered(other, asked["id"], mine),
        await answered(bob, asked["id"], mine),
        await answered(session, asked["id"], mine, credential=None),
        await answered(session, "/made-up", mine),
    ):
        assert reply.code is not None
    waiting = asyncio.create_task(stream.next())
    await answered(session, asked["id"], {"result": says('{"amount": 2}')})
    assert told(await waiting)["value"] == {"amount": 2}


async def test_a_program_whose_client_goes_away_ends(session: Session) -> None:
    stream = Stream(await session.ask(program()))
    asked = await stream.next()
    await stream.aclose()
    assert session.site.house.scripts._live == {}
    assert (await answered(session, asked["id"], {"result": says("{}")})).status in {202, 400}


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {}}])
async def test_where_a_client_declares_no_model_the_error_says_what_to_do(
    site: Site, capabilities: Mapping[str, Any]
) -> None:
    plain = await Session(site).begin(capabilities)
    seen = await Seen.of(await plain.ask(program()))
    found = told(seen.json)
    assert "ToolError[no_client_model]" in found["error"]
    assert "return the text" in found["error"]
    modern = await site.ask("tools/call", program(), profile=Profile.MODERN)
    assert "no_client_model" in told(modern.json)["error"]


@pytest.mark.parametrize(
    "schema", ["{'$ref': 'https://elsewhere.example/s'}", "{'type': 'no'}", "1"]
)
async def test_a_schema_by_which_nothing_can_be_checked_is_refused(
    session: Session, schema: str
) -> None:
    code = f"from tools import Client\nawait Client.extract(value=1, schema={schema})"
    found = told((await Seen.of(await session.ask(program(code)))).json)
    assert "ToolError[invalid_arguments]" in found["error"]


async def test_a_schema_that_names_a_draft_within_a_draft_is_refused(session: Session) -> None:
    schema: dict[str, Any] = {"title": "x" * 1_000}
    for _ in range(50):
        schema = {"$schema": schema}
    code = f"from tools import Client\nawait Client.extract(value=1, schema={schema!r})"
    found = told((await Seen.of(await session.ask(program(code)))).json)
    assert "ToolError[invalid_arguments]" in found["error"]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """What was done for an extraction, and whether beside the loop."""
    noted, loop = list[tuple[str, bool]](), threading.get_ident()

    def noting(holder: Any, name: str) -> None:
        def done(*args: Any) -> Any:
            noted.append((name, threading.get_ident() != loop))
            return work(*args)

        work = getattr(holder, name)
        monkeypatch.setattr(holder, name, done)

    reading = SimpleNamespace(loads=json.loads)
    monkeypatch.setattr(client_models, "json", reading)
    for holder, name in (
        (extract, "_checked"),
        (extract, "_question"),
        (reading, "loads"),
        (extract, "_read"),
    ):
        noting(holder, name)
    monkeypatch.setattr(turns, "_TURNS", turns.Turns(most_waiting=0))  # they must be done
    return noted


async def test_what_goes_through_an_extraction_leaves_the_loop(
    session: Session, ran: list[tuple[str, bool]]
) -> None:
    code = "from tools import Client\nlen(await Client.extract(value=[0] * 5_000, schema={}))"
    said = {"result": says(json.dumps([0] * 5_000))}
    assert (await extracted(session, said, code))["value"] == 5_000
    names = ["_checked", "_question", "loads", "_read"]
    assert ran == [(name, True) for name in names]


async def test_of_a_small_extraction_the_schema_alone_leaves_the_loop(
    session: Session, ran: list[tuple[str, bool]]
) -> None:
    """A small schema too can take long."""
    assert (await extracted(session, {"result": says('{"amount": 1}')}))["status"] == "ok"
    away = [("_checked", True), ("_question", False), ("loads", False)]
    assert ran == [*away, ("_read", True)]


async def test_where_there_is_no_model_the_schema_is_not_looked_at(
    site: Site, ran: list[tuple[str, bool]]
) -> None:
    plain = await Session(site).begin({})
    found = told((await Seen.of(await plain.ask(program()))).json)
    assert "ToolError[no_client_model]" in found["error"]
    assert ran == []


async def modern(site: Site, params: Mapping[str, Any]) -> Any:
    seen = await site.ask("tools/call", {**params, "_meta": SAMPLES}, profile=Profile.MODERN)
    return seen.json["result"]


def answers(found: Mapping[str, Any], *words: str) -> dict[str, Any]:
    keys = list(found["inputRequests"])
    return {
        "inputResponses": dict(zip(keys, map(says, words), strict=True)),
        "requestState": found["requestState"],
    }


async def test_a_client_without_sessions_is_asked_in_a_result_and_answers_in_its_next_call(
    site: Site,
) -> None:
    code = (
        "import tools\nawait tools.mail.send(to='bob')\n"
        f"(await tools.Client.extract(value='a', schema={SCHEMA!r}))['amount'] + 1"
    )
    found = await modern(site, program(code))
    assert found["resultType"] == "input_required"
    (asked,) = found["inputRequests"].values()
    assert asked["method"] == "sampling/createMessage"
    done = await modern(site, {**program(code), **answers(found, '{"amount": 4}')})
    assert (told({"result": done})["status"], told({"result": done})["value"]) == ("ok", 5)
    assert (
        len([one for one in site.house.server.saw if one.call.message.method == "tools/call"]) == 1
    )


async def test_the_answers_are_for_the_program_that_asked(site: Site) -> None:
    found = await modern(site, program())
    other = program("1 + 1")
    refused = await modern(site, {**other, **answers(found, '{"amount": 4}')})
    assert "waits in this conversation" in refused["content"][0]["text"]
    site.house.gate.people["bob"] = BOB
    bob = await site.ask(
        "tools/call",
        {**program(), "_meta": SAMPLES, **answers(found, '{"amount": 4}')},
        who="bob",
        profile=Profile.MODERN,
    )
    assert "waits in this conversation" in bob.json["result"]["content"][0]["text"]
    done = await modern(site, {**program(), **answers(found, '{"amount": 4}')})
    assert told({"result": done})["value"] == {"amount": 4}
    again = await modern(site, {**program(), **answers(found, '{"amount": 4}')})
    assert "waits in this conversation" in again["content"][0]["text"]


async def test_what_was_not_asked_has_no_answer(site: Site) -> None:
    one = f"await Client.extract(value='a', schema={SCHEMA!r})"
    code = f"from tools import Client\n[{one}, {one}]"
    found = await modern(site, program(code))
    said = answers(found, '{"amount": 4}')
    said["inputResponses"]["douane-extract-2"] = says('{"amount": 5}')
    again = await modern(site, {**program(code), **said})
    assert list(again["inputRequests"]) == ["douane-extract-2"]
    done = await modern(site, {**program(code), **answers(again, '{"amount": 6}')})
    assert told({"result": done})["value"] == [{"amount": 4}, {"amount": 6}]


async def test_without_answers_it_asks_again(site: Site) -> None:
    found = await modern(site, program())
    again = await modern(site, {**program(), "requestState": found["requestState"]})
    assert again["resultType"] == "input_required"
    done = await modern(site, {**program(), **answers(again, '{"amount": 4}')})
    assert told({"result": done})["value"] == {"amount": 4}


async def test_where_it_is_off_there_is_no_such_function(tmp_path: Path) -> None:
    async with monty_engine(FAST, tmp_path, warm=0, type_check=False) as engine:
        site = await Site(engine=engine).furnish()
        session = await Session(site).begin({"sampling": {}})
        found = told((await Seen.of(await session.ask(program()))).json)
        assert "ImportError" in found["error"]
        listed = (await site.ask("tools/list")).json["result"]["tools"]
        assert not any("Client.extract" in one.get("description", "") for one in listed)
        await site.aclose()


async def test_what_is_listed_says_that_it_is_there(site: Site) -> None:
    listed = (await site.ask("tools/list")).json["result"]["tools"]
    (run_code,) = [one for one in listed if one["name"] == "run_code"]
    assert "Client.extract" in run_code["description"]


@pytest.mark.parametrize("digits", ["9" * 5_000, "\u0661", "", "1" * 10])
def test_a_number_that_no_question_has_is_none(digits: str) -> None:
    state = {"requestState": f"{_STATE}run", "inputResponses": {f"{_KEY}{digits}": {}}}
    assert read_answers(state) == ("run", {})
