"""A call whose answer is late, in front of all servers: as at the server's own endpoint."""

import asyncio
from typing import Any

import pytest

from gateway.domain.tools import OWN, Profile
from gateway.wire.extensions import TASKS
from tests.builtin.front import Site, tool
from tests.builtin.listening import TAG
from tests.pipeline.house import MAIL
from tests.pipeline.late_house import META, UPSTREAM, Works, outcomes
from tests.pipeline.late_listening import Reader, Resting, told

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


@pytest.fixture
async def site() -> Site:
    return await Site(extensions=frozenset({TASKS})).furnish()


async def begin(site: Site) -> str:
    seen = await site.ask("tools/call", {"name": "mail__search", "arguments": {}, "_meta": META})
    assert UPSTREAM.encode() not in seen.bytes
    return str(seen.json["result"]["taskId"])


async def about(site: Site, method: str, handle: str, **more: Any) -> Any:
    site.house.now += 5
    return (await site.ask(method, {"taskId": handle, **more, "_meta": META})).json


async def test_it_begins_is_followed_and_ends_as_one_call(site: Site) -> None:
    server = Works(site.house)
    handle = await begin(site)
    assert (await about(site, "tasks/get", handle))["result"]["status"] == "working"
    link = {"type": "resource_link", "uri": "mail://1", "name": "one"}
    server.completes({"content": [link]})
    told = (await about(site, "tasks/get", handle))["result"]
    assert told["taskId"] == handle
    # What it points at is read here under the name that it has here.
    assert told["result"]["content"][0]["uri"] == "douane://mail/mail://1"
    assert [one["code"] for one in outcomes(site.house)] == ["task_completed"]
    assert server.saw[-1][1]["taskId"] == UPSTREAM
    (permit,) = site.house.server.saw[-1:]
    assert dict(permit.call.headers)["mcp-name"] == UPSTREAM


async def test_it_is_cancelled_and_its_questions_are_answered(site: Site) -> None:
    server = Works(site.house)
    handle = await begin(site)
    ask = {"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema": {}}}
    server.status, server.more = "input_required", {"inputRequests": {"one": ask}}
    assert (await about(site, "tasks/get", handle))["result"]["inputRequests"] == {"one": ask}
    answers = {"one": {"action": "accept", "content": {}}}
    acked = await about(site, "tasks/update", handle, inputResponses=answers)
    assert acked["result"] == {"resultType": "complete"}
    assert server.saw[-1][1]["inputResponses"] == answers
    assert (await about(site, "tasks/cancel", handle))["result"] == {"resultType": "complete"}
    assert server.saw[-1][0] == "tasks/cancel"


async def test_a_handle_of_another_endpoint_or_of_none_is_not_found(site: Site) -> None:
    server = Works(site.house)
    handle = await begin(site)
    sent = len(server.saw)
    at_mail = site.house.request("tasks/get", {"taskId": handle, "_meta": META})
    found = (await site.house.handle(at_mail)).json["error"]
    for said in ("made-up", handle.replace("mail", ""), handle[:-1] + "x"):
        assert (await about(site, "tasks/get", said))["error"] == found
    # Of a server that has no tasks there is not even the question.
    elsewhere = (await about(site, "tasks/get", handle.replace("mail", "notes")))["error"]
    assert (elsewhere["code"], found["code"], len(server.saw)) == (-32601, -32602, sent)


async def test_what_is_declared_is_what_any_server_may_do() -> None:
    for extensions, declared in ((frozenset({TASKS}), {TASKS: {}}), (frozenset[str](), None)):
        site = await Site(extensions=extensions).furnish()
        greeted = (await site.ask("server/discover", {"_meta": META})).json["result"]
        assert greeted["capabilities"].get("extensions") == declared
        asked = await site.ask("tasks/get", {"taskId": "t"})
        assert asked.json["error"]["code"] == (-32021 if declared else -32601)
        assert site.house.rules.extensions[OWN] == extensions


async def test_a_server_for_which_it_is_not_approved_hears_nothing_of_it(site: Site) -> None:
    seen = await site.ask("tools/call", {"name": "notes__read", "arguments": {}, "_meta": META})
    assert seen.code is None
    (permit,) = site.servers["notes"].saw[-1:]  # type: ignore[index]
    declared = permit.call.message.params["_meta"][CAPABILITIES]
    assert declared["extensions"] == {}


async def test_who_declares_nothing_gets_no_task(site: Site) -> None:
    Works(site.house)
    seen = await site.ask("tools/call", {"name": "mail__search", "arguments": {}})
    assert seen.code == "upstream_failed"


async def test_a_legacy_tool_that_needs_a_task_is_not_offered() -> None:
    site = await Site().furnish(frozenset({Profile.LEGACY}))
    late = [
        tool("may", execution={"taskSupport": "optional"}),
        tool("must", execution={"taskSupport": "required"}),
    ]
    await site.show(MAIL, *late, profiles=frozenset({Profile.LEGACY}))
    site.spoken[MAIL] = frozenset({Profile.LEGACY})
    listed = (await site.ask("tools/list")).json["result"]["tools"]
    found = {one["name"]: one for one in listed}
    assert "mail__must" not in found
    assert "execution" not in found["mail__may"]


async def test_who_listens_hears_of_it_as_at_the_servers_own_endpoint(site: Site) -> None:
    server = Works(site.house)
    handle = await begin(site)
    at_all = Resting(site.house, site.aggregate)
    wanted = {"notifications": {"taskIds": [handle, UPSTREAM]}, "_meta": META}
    one = Reader(await at_all.handle(site.call("subscriptions/listen", wanted, id_=7)))
    reading = asyncio.create_task(one.read())
    await one.hears(1)
    assert one.heard[0]["params"]["notifications"] == {"taskIds": [handle]}
    link = {"type": "resource_link", "uri": "mail://1", "name": "one"}
    server.completes({"content": [link]})
    await at_all.pass_by()
    (found,) = told(one)
    assert (found["_meta"], found["status"]) == ({TAG: 7}, "completed")
    assert found["result"]["content"][0]["uri"] == "douane://mail/mail://1"
    assert [one["code"] for one in outcomes(site.house)] == ["task_completed"]
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
