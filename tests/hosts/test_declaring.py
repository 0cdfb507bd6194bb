"""What `douane_host` puts into the requests of an HTTP client, whatever answers them."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx
import httpx2
import pytest

from douane_host import conversation, declaring, http_client, task
from douane_host.wire import LONGEST_PROMPT, MOST_LOOKED_AT

URL = "https://gateway.example/mcp/mail"
LIBRARIES = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
REFUSED = {"code": 40301, "message": "no", "data": {"code": "denied", "decision_id": "d_1"}}
NOT_FOUND = {"code": -32601, "message": "Method not found"}
Answer = tuple[int, Mapping[str, Any]]


class Gateway:
    """Answers every request, and has seen what it said."""

    def __init__(self, library: Any = httpx2, *, begins: list[Answer] | None = None) -> None:
        self.seen: list[tuple[dict[str, Any], dict[str, str]]] = []
        self._library = library
        self._begins = begins
        self._begun = 0
        self.client = declaring(self.plain())

    def plain(self, **more: Any) -> Any:
        return self._library.AsyncClient(
            transport=self._library.MockTransport(self._answer),
            headers={"Authorization": "Bearer t", "Mcp-Session-Id": "s"},
            **more,
        )

    async def _answer(self, request: Any) -> Any:
        await asyncio.sleep(0)
        message = json.loads(request.content or b"null")
        assert int(request.headers.get("content-length", 0)) == len(request.content)
        self.seen.append((message, dict(request.headers)))
        status: int = 200
        told: Mapping[str, Any] = {"result": {}}
        if isinstance(message, dict) and message.get("method") == "douane/run/begin":
            self._begun += 1
            told = {"result": {"run": f"handle-{self._begun}", "idle_s": 1}}
            if self._begins:
                status, told = self._begins.pop(0)
        return self._library.Response(status, json={"jsonrpc": "2.0", "id": 1, **told})

    async def call(self, method: str = "tools/call", **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        return await self.client.post(URL, json=message)

    @property
    def methods(self) -> list[str]:
        return [message["method"] for message, _ in self.seen]

    @property
    def metas(self) -> list[Any]:
        """What `_meta` the requests had that were a client's own."""
        return [
            message.get("params", {}).get("_meta")
            for message, _ in self.seen
            if not message["method"].startswith("douane/")
        ]


@LIBRARIES
async def test_what_is_sent_for_a_task_says_so_and_nothing_else_does(library: Any) -> None:
    gateway = Gateway(library)
    await gateway.call(name="a")
    async with task("Write to Bob", tools=["mail/send"]):
        await gateway.call(name="b", arguments={"n": 1}, _meta={"progressToken": 3})
        await gateway.call("resources/read", uri="u")
    await gateway.call(name="c")
    told = {"prompt": "Write to Bob", "tools": ["mail/send"]}
    declared = {"douane/task": told, "douane/run": "handle-1"}
    assert gateway.metas == [None, {**declared, "progressToken": 3}, declared, None]
    begun, ended = (message for message, _ in gateway.seen if "douane/" in message["method"])
    assert begun["params"] == {"task": told}
    assert ended["params"] == {"run": "handle-1"}
    (call,) = (m for m, _ in gateway.seen if m["params"].get("name") == "b")
    assert (call["id"], call["params"]["arguments"]) == (7, {"n": 1})


async def test_a_request_of_our_own_speaks_the_revision_and_is_in_no_session() -> None:
    gateway = Gateway()
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "progressToken": 1}
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"_meta": meta}}
    headers = {"Mcp-Method": "tools/call", "Mcp-Name": "send", "Mcp-Param-Region": "eu"}
    async with task("Write to Bob"):
        await gateway.client.post(URL, json=message, headers=headers)
    (begin, said), (_, kept), (end, _) = gateway.seen
    assert begin["params"]["_meta"] == {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    assert end["params"]["_meta"] == begin["params"]["_meta"]
    assert said["mcp-method"] == "douane/run/begin"
    assert not {"mcp-name", "mcp-param-region", "mcp-session-id"} & said.keys()
    assert said["authorization"] == "Bearer t"
    assert (kept["mcp-method"], kept["mcp-session-id"]) == ("tools/call", "s")


@pytest.mark.parametrize(
    "content",
    [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "id": 1, "method": "server/discover"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled"},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"client_name": "registers"},
        [1],
    ],
    ids=str,
)
async def test_what_is_no_request_of_a_conversation_is_left_as_it_is(content: Any) -> None:
    gateway = Gateway()
    async with task("Write to Bob"):
        await gateway.client.post(URL, json=content)
    assert [message for message, _ in gateway.seen] == [content]


async def test_what_a_host_declares_itself_stays() -> None:
    gateway = Gateway()
    async with task("Write to Bob"):
        await gateway.call(_meta={"douane/task": {"prompt": "mine"}})
    assert gateway.metas[0]["douane/task"] == {"prompt": "mine"}


async def test_a_gateway_that_trusts_no_host_is_told_and_asked_once() -> None:
    gateway = Gateway(begins=[(200, {"error": REFUSED})])
    async with task("Write to Bob"):
        await gateway.call()
        await gateway.call()
    assert gateway.metas == [{"douane/task": {"prompt": "Write to Bob"}}] * 2
    assert gateway.methods.count("douane/run/begin") == 1
    assert "douane/run/end" not in gateway.methods


@pytest.mark.parametrize(
    "answer", [(200, {"error": NOT_FOUND}), (404, {"error": NOT_FOUND}), (503, {}), (200, {})]
)
async def test_whoever_is_no_gateway_hears_no_more_of_a_task(answer: Answer) -> None:
    gateway = Gateway(begins=[answer])
    async with task("Write to Bob"):
        await gateway.call()
        await gateway.call()
    assert gateway.metas == [None, None]
    assert gateway.methods.count("douane/run/begin") == 1


@pytest.mark.parametrize("status", [401, 307])
async def test_a_run_is_begun_with_the_request_that_is_sent_again(status: int) -> None:
    gateway = Gateway(begins=[(status, {})])
    async with task("Write to Bob"):
        await gateway.call()
        await gateway.call()
    first, second = gateway.metas
    assert (first, second["douane/run"]) == (None, "handle-2")


async def test_a_token_that_is_fetched_anew_begins_the_run() -> None:
    """What is sent again is the same request: it declares what the first time could not."""

    class Signs(httpx2.Auth):
        async def async_auth_flow(self, request: httpx2.Request) -> Any:
            request.headers["Authorization"] = "Bearer old"
            yield request
            request.headers["Authorization"] = "Bearer new"
            yield request

    gateway = Gateway(begins=[(401, {})])
    gateway.client.auth = Signs()
    async with task("Write to Bob"):
        await gateway.call()
    assert gateway.methods[:4] == [*["douane/run/begin", "tools/call"] * 2]
    assert [headers["authorization"] for _, headers in gateway.seen[1:4]] == [
        "Bearer old",
        "Bearer new",
        "Bearer new",
    ]
    assert gateway.metas[1]["douane/run"] == "handle-2"


async def test_a_run_is_for_a_gateway_not_for_an_endpoint() -> None:
    gateway = Gateway()
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {}}
    async with task("Write to Bob"):
        for url in (URL, "https://gateway.example/mcp", "https://other.example/mcp"):
            await gateway.client.post(url, json=message)
    handles = [meta["douane/run"] for meta in gateway.metas]
    assert handles == ["handle-1", "handle-1", "handle-2"]
    assert gateway.methods.count("douane/run/end") == 2


