"""A small reference plane: it carries MCP to servers, asks Douane before and reports after.

Nothing is decided here. What it cannot ask about, what it is told no to, and what it cannot read it
carries neither to a server nor to a client; whatever a result must be changed to, it is told.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
from aiohttp import web
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from gateway.domain.calls import Form
from gateway.errors import ProtocolError
from gateway.wire.jsonrpc import read_message
from gateway.wire.jsontext import WireLimits

Members = Mapping[str, Any]

RESOURCES: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(("initialize", "ping", "logging/setLevel", "server/discover"), ("mcp_server", "")),
    **dict.fromkeys(("resources/list", "resources/templates/list"), ("mcp_server", "")),
    "tools/call": ("tool", "name"),
    "prompts/get": ("prompt", "name"),
    **dict.fromkeys(
        ("resources/read", "resources/subscribe", "resources/unsubscribe"), ("resource", "uri")
    ),
}  # fmt: skip
"""A method -> the type of its resource, and the param that is its id."""
LISTS: Final = {"tools/list": ("tool", "tools"), "prompts/list": ("prompt", "prompts")}
_SENT_ON: Final = ("accept", "mcp-session-id", "mcp-protocol-version")
_PATIENCE: Final = aiohttp.ClientTimeout(total=60)
_REFUSED: Final = -32001


class Unreadable(Exception):
    """What came is no message that this plane carries."""


@dataclass(frozen=True, kw_only=True)
class Edge:
    """What a plane is told: whom it asks, how it proves itself there, and where servers are."""

    douane: str
    key: str
    servers: Mapping[str, str]
    """What clients and Douane call them -> their URLs."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request of a client, and what has to be told of it each time."""

    server: str
    claims: Members
    message: Members
    headers: Mapping[str, str]

    @property
    def method(self) -> str:
        return str(self.message["method"])

    @property
    def params(self) -> Members:
        found: Members = self.message.get("params") or {}
        return found

    def question(self, type_: str, id_: str, **context: Any) -> dict[str, Any]:
        told = {
            "agent": self.claims["client_id"],
            "arguments": self.params.get("arguments") or {},
            **context,
        }
        if version := self.headers.get("mcp-protocol-version"):
            told["protocol_version"] = version
        if task := (self.params.get("_meta") or {}).get("douane/task"):
            told["task"] = task
        return {
            "subject": {"type": "identity", "id": self.claims["sub"]},
            "action": {"name": self.method},
            "resource": {"type": type_, "id": id_, "properties": {"server": self.server}},
            "context": told,
        }