async def test_many_requests_at_once_begin_one_run() -> None:
    gateway = Gateway()
    async with task("Write to Bob"):
        await asyncio.gather(*(gateway.call() for _ in range(5)))
    assert gateway.methods.count("douane/run/begin") == 1


async def test_what_goes_on_after_a_task_is_not_of_it() -> None:
    gateway = Gateway()
    go = asyncio.Event()

    async def later() -> None:
        await go.wait()
        await gateway.call()
        async with task("another"):
            await gateway.call()

    async with task("Write to Bob"):
        left = asyncio.create_task(later())
        await gateway.call()
    go.set()
    await left
    _, unsaid, another = gateway.metas
    assert unsaid is None
    assert another["douane/task"] == {"prompt": "another"}


async def test_a_task_begins_in_no_other_one() -> None:
    async with task("Write to Bob"):
        with pytest.raises(RuntimeError, match="under way"):
            async with task("another"):
                pass
        with pytest.raises(RuntimeError, match="under way"):
            async with conversation():
                pass


async def test_a_conversation_declares_all_that_was_said_so_far() -> None:
    gateway = Gateway()
    async with conversation(tools=["a"]) as talk:
        await gateway.call()
        talk.says("one")
        await gateway.call()
        talk.says("two")
        await gateway.call()
    told = [meta["douane/task"] for meta in gateway.metas]
    assert told[:2] == [{"tools": ["a"]}, {"prompt": "one", "tools": ["a"]}]
    assert told[2]["prompt"] == "one\ntwo"
    assert gateway.seen[0][0]["params"] == {"task": {"tools": ["a"]}}


async def test_of_very_many_words_the_newest_are_declared_and_none_is_cut() -> None:
    gateway = Gateway()
    half = "x" * (MOST_LOOKED_AT // 2 - 1)
    async with conversation() as talk:
        for words in ("not-bob@client.example", half, half):
            talk.says(words)
        await gateway.call()
        talk.says("y" * MOST_LOOKED_AT)
        await gateway.call()
        talk.says("z" * 2 * LONGEST_PROMPT + "\ud800")
        await gateway.call()
        talk.says("\ud800")
        await gateway.call()
    prompts = [meta["douane/task"]["prompt"] for meta in gateway.metas]
    wanted = [f"{half}\n{half}", "y" * MOST_LOOKED_AT, "z" * LONGEST_PROMPT, "?"]
    assert prompts == wanted


async def test_the_words_of_one_request_do_not_grow() -> None:
    async with task("Write to Bob") as one:
        with pytest.raises(RuntimeError, match="conversation"):
            one.says("more")


async def test_a_task_that_fails_ends_all_the_same() -> None:
    gateway = Gateway()

    async def fails() -> None:
        async with task("Write to Bob"):
            await gateway.call()
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await fails()
    assert gateway.methods[-1] == "douane/run/end"


async def test_a_gateway_that_is_gone_keeps_no_task_from_ending() -> None:
    gateway = Gateway()
    async with task("Write to Bob"):
        await gateway.call()
        await gateway.client.aclose()
    assert "douane/run/end" not in gateway.methods


async def test_a_client_that_was_made_for_one_call_is_made_again_to_end_the_run() -> None:
    gateway = Gateway()
    transport = httpx2.MockTransport(gateway._answer)
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {}}
    client = http_client({"Authorization": "Bearer t"}, transport=transport)
    assert isinstance(client, httpx2.AsyncClient)
    async with task("Write to Bob"), client:
        await client.post(URL, json=message)
    assert gateway.methods == ["douane/run/begin", "tools/call", "douane/run/end"]