@dataclass(kw_only=True)
class Plane:
    """The proxy. It remembers keys of tokens, and nothing of a call."""

    edge: Edge
    http: aiohttp.ClientSession
    _keys: KeySet | None = field(default=None, init=False)

    async def serve(self, request: web.Request) -> web.Response:
        """Answer one request of a client."""
        server, method = request.match_info["server"], request.method
        claims = await self._claims(request, f"{self.edge.douane}/mcp/{server}")
        if claims is None or server not in self.edge.servers:
            return web.Response(status=401 if claims is None else 404)
        headers = {name: request.headers[name] for name in _SENT_ON if name in request.headers}
        if method != "POST":
            return web.Response(status=405)
        try:
            message = _read(request.content_type, await request.read())
        except ProtocolError as why:
            return web.json_response(_error(None, why.rpc_code, why.public), status=400)
        asked = Asked(server=server, claims=claims, message=message, headers=headers)
        if "id" not in message:
            if not asked.method.startswith("notifications/"):
                return web.Response(status=400)
            await self._sent(asked)
            return web.Response(status=202)
        try:
            answer, session = await self._answered(asked)
        except (aiohttp.ClientError, TimeoutError, Unreadable, KeyError) as error:
            answer, session = _refusal(asked, "upstream_failed", [], why=repr(error)), None
        named = {} if session is None else {"Mcp-Session-Id": session}
        return web.json_response(answer, headers=named)

    async def _answered(self, asked: Asked) -> tuple[Members, str | None]:
        if asked.method in LISTS:
            return await self._listed(asked)
        type_, member = RESOURCES.get(asked.method, ("", ""))
        if not type_:
            return _refusal(asked, "method_not_found", []), None
        id_ = str(asked.params[member]) if member else asked.server
        decided = await self._ask("evaluation", asked.question(type_, id_))
        if decided["decision"] is not True:
            return _no(asked, decided["context"]), None
        answer, session = await self._sent(asked)
        if "report_within" not in decided["context"]:
            return answer, session
        told = "error" if "error" in answer else "result"
        report = {"phase": "result", "decision_id": decided["context"]["decision_id"]}
        question = asked.question(type_, id_, **report, **{told: answer[told]})
        judged = await self._ask("evaluation", question)
        if judged["decision"] is not True:
            return _no(asked, judged["context"]), None
        return {**answer, **_replaced(judged["context"], answer)}, session

    async def _listed(self, asked: Asked) -> tuple[Members, str | None]:
        """Carry a list, with what a search finds in it."""
        type_, member = LISTS[asked.method]
        call = {"tool": "tools/call", "prompt": "prompts/get"}[type_]
        question = asked.question(type_, "*")
        question["action"] = {"name": call}
        found: set[str] = set()
        token = ""
        while True:
            page = await self._ask("search/resource", {**question, "page": {"token": token}})
            found |= {one["id"] for one in page["results"]}
            if not (token := page["page"]["next_token"]):
                break
        answer, session = await self._sent(asked)
        if "error" in answer:
            return _refusal(asked, "upstream_failed", []), None
        result = answer["result"]
        if not isinstance(result.get(member), list):
            raise Unreadable("a list that is none")
        shown = [
            one for one in result[member] if isinstance(one, dict) and one.get("name") in found
        ]
        return {**answer, "result": {**result, member: shown}}, session

    async def _ask(self, what: str, question: Members) -> Any:
        """Return what Douane answers.

        Raises:
            Unreadable: It is no answer: nobody knows, and so it is a no.

        """
        async with self.http.post(
            f"{self.edge.douane}/access/v1/{what}",
            json=question,
            headers={"Authorization": f"Bearer {self.edge.key}"},
        ) as answer:
            if answer.status != 200:
                raise Unreadable(f"Douane answered {answer.status}: {await answer.text()}")
            return await answer.json()

    async def _sent(self, asked: Asked) -> tuple[Members, str | None]:
        """Send what was asked about, with headers that say the same; return the one message back.

        Raises:
            Unreadable: It is not exactly that, or not to this request.

        """
        message = {**asked.message, "params": _without_ours(asked.params)}
        headers = {**asked.headers, **_mirrored(asked)}
        async with self.http.post(
            self.edge.servers[asked.server], json=message, headers=headers, allow_redirects=False
        ) as answer:
            body, session = await answer.read(), answer.headers.get("Mcp-Session-Id")
            if "id" not in asked.message:
                return {}, session
            if answer.status >= 300 and answer.status not in {400, 404, 500}:
                raise Unreadable(f"the server answered {answer.status}")
            streamed = answer.content_type == "text/event-stream"
            read = _last_event(body) if streamed else body
            return _answer_to(asked, answer.content_type, read, streamed=streamed), session

    async def _claims(self, request: web.Request, audience: str) -> Members | None:
        """Return what a client's token says, if it is a good one and for here."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer":
            return None
        if self._keys is None:
            async with self.http.get(f"{self.edge.douane}/oauth/jwks.json") as answer:
                self._keys = KeySet.import_key_set(await answer.json())
        try:
            claims = jwt.decode(token, self._keys, algorithms=["ES256"]).claims
            jwt.JWTClaimsRegistry(
                exp={"essential": True}, aud={"essential": True, "value": audience}
            ).validate(claims)
        except (JoseError, ValueError):
            return None
        return claims


def _read(media: str, body: bytes) -> Members:
    """Return the one message of a body, as Douane reads one: what is decided on is what is sent.

    Raises:
        ProtocolError: It is not one that everybody reads alike.

    """
    if media != "application/json":
        raise ProtocolError("a message is application/json")
    message = read_message(body, WireLimits())
    if message.form not in {Form.REQUEST, Form.NOTIFICATION}:
        raise ProtocolError("no request and no notification")
    found: Members = json.loads(body)
    return found


def _object(body: bytes) -> dict[str, Any]:
    def unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise Unreadable("a member stands twice")
        return dict(pairs)

    try:
        found = json.loads(body.decode(), object_pairs_hook=unique)
    except ValueError as error:
        raise Unreadable("no JSON") from error
    if not isinstance(found, dict):
        raise Unreadable("no single message")
    return found


def _answer_to(asked: Asked, media: str, body: bytes, *, streamed: bool) -> Members:
    if not streamed and media != "application/json":
        raise Unreadable(f"no message, but {media}")
    answer = _object(body)
    if answer.get("id") != asked.message["id"] or type(answer["id"]) is not type(
        asked.message["id"]
    ):
        raise Unreadable("an answer to something else")
    told = [name for name in ("result", "error") if name in answer]
    if len(told) != 1 or not isinstance(answer[told[0]], dict):
        raise Unreadable("neither a result nor an error")
    return answer


def _last_event(body: bytes) -> bytes:
    """Return the first message of a stream that is an answer; progress and logs are let through to nobody."""
    lines = body.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for event in lines.split(b"\n\n")[:-1]:
        data = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line[:5] == b"data:"]
        message = _object(b"\n".join(data)) if data else {}
        if message and "method" not in message:
            return b"\n".join(data)
    raise Unreadable("a stream without an answer")


def _mirrored(asked: Asked) -> dict[str, str]:
    if asked.headers.get("mcp-protocol-version", "") < "2026":
        return {}
    name = asked.params.get("name", asked.params.get("uri"))
    return {"Mcp-Method": asked.method, **({} if name is None else {"Mcp-Name": str(name)})}


def _without_ours(params: Members) -> Members:
    """Leave out what a host tells Douane alone."""
    if "_meta" not in params:
        return params
    kept = {name: told for name, told in params["_meta"].items() if not name.startswith("douane/")}
    rest = {name: told for name, told in params.items() if name != "_meta"}
    return {**rest, "_meta": kept} if kept else rest


def _replaced(context: Members, answer: Members) -> Members:
    """Return what is to be given out in place of what came.

    Raises:
        Unreadable: Something else is wanted, which this plane does not do.

    """
    found: dict[str, Any] = {}
    for duty in context.get("obligations", ()):
        if (
            duty["type"] != "urn:douane:duty:replace_result"
            or duty["properties"].keys() - answer.keys()
        ):
            raise Unreadable("a duty that this plane does not know")
        found |= duty["properties"]
    return found


def _no(asked: Asked, context: Members) -> Members:
    first, *rest = context["reasons"]
    named = ("decision_id", "approval_id", "approval_url")
    more = {name: context[name] for name in named if name in context}
    return _refusal(asked, first["code"], rest, why=first["message"], **more)


def _refusal(
    asked: Asked, code: str, reasons: Sequence[Members], *, why: str = "", **more: Any
) -> Members:
    said = {"code": code, "reasons": list(reasons), **more}
    id_ = asked.message["id"]
    if asked.method != "tools/call":
        return _error(id_, _REFUSED, why or code, data=said)
    text = {"type": "text", "text": f"Refused: {why or code}"}
    result = {"content": [text], "isError": True, "_meta": {"douane/refusal": said}}
    return {"jsonrpc": "2.0", "id": id_, "result": {**result, "resultType": "complete"}}


def _error(id_: Any, code: int, message: str, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": message, **more}}


@asynccontextmanager
async def carrying(edge: Edge, port: int) -> AsyncIterator[str]:
    """Run the plane until the context ends; yield its URL, below which `/mcp/SERVER` are."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=connector, timeout=_PATIENCE, cookie_jar=aiohttp.DummyCookieJar()
    ) as http:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/mcp/{server}", Plane(edge=edge, http=http).serve)
        runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
            yield f"http://127.0.0.1:{port}"
        finally:
            await runner.cleanup()


@contextmanager
def plane_in_a_thread(edge: Edge, port: int) -> Iterator[str]:
    """Run the plane on a loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    running = carrying(edge, port)
    try:
        yield asyncio.run_coroutine_threadsafe(running.__aenter__(), loop).result(20)
    finally:
        asyncio.run_coroutine_threadsafe(running.__aexit__(None, None, None), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
